"""The Great Expectations suite of a snapshot, made from `groupshift.domain.snapshot.TABLES`.

Every table is small (members, partitions), so the suite runs on the rows Spark collected: 0.05 s per
table instead of more than 1 s as Spark jobs; and so it names the rows that fail, which it cannot on Spark.
Importing Great Expectations takes about 9 s of one core; `Library` does it beside the start of the JVM.

Great Expectations' own pages (Data Docs) are not made: they load scripts and fonts from five hosts. The
report of the comparison and ``verdict.json`` have every expectation, ``failing_rows.parquet`` the rows.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

from groupshift.domain.evidence import Store
from groupshift.domain.modes import MemberKind, Mode
from groupshift.domain.snapshot import TABLES, Table
from groupshift.domain.verdict import Verdict, worst
from groupshift.spark.checks import Offence, Ruled, ruled

Rows = Sequence[Mapping[str, Any]]
POSITIONS = "positions"
"""The derived table: every offset beside the bounds of its log."""

_VERDICTS = {"critical": Verdict.FAIL, "warning": Verdict.INCONCLUSIVE, "info": Verdict.PASS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What one expectation said about one table: ``detail`` names values that were not expected, ``rows``
    are the rows that hold them (none where the table as a whole is wrong)."""

    table: str
    sentence: str
    severity: str
    success: bool
    detail: str = ""
    rows: tuple[Mapping[str, Any], ...] = ()


class Library:
    """Great Expectations, imported beside other work; `get` waits for it."""

    def __init__(self) -> None:
        os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
        logging.getLogger("great_expectations").setLevel(logging.WARNING)
        beside = ThreadPoolExecutor(1, thread_name_prefix="import-great-expectations")
        self._module = beside.submit(import_module, "great_expectations")

    def get(self) -> ModuleType:
        """The module. Raises the `ImportError` that importing it raised."""
        return self._module.result()


def _of_table(gx: Any, table: Table) -> list[tuple[str, Any]]:
    """(sentence, expectation) pairs every snapshot table must meet: its columns, its key, its nulls."""
    names = [column.name for column in table.columns]
    one = len(table.key) == 1
    unique = (
        gx.ExpectColumnValuesToBeUnique(column=table.key[0], severity="critical")
        if one
        else gx.ExpectCompoundColumnsToBeUnique(column_list=list(table.key), severity="critical")
    )
    columns = gx.ExpectTableColumnsToMatchOrderedList(column_list=names, severity="critical")
    filled = [
        (f"{column.name} is never empty", gx.ExpectColumnValuesToNotBeNull(column=column.name))
        for column in table.columns
        if not column.nullable
    ]
    return [
        ("columns are the promised ones", columns),
        (f"key ({', '.join(table.key)}) is unique", unique),
        *filled,
    ]


SOMEBODY = "there is a member"
"""Expected of every group that is not meant to be empty."""


def _particular(gx: Any) -> dict[str, list[tuple[str, Any]]]:
    """What particular tables must meet besides."""
    in_set, at_least = gx.ExpectColumnValuesToBeInSet, gx.ExpectColumnValuesToBeBetween
    ordered = gx.ExpectColumnPairValuesAToBeGreaterThanB
    return {
        "group": [
            ("the snapshot is of one group", gx.ExpectTableRowCountToEqual(value=1)),
            ("effective_mode is a mode", in_set(column="effective_mode", value_set=[*map(str, Mode)])),
        ],
        "members": [
            ("kind is a kind of member", in_set(column="kind", value_set=[*map(str, MemberKind)])),
            (SOMEBODY, gx.ExpectTableRowCountToBeBetween(min_value=1, severity="warning")),
        ],
        "subscriptions": [("streams are at least 1", at_least(column="streams", min_value=1))],
        "owners": [("store is a store", in_set(column="store", value_set=[*map(str, Store)]))],
        "offsets": [("store is a store", in_set(column="store", value_set=[*map(str, Store)]))],
        "log_ends": [
            ("log start is at least 0", at_least(column="log_start", min_value=0)),
            ("log end >= log start", ordered(column_A="log_end", column_B="log_start", or_equal=True)),
        ],
        "ledger": [("last_delivered is at least 0", at_least(column="last_delivered", min_value=0))],
        POSITIONS: [
            (
                "offset >= log start (below it the reader's own reset rule decides: explained, see V10)",
                ordered(column_A="offset", column_B="log_start", or_equal=True, severity="info"),
            ),
            ("offset <= log end", ordered(column_A="log_end", column_B="offset", or_equal=True)),
        ],
    }


def positions(tables: Mapping[str, Rows]) -> Rows:
    """Every offset beside log start and end of its partition (offsets of unknown partitions left out)."""
    bounds = {(row["topic"], row["partition"]): row for row in tables["log_ends"]}
    return [
        {**row, "log_start": bound["log_start"], "log_end": bound["log_end"]}
        for row in tables["offsets"]
        if (bound := bounds.get((row["topic"], row["partition"])))
    ]


class Suite:
    """One ephemeral context for the snapshots of a job; `validate` may be called for each."""

    def __init__(self, gx: ModuleType) -> None:
        from great_expectations.data_context.types.base import ProgressBarsConfig

        self._gx: Any = gx
        self._context: Any = self._gx.get_context(mode="ephemeral")
        self._context.variables.progress_bars = ProgressBarsConfig(globally=False)
        for site in list(self._context.variables.data_docs_sites or {}):
            self._context.delete_data_docs_site(site)

    def validate(
        self, moment: str, tables: Mapping[str, Rows], *, nobody: bool = False
    ) -> tuple[Expected, ...]:
        """All expectations of all tables of one snapshot; ``moment`` names it within this context.

        With ``nobody`` the group is meant to be empty, or was: a member is not expected."""
        source = self._context.data_sources.add_pandas(moment)
        library = self._gx.expectations
        particular = _particular(library)
        results: list[Expected] = []
        for name, rows in {**tables, POSITIONS: positions(tables)}.items():
            table = TABLES.get(name)
            pairs = (_of_table(library, table) if table else []) + particular.get(name, [])
            pairs = [pair for pair in pairs if not nobody or pair[0] != SOMEBODY]
            if rows or table:
                results.extend(self._run(source, name, rows, pairs))
        return tuple(results)

    def _run(self, source: Any, name: str, rows: Rows, pairs: list[tuple[str, Any]]) -> list[Expected]:
        import pandas as pd

        table = TABLES.get(name)
        columns = list(rows[0]) if rows else [column.name for column in table.columns] if table else []
        frame = pd.DataFrame([dict(row) for row in rows], columns=columns)
        title = f"{source.name}.{name}"
        batch = source.add_dataframe_asset(name).add_batch_definition_whole_dataframe("all")
        suite = self._context.suites.add(self._gx.ExpectationSuite(name=title))
        for sentence, expectation in pairs:
            expectation.meta = {"sentence": sentence}
            suite.add_expectation(expectation)
        definition = self._gx.ValidationDefinition(name=title, data=batch, suite=suite)
        outcome = self._context.validation_definitions.add(definition).run(
            batch_parameters={"dataframe": frame}, result_format={"result_format": "COMPLETE"}
        )
        return [_expected(name, rows, result) for result in outcome.to_json_dict()["results"]]


def _expected(table: str, rows: Rows, result: Mapping[str, Any]) -> Expected:
    config, success = result["expectation_config"], bool(result["success"])
    unexpected = () if success else result["result"].get("unexpected_index_list") or ()
    return Expected(
        table=table,
        sentence=str(config["meta"]["sentence"]),
        severity=str(config.get("severity", "critical")),
        success=success,
        detail="" if success else _detail(result),
        rows=tuple(rows[int(index)] for index in unexpected),
    )


def _detail(result: Mapping[str, Any]) -> str:
    found = result["result"]
    if values := found.get("partial_unexpected_list"):
        return f"{found.get('unexpected_count', len(values))} unexpected, first {values[0]}"
    if result.get("exception_info", {}).get("raised_exception"):
        return str(result["exception_info"].get("exception_message", "could not be evaluated"))
    return f"found {found.get('observed_value', 'nothing')}"


def expectation_data(results: Mapping[str, Sequence[Expected]]) -> tuple[dict[str, Any], ...]:
    """What was expected of the snapshots (by moment) and came of it, for ``verdict.json``."""
    return tuple(
        {"snapshot": moment, **asdict(one), "rows": len(one.rows)}
        for moment, found in results.items()
        for one in found
    )


_TEXTS = ("snapshot", "table", "expectation", "severity", "topic", "row")
FAILING_COLUMNS = {**dict.fromkeys(_TEXTS, "string"), "partition": "int"}
"""Columns of ``failing_rows.parquet``: ``row`` is the whole row as JSON."""


def failing_rows(results: Mapping[str, Sequence[Expected]]) -> list[dict[str, Any]]:
    """Every row that an expectation named, by snapshot, table and expectation."""
    named = ((moment, one, row) for moment, found in results.items() for one in found for row in one.rows)
    return [
        {
            **{name: row.get(name) for name in ("topic", "partition")},
            **{name: getattr(one, name) for name in ("table", "severity")},
            "snapshot": moment,
            "expectation": one.sentence,
            "row": json.dumps(dict(row), ensure_ascii=False),
        }
        for moment, one, row in named
    ]


def judged(rule: str, moment: str, results: Sequence[Expected]) -> Ruled:
    """One finding for the suite of one snapshot; the worst severity that failed decides."""
    failed = [result for result in results if not result.success]
    found = [
        Offence(topic=None, partition=None, reason=f"table {one.table}: {one.sentence} ({one.detail})")
        for one in failed
    ]
    verdict = worst(_VERDICTS[one.severity] for one in failed) if failed else Verdict.PASS
    if verdict is Verdict.PASS:
        held = f"snapshot {moment}: all {len(results) - len(failed)} expectations hold"
        return ruled(rule, "; ".join([held, *(f"explained: {one.reason}" for one in found)]), ())
    hint = "the snapshot itself is not sound; take it again and look at the group"
    return ruled(rule, "", found, verdict=verdict, hint=hint)
