"""Expectations on Spark: rows are marked, counted and sampled in the pass that reads them; tables are asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from parqlake.core.errors import InvalidOptionError, QualityError, column_not_found
from parqlake.core.model import from_micros
from parqlake.pipeline.expectations import Action, TableCheck, TableRule
from parqlake.pipeline.report import RuleReport
from parqlake.pipeline.spark_columns import column, moment
from parqlake.pipeline.steps import Step
from parqlake.pipeline.windows import Cursor, Point, Window

RULES = "__parqlake_rules"
ROUTE = "__parqlake_route"
_MET = "__parqlake_met_"
_COUNT = "__parqlake_n"
_DROPPED = ""
_SAMPLE_CHARACTERS = 1_000
_SHOWN_VALUES = 3


@dataclass(frozen=True, slots=True)
class Counted:
    """What was counted while rows went by."""

    rows: int
    kept: int
    dropped: int
    highest: Point | None
    """Of the cursor."""
    rules: tuple[RuleReport, ...]


class Audit:
    """The rows of a step, marked by its expectations; counts are there once they were read once.

    A rule is met by a row if its condition is TRUE. Rows that break a rule which drops or quarantines are kept apart
    from the others by a column; `kept` leaves them out, `rejected` gives those of one table.
    """

    def __init__(self, frame: Any, step: Step, *, samples: bool) -> None:
        """Plans the marks and counts; nothing is read yet."""
        from pyspark.errors import AnalysisException
        from pyspark.sql import Observation
        from pyspark.sql import functions as F  # noqa: N812 (as everybody calls it)

        self._step = step
        self._columns = list(frame.columns)
        rules = step.row_rules
        conditions = {}
        for number, rule in enumerate(rules):
            try:
                kind = frame.select(F.expr(rule.condition)).schema.fields[0].dataType.simpleString()
            except AnalysisException as error:
                reason = str(error).splitlines()[0]
                raise InvalidOptionError(
                    f'step "{step.name}": expectation "{rule.name}" ({rule.condition}) does not fit the rows: {reason}'
                ) from error
            if kind != "boolean":
                raise InvalidOptionError(
                    f'step "{step.name}": expectation "{rule.name}" ({rule.condition}) is a {kind}, and not a condition'
                )
            conditions[f"{_MET}{number}"] = F.coalesce(F.expr(rule.condition), F.lit(False))
        marked = frame.withColumns(conditions) if conditions else frame
        self._routes = any(rule.action in (Action.DROP, Action.QUARANTINE) for rule in rules)
        if self._routes:
            marked = marked.withColumns({ROUTE: self._route(F), RULES: self._broken(F)})
        metrics = [F.count(F.lit(1)).alias("rows")]
        if self._routes:
            metrics.append(F.count(F.when(F.col(ROUTE).isNull(), 1)).alias("kept"))
            metrics.append(F.count(F.when(F.col(ROUTE) == _DROPPED, 1)).alias("dropped"))
        if step.incremental is not None:
            metrics.append(F.max(_place(frame, step.incremental)).alias("highest"))
        row = F.substring(F.to_json(F.struct(*(column(name) for name in self._columns))), 1, _SAMPLE_CHARACTERS)
        for number in range(len(rules)):
            broken = ~F.col(f"{_MET}{number}")
            metrics.append(F.count(F.when(broken, 1)).alias(f"broken_{number}"))
            if samples:  # the least and the greatest: two rows of bounded size that any number of tasks agrees on
                shown = F.when(broken, row)
                metrics += [F.min(shown).alias(f"low_{number}"), F.max(shown).alias(f"high_{number}")]
        self._observation = Observation()
        marked = marked.observe(self._observation, *metrics)
        self.frame = marked.drop(*conditions)

    @property
    def kept(self) -> Any:
        """The rows for the target."""
        if not self._routes:
            return self.frame
        return self.frame.where(f"{ROUTE} is null").drop(ROUTE, RULES)

    def rejected(self, table: str, *, run_id: str, at: datetime) -> Any:
        """The rows for a quarantine, with what they broke, and when."""
        from pyspark.sql import functions as F  # noqa: N812

        bad = self.frame.where(F.col(ROUTE) == table).drop(ROUTE).withColumnRenamed(RULES, "_rules")
        return bad.withColumns({"_run_id": F.lit(run_id), "_quarantined_at": moment(at)})

    def counted(self) -> Counted:
        """The counts of the first full read."""
        found = self._observation.get
        rows = int(found["rows"])
        highest = found.get("highest")
        reports = []
        for number, rule in enumerate(self._step.row_rules):
            ends = [found.get(f"low_{number}"), found.get(f"high_{number}")]
            shown = tuple(dict.fromkeys(str(row) for row in ends if row is not None))
            broken = int(found[f"broken_{number}"])
            reports.append(RuleReport(rule.name, str(rule.action), broken, rule.condition, shown))
        counts = self._step.incremental is not None and self._step.incremental.counts
        place: Point | None = None if highest is None else int(highest) if counts else from_micros(int(highest))
        return Counted(rows, int(found.get("kept", rows)), int(found.get("dropped", 0)), place, tuple(reports))

    def _route(self, F: Any) -> Any:  # noqa: N803
        """The quarantine that a row goes to, by the first rule that sends it to one; else whether it is dropped."""
        rules = list(enumerate(self._step.row_rules))
        first = [rule for rule in rules if rule[1].action is Action.QUARANTINE]
        last = [rule for rule in rules if rule[1].action is Action.DROP]
        ways = [
            F.when(~F.col(f"{_MET}{number}"), F.lit(rule.table if rule.table is not None else _DROPPED))
            for number, rule in (*first, *last)
        ]
        return F.coalesce(*ways, F.lit(None).cast("string"))

    def _broken(self, F: Any) -> Any:  # noqa: N803
        names = [F.when(~F.col(f"{_MET}{n}"), F.lit(rule.name)) for n, rule in enumerate(self._step.row_rules)]
        return F.concat_ws(", ", *names)


def windowed(frame: Any, cursor: Cursor, window: Window, *, by_keys: bool) -> Any:
    """The rows of the window; those without a value are in none.

    Unless rows go by keys, a run begins beyond the highest value of the one before; by a date that would leave out what
    comes later on the same day.
    """
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import DateType

    if not by_keys and cursor.column in frame.columns and frame.schema[cursor.column].dataType == DateType():
        raise InvalidOptionError(
            f'the cursor\'s column "{cursor.column}" is a date: rows that come later on the same day would never be '
            'taken; use mode="merge" with keys, which takes the last day again, or a cursor by a timestamp'
        )
    place = _column(frame, cursor)
    low, high = (F.lit(end) if isinstance(end, int) else moment(end) for end in (window.since, window.until))
    above = place >= low if window.with_since else place > low
    below = place <= high if window.with_until else place < high
    return frame.where(above & below)


Ask = Callable[[str, list[str] | None], Any]
"""A Spark frame of a table as the commit will leave it, of some columns."""


def ask_table(
    rule: TableRule, step: Step, *, ask: Ask, batch: Any, kept: int, at: datetime, samples: bool
) -> RuleReport:
    """Whether a rule about many rows holds, asked of the table as it is to be committed.

    Args:
        rule: the rule.
        step: whose target it is about.
        ask: reads a table with what the run did to it.
        batch: the rows that the run writes.
        kept: how many they are.
        at: the time of the run.
        samples: whether to show some of the values that break it.
    """
    from pyspark.sql import functions as F  # noqa: N812

    broken, detail, shown = 0, "", ()
    names = list(rule.columns)
    if rule.check is TableCheck.ROW_COUNT:
        least, most = rule.least or 0, kept if rule.most is None else rule.most
        broken = max(least - kept, kept - most, 0)
        detail = f"{kept:,} rows"
    elif rule.check is TableCheck.FRESH:
        newest = ask(step.target, names).agg(F.max(F.unix_micros(column(names[0]).cast("timestamp")))).first()[0]
        assert rule.age is not None
        stale = newest is None or at - from_micros(newest) > rule.age
        broken, detail = int(stale), "no value" if newest is None else f"newest {from_micros(newest).isoformat()}"
    else:
        if rule.check is TableCheck.UNIQUE:
            keys = [column(name) for name in names]
            counted = ask(step.target, names).groupBy(*keys).agg(F.count(F.lit(1)).alias(_COUNT))
            bad = counted.where(f"{_COUNT} > 1").drop(_COUNT)
        else:
            assert rule.table is not None and rule.column is not None
            _known(batch, names[0])
            known = ask(rule.table, [rule.column]).select(column(rule.column).alias("__parqlake_known")).distinct()
            values = batch.select(column(names[0])).where(column(names[0]).isNotNull())
            bad = values.join(known, column(names[0]) == F.col("__parqlake_known"), "left_anti").distinct()
        broken = bad.count()
        if broken and samples:
            first = bad.orderBy(*(column(name) for name in names)).limit(_SHOWN_VALUES)
            shown = tuple(row[0] for row in first.select(F.to_json(F.struct("*"))).collect())
        detail = f"{broken:,} values"
    return RuleReport(rule.name, str(rule.action), broken, detail, shown)


def broken(step: Step, pipeline: str, rules: Sequence[RuleReport]) -> QualityError:
    """The error that says which rules keep a run from being committed, with rows that break them."""
    lines = []
    for rule in rules:
        if rule.failed:
            lines.append(f'  "{rule.name}" ({rule.detail}): {rule.broken:,} broken')
            lines += [f"    {sample}" for sample in rule.samples]
    return QualityError(
        f'step "{step.name}" of pipeline "{pipeline}": what would be committed to {step.target} is not '
        "as expected; nothing was committed\n" + "\n".join(lines)
    )


def check_empty(step: Step, pipeline: str, counted: Counted) -> None:
    """Raises if a step would delete all rows of its target because none came, and nobody said that this may be."""
    expected = any(rule.check is TableCheck.ROW_COUNT for rule in step.table_rules)
    if step.deletes_missing and not counted.kept and not expected:
        raise QualityError(
            f'step "{step.name}" of pipeline "{pipeline}" returned no rows, which would delete all rows of '
            f"{step.target}; nothing was committed. If that can be meant, say so: expect=[row_count(0)]"
        )


def _place(frame: Any, cursor: Cursor) -> Any:
    """A cursor's value as a number that can be compared and kept."""
    from pyspark.sql import functions as F  # noqa: N812

    place = _column(frame, cursor)
    return place if cursor.counts else F.unix_micros(place)


def _column(frame: Any, cursor: Cursor) -> Any:
    _known(frame, cursor.column)
    kind = frame.schema[cursor.column].dataType.simpleString()
    whole = kind in ("tinyint", "smallint", "int", "bigint")
    if whole != cursor.counts or (not whole and kind not in ("date", "timestamp", "timestamp_ntz", "string")):
        raise InvalidOptionError(
            f'the cursor\'s column "{cursor.column}" is a {kind}; '
            + ("give cursor(…, start=0) for a number" if whole else "a cursor is a timestamp, a date or a whole number")
        )
    # Text that is no moment is no value: else one such row would fail every run.
    return column(cursor.column).try_cast("bigint" if cursor.counts else "timestamp")


def _known(frame: Any, name: str) -> None:
    if name not in frame.columns:
        raise column_not_found(name, frame.columns)
