"""Steps are checked when they are defined, and put in order by what they read."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import parqlake
from parqlake.core.errors import InputError, InvalidNameError, InvalidOptionError
from parqlake.pipeline import (
    Pipeline,
    changes,
    cursor,
    expect,
    files,
    fresh,
    jdbc,
    maintain,
    new_files,
    references,
    row_count,
    table,
    unique,
)
from parqlake.pipeline.dedupe import Order, parse_order
from parqlake.pipeline.expectations import Action
from parqlake.pipeline.graph import Node, ordered
from parqlake.pipeline.maintain import policy_of
from parqlake.pipeline.steps import make_step


def rows(batch: Any) -> Any:
    return batch


def nothing() -> None:
    return None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "merge"}, r'mode="merge" matches rows by key'),
        ({"mode": "merg", "keys": ["id"]}, 'did you mean "merge"'),
        ({"keys": ["id"]}, 'mean nothing to mode="append"'),
        ({"dedupe": "at desc"}, "one row for each key"),
        ({"mode": "merge", "keys": ["id"], "dedupe": "at down"}, "cannot be read"),
        ({"mode": "merge", "keys": ["id"], "strategy": "upserts"}, 'did you mean "upsert"'),
        ({"strategy": "insert"}, 'is for mode="merge"'),
        ({"effective": "at"}, 'is for mode="scd2"'),
        ({"where": "id > 1"}, 'is for mode="overwrite"'),
        ({"incremental": "updated_at"}, "is no cursor"),
        ({"incremental": cursor("at", lookback="2h")}, "a lookback sees rows again"),
        ({"mode": "snapshot", "keys": ["id"], "incremental": cursor("at")}, "needs all rows each time"),
        ({"mode": "overwrite", "incremental": cursor("at")}, "would replace all rows"),
        ({"source": new_files("landing"), "incremental": cursor("at")}, "leave incremental out"),
        ({"source": {"a": table("t.y"), "b": changes("t.z")}, "incremental": cursor("at")}, "leave incremental out"),
        ({"mode": "snapshot", "keys": ["id"], "source": new_files("landing")}, r"use files\(…\) or table"),
        ({"mode": "merge", "strategy": "full_merge", "keys": ["id"], "source": changes("t.y")}, "needs all rows"),
        ({"mode": "snapshot", "keys": ["id"], "expect": [expect("a", "x").drop()]}, "or .fail"),
        ({"mode": "merge", "strategy": "full_merge", "keys": ["id"], "incremental": cursor("at")}, "needs all rows"),
        ({"schema_mode": "loose"}, "schema_mode='loose' is unknown"),
        ({"expect": ["amount > 0"]}, "is no expectation"),
        ({"expect": [expect("a", "x"), expect("a", "y")]}, 'two expectations are called "a"'),
        ({"expect": [expect("a", "x").quarantine("t.x")]}, "the target itself"),
        ({"maintain": "128MB"}, "write for instance maintain"),
        ({"source": "landing/"}, "is no source"),
        ({"source": {"since": table("t.y")}}, "cannot be called 'since'"),
        ({"keys": [1], "mode": "merge"}, "must be a list of names"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        make_step(nothing, **{"target": "t.x", **options})


def test_a_function_asks_only_for_what_there_is() -> None:
    assert make_step(rows, target="t.x", source=table("t.y")).parameters == ("batch",)
    with pytest.raises(InvalidOptionError, match="asks for 'batch'"):
        make_step(rows, target="t.x")

    def misspelt(sinse: Any, spark: Any, limit: int = 3, **others: Any) -> None:
        return None

    with pytest.raises(InvalidOptionError, match='did you mean "since"'):
        make_step(misspelt, target="t.x")
    with pytest.raises(InvalidOptionError, match="has no name"):
        make_step(lambda: None, target="t.x")
    with pytest.raises(InvalidNameError):
        make_step(nothing, target="orders")


def test_expectations_say_what_is_done() -> None:
    rule = expect("positive", "amount >= 0")
    assert [r.action for r in (rule, rule.warn(), rule.drop(), rule.fail())] == ["fail", "warn", "drop", "fail"]
    assert rule.quarantine("t.bad").table == "t.bad"
    assert rule.quarantine("t.bad").warn().table is None
    assert unique("a", "b").warn().action is Action.WARN
    assert references("c", "crm.customers.id").column == "id"
    for wrong in (
        lambda: expect("", "x"),
        lambda: expect("x", " "),
        lambda: unique(),
        lambda: row_count(),
        lambda: row_count(3, 2),
        lambda: row_count(-1),
        lambda: references("c", "id"),
        lambda: fresh("c", "soon"),
    ):
        with pytest.raises(InputError):
            wrong()
    with pytest.raises(InvalidNameError):
        rule.quarantine("bad")


def test_upkeep_is_checked_when_it_is_said() -> None:
    assert policy_of(maintain(compact="64MiB", cluster_by="day", expire="30d")) == {
        "maintain.rewrite": "true",
        "maintain.target_mb_per_file": "64.0",
        "maintain.expire_older_than": "2592000s",
        "maintain.vacuum_older_than": "never",
        "cluster_by": '["day"]',
    }
    assert policy_of(maintain(vacuum="7d")) == {"maintain.rewrite": "false", "maintain.vacuum_older_than": "604800s"}
    for wrong in ({}, {"compact": "large"}, {"vacuum": "1s"}, {"cluster_by": [1]}, {"expire": "soon"}):
        with pytest.raises(InvalidOptionError):
            maintain(**wrong)  # type: ignore[arg-type]


def test_orders_are_read_as_people_write_them() -> None:
    assert parse_order("updated_at DESC, `odd name` asc") == (Order("updated_at", True), Order("odd name"))
    assert parse_order(["n"]) == (Order("n"),)
    for wrong in ("", "a b c", [], [3], 7):
        with pytest.raises(InvalidOptionError):
            parse_order(wrong)


def test_a_password_in_an_address_is_refused() -> None:
    source = jdbc("jdbc:postgresql://db/shop", "orders", user="etl", password="hidden")
    assert "hidden" not in repr(source)
    for url in (
        "jdbc:postgresql://etl:hidden@db/shop",
        "jdbc:mysql://db/shop?password=hidden",
        "jdbc:mysql://db/shop?user=u&password1=hidden",
        "jdbc:oracle:thin:scott/hidden@db:1521:orcl",
        "jdbc:databricks://db:443;PWD=hidden",
        "jdbc:sqlserver://db;accessToken=hidden",
        "postgresql://db/shop",
    ):
        with pytest.raises(InvalidOptionError) as raised:
            jdbc(url, "orders")
        assert "hidden" not in str(raised.value)
    for wrong in (
        lambda: files(["landing", "s3a://AKIA:hidden@bucket/x"]),
        lambda: files("https://host/x.csv?sv=1&sig=hidden"),
        lambda: new_files("sftp://u:hidden@host/x"),
    ):
        with pytest.raises(InvalidOptionError, match="holds a password, key or token") as raised:
            wrong()
        assert "hidden" not in str(raised.value)
    for fine in ("abfss://box@account.dfs.core.windows.net/x", "hdfs://a:8020/x", "landing/key=1/day=2", "C:/x"):
        assert files(fine).shown == new_files(fine).folder == fine
    for fine in ("jdbc:sqlserver://db:1433;databaseName=x", "jdbc:oracle:thin:@db:1521:orcl", "jdbc:sqlite:/a.db"):
        assert jdbc(fine, "t").shown == f"{fine} t"


def test_steps_run_after_those_whose_tables_they_read(warehouse: parqlake.Lake) -> None:
    p = Pipeline("shop", lake=warehouse)
    p.step(target="gold.daily", name="daily", source=table("silver.orders"))(rows)
    p.step(target="silver.orders", name="orders", expect=[expect("a", "b").quarantine("silver.bad")])(nothing)
    p.step(target="gold.bad", name="bad", source=table("silver.bad"), reads=["crm.names"])(rows)
    with pytest.raises(InvalidOptionError, match='step "orders" of the same pipeline writes; to see what the run'):
        p.step(target="gold.worse", name="worse", reads=["silver.bad"])(nothing)
    p.step(target="gold.seen", name="seen", source=changes("silver.orders"))(rows)
    assert [step.name for step in p.steps] == ["orders", "daily", "bad", "seen"]
    with pytest.raises(InputError, match="in a circle: daily → back → daily"):
        p.step(target="silver.orders", name="back", source=table("gold.daily"))(rows)
    assert len(p.steps) == 4
    with pytest.raises(InvalidOptionError, match='has a step "bad" already'):
        p.step(target="gold.bad", name="bad")(nothing)
    with pytest.raises(InvalidOptionError, match='did you mean "target"'):
        p.step(targett="gold.bad")  # type: ignore[call-arg, typeddict-unknown-key]


def test_circles_are_named() -> None:
    def node(writes: str, reads: str) -> Node:
        return Node(frozenset({writes}), frozenset({reads}))

    with pytest.raises(InputError, match=r"a → b → c → a|b → c → a → b|c → a → b → c"):
        ordered({"a": node("t.a", "t.c"), "b": node("t.b", "t.a"), "c": node("t.c", "t.b"), "d": node("t.d", "t.a")})
    assert ordered({"self": node("t.a", "t.a")}) == ["self"]


@given(st.lists(st.tuples(st.integers(0, 6), st.frozensets(st.integers(0, 6), max_size=3)), max_size=7))
def test_an_order_is_found_whenever_there_is_one(wanted: list[tuple[int, frozenset[int]]]) -> None:
    nodes = {
        f"s{n}": Node(frozenset({f"t.{n}"}), frozenset(f"t.{r}" for r in reads if r < n))
        for n, (_, reads) in enumerate(wanted)
    }
    shuffled = dict(sorted(nodes.items(), key=lambda item: wanted[int(item[0][1:])][0]))
    done: set[str] = set()
    for name in ordered(shuffled):
        assert {f"s{t.removeprefix('t.')}" for t in nodes[name].reads} <= done
        done.add(name)
    assert done == set(nodes)


def test_a_plan_needs_no_spark(warehouse: parqlake.Lake) -> None:
    def no_spark() -> Any:
        raise AssertionError("a plan needs no session")

    p = Pipeline("shop", lake=warehouse, spark=no_spark)
    with pytest.raises(InvalidOptionError, match="has no steps"):
        p.plan()
    p.step(target="silver.orders", name="orders", incremental=cursor("n", start=0))(nothing)
    p.step(target="gold.daily", name="daily", source=table("silver.orders"))(rows)
    plan = p.plan()
    assert [(s.name, s.is_new, s.after) for s in plan.steps] == [("orders", True, ()), ("daily", True, ("orders",))]
    assert "cursor [0, 9223372036854775807]" in str(plan)
    assert plan.to_dict()["steps"][1]["sources"] == ("table silver.orders, made by the run",)
    with pytest.raises(InvalidOptionError, match="has a cursor that 0 lies on"):
        other = Pipeline("other", lake=warehouse, spark=no_spark)
        other.step(target="silver.orders", name="orders")(nothing)
        other.run(backfill=(0, 1, 1))
    with pytest.raises(InvalidOptionError, match="use mode='merge' with keys"):
        p.run(backfill=(0, 1, 1))
    p.step(target="gold.seen", name="seen", source=changes("silver.orders"))(rows)
    assert p.plan().steps[-1].sources == ("changes of silver.orders, which is not there yet",)
    with pytest.raises(InvalidOptionError, match='did you mean "orders"'):
        p.stream(checkpoint="none", step="order")
