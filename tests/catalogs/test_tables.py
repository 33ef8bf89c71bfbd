"""Tables by name: create, drop, undrop, rename, properties, tags, and names that try to be something else."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from catalog_support import SCHEMA, START, Lab, id_file, record

from parqlake.catalogs.catalog import SqlCatalog
from parqlake.core.errors import ConcurrentDropError, InputError, TableExistsError, TableNotFoundError
from parqlake.core.model import Tag
from parqlake.core.names import TableName

HOSTILE = [
    "'; drop table lake; --",
    '"; drop table lake; --',
    "%s ? :name {0} $1",
    "naïve ☃ 表 \U0001f9ca",
    "..",
    "a/b\\c",
    "null",
    "",
    "x" * 1000,
    "\x01\x1f\x7f",
]
UNHOLDABLE = ["a\0b", "\ud800"]


def test_a_table_comes_back_as_it_was_created(lab: Lab) -> None:
    info = lab.table
    assert (info.partition_by, info.sort_by, info.properties) == (("name",), ("id",), {"a": "b"})
    assert (info.created_at, info.dropped_at) == (START, None)
    with lab.catalog.read() as reader:
        assert reader.table(info.name) == info
        assert reader.table_by_id(info.table_id) == info
        assert reader.tables() == [info]
        assert reader.tables("main") == [info]
        assert reader.tables("other") == []
        assert reader.table(TableName("main", "nothing")) is None
        assert reader.table_by_id(99) is None
        head = reader.head(info.table_id)
        assert (head.version, head.schema_id) == (0, 1)
        assert reader.schema(info.table_id, 1).equals(SCHEMA, check_metadata=True)
        assert reader.files(info.table_id, 0) == []
        assert reader.segment_ids(info.table_id, 0) == []


def test_tables_are_listed_by_name(lab: Lab) -> None:
    names = [TableName("b", "x"), TableName("a", "Z"), TableName("a", "b"), TableName("B", "y"), TableName("a", "ä")]
    for name in names:
        lab.new_table(name)
    with lab.catalog.read() as reader:
        assert [info.name for info in reader.tables()] == sorted([*names, lab.table.name])
        assert [info.name for info in reader.tables("a")] == sorted(n for n in names if n.namespace == "a")


def test_a_name_is_given_once(lab: Lab) -> None:
    with pytest.raises(TableExistsError, match=str(lab.table.name)):
        lab.new_table(lab.table.name)
    with lab.catalog.write() as writer, pytest.raises(TableExistsError):
        writer.create_table(
            uuid="u",
            name=lab.table.name,
            location="l",
            schema=SCHEMA,
            partition_by=[],
            sort_by=[],
            properties={},
            created_at=START,
        )
    other = lab.new_table()
    assert other.table_id > lab.table_id
    with lab.catalog.read() as reader:
        assert len(reader.tables()) == 2


def test_a_dropped_name_can_be_used_again_and_the_table_comes_back(lab: Lab) -> None:
    old = lab.table
    lab.change([id_file()])
    with lab.catalog.write() as writer:
        writer.drop_table(old.table_id, START + timedelta(days=1))
    with lab.catalog.read() as reader:
        assert reader.table(old.name) is None
        assert reader.tables() == []
        assert reader.heads() == {}
        dropped = reader.table_by_id(old.table_id)
        assert dropped is not None
        assert dropped.dropped_at == START + timedelta(days=1)
        assert reader.dropped_tables(old.name) == [dropped]
        assert len(reader.files(old.table_id, 1)) == 1
    new = lab.new_table(old.name)
    with pytest.raises(TableExistsError), lab.catalog.write() as writer:
        writer.undrop_table(old.table_id, old.name)
    with lab.catalog.write() as writer:
        writer.drop_table(new.table_id, START + timedelta(days=2))
    with lab.catalog.read() as reader:
        assert [info.table_id for info in reader.dropped_tables(old.name)] == [new.table_id, old.table_id]
    with lab.catalog.write() as writer:
        writer.undrop_table(old.table_id, TableName("main", "back"))
    with lab.catalog.read() as reader:
        back = reader.table(TableName("main", "back"))
        assert back is not None
        assert (back.table_id, back.dropped_at, back.location) == (old.table_id, None, old.location)
        assert [info.table_id for info in reader.dropped_tables(old.name)] == [new.table_id]
    assert lab.change([id_file()]).version == 2


def test_drop_and_undrop_in_one_transaction(lab: Lab) -> None:
    with lab.catalog.write() as writer:
        writer.drop_table(lab.table_id, START)
        writer.undrop_table(lab.table_id, lab.table.name)
    with lab.catalog.read() as reader:
        assert reader.table(lab.table.name) == lab.table


def test_dropping_what_is_not_there(lab: Lab) -> None:
    with lab.catalog.write() as writer:
        writer.drop_table(lab.table_id, START)
        with pytest.raises(ConcurrentDropError):
            writer.drop_table(lab.table_id, START)
        with pytest.raises(ConcurrentDropError):
            writer.rename_table(lab.table_id, TableName("a", "b"))
        for call in (writer.drop_table, writer.undrop_table, writer.rename_table, writer.set_properties):
            with pytest.raises(TableNotFoundError, match="999"):
                _call(call, 999)
    live = lab.new_table()
    with lab.catalog.write() as writer, pytest.raises(TableExistsError, match="not dropped"):
        writer.undrop_table(live.table_id, TableName("a", "b"))


def _call(call: Callable[..., None], table_id: int) -> None:
    arguments = {"drop_table": START, "set_properties": {}}
    call(table_id, arguments.get(call.__name__, TableName("a", "b")))


def test_rename(lab: Lab) -> None:
    other = lab.new_table()
    new = TableName("elsewhere", "renamed")
    with lab.catalog.write() as writer:
        writer.rename_table(lab.table_id, lab.table.name)
        with pytest.raises(TableExistsError):
            writer.rename_table(lab.table_id, other.name)
        writer.rename_table(lab.table_id, new)
    with lab.catalog.read() as reader:
        assert reader.table(lab.table.name) is None
        found = reader.table(new)
        assert found is not None
        assert (found.table_id, found.location) == (lab.table_id, lab.table.location)
    lab.new_table(lab.table.name)


def test_properties_are_replaced(lab: Lab) -> None:
    with lab.catalog.write() as writer:
        writer.set_properties(lab.table_id, {"k'": "v\0\ud800", "": ""})
    with lab.catalog.read() as reader:
        found = reader.table_by_id(lab.table_id)
    assert found is not None
    assert found.properties == {"k'": "v\0\ud800", "": ""}


def test_tags_are_made_moved_and_deleted(lab: Lab) -> None:
    for name, version in (("z", 1), ("a", 2), ("z", 3)):
        with lab.catalog.write() as writer:
            writer.set_tag(Tag(lab.table_id, name, version, START + timedelta(days=version)))
    with lab.catalog.write() as writer:
        assert writer.tags(lab.table_id) == [
            Tag(lab.table_id, "a", 2, START + timedelta(days=2)),
            Tag(lab.table_id, "z", 3, START + timedelta(days=3)),
        ]
        assert writer.delete_tag(lab.table_id, "a")
        assert not writer.delete_tag(lab.table_id, "a")
        assert writer.tags(lab.table_id + 1) == []
    with lab.catalog.read() as reader:
        assert [tag.name for tag in reader.tags(lab.table_id)] == ["z"]


def test_hostile_names_are_data(lab: Lab, catalog: SqlCatalog) -> None:
    for text in HOSTILE:
        name = TableName(text, text)
        info = lab.new_table(name)
        made = record(text, txn_id=f"txn{text}")
        catalog.begin_transaction(made, [info.table_id])
        lab.change([id_file(path=text, partition={text: text})], table_id=info.table_id, txn_id=made.txn_id)
        with catalog.write() as writer:
            writer.set_tag(Tag(info.table_id, text, 1, START))
            writer.set_properties(info.table_id, {text: text})
            writer.add_tombstones(info.table_id, [text, text], txn_id=text, reason=text, at=START)
            writer.add_tombstones(info.table_id, [text], txn_id=text, reason=text, at=START)
        with catalog.read() as reader:
            found = reader.table(name)
            assert found is not None
            assert (found.name, found.properties) == (name, {text: text})
            assert [(entry.path, entry.partition) for entry in reader.files(info.table_id, 1)] == [(text, {text: text})]
            assert [tag.name for tag in reader.tags(info.table_id)] == [text]
            by_key = reader.transaction_by_key(text)
            assert by_key is not None
            assert by_key.txn_id == made.txn_id
            assert reader.tables(text) == [found]
        with catalog.write() as writer:
            assert writer.delete_tag(info.table_id, text)
            writer.drop_table(info.table_id, START)
    with catalog.read() as reader:
        assert reader.table(lab.table.name) == lab.table


@pytest.mark.parametrize("text", UNHOLDABLE)
def test_names_that_some_database_cannot_hold_are_refused_by_all(lab: Lab, catalog: SqlCatalog, text: str) -> None:
    calls: list[Callable[[], object]] = [
        lambda: lab.new_table(TableName(text, "a")),
        lambda: lab.new_table(TableName("a", text)),
        lambda: catalog.begin_transaction(record(text)),
        lambda: catalog.begin_transaction(record(txn_id=text)),
        lambda: catalog.renew_lease(text, timedelta(1)),
        lambda: catalog.abort_transaction(text),
    ]
    for call in calls:
        with pytest.raises(InputError):
            call()
    with catalog.read() as reader:
        for read in (reader.transaction, reader.transaction_by_key, reader.tables):
            with pytest.raises(InputError):
                read(text)
        with pytest.raises(InputError):
            reader.table(TableName("a", text))
    with catalog.write() as writer:
        with pytest.raises(InputError):
            writer.set_tag(Tag(lab.table_id, text, 1, START))
        with pytest.raises(InputError):
            writer.rename_table(lab.table_id, TableName(text, "a"))
        with pytest.raises(InputError):
            writer.add_tombstones(lab.table_id, [text], txn_id="t", reason="r", at=START)
    with catalog.read() as reader:
        assert reader.tables() == [lab.table]
        assert reader.transactions() == []
