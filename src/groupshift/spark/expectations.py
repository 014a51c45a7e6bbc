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
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

from groupshift.domain.evidence import Store
from groupshift.domain.modes import MemberKind, Mode
from groupshift.domain.snapshot import TABLES
from groupshift.domain.verdict import Verdict, worst
from groupshift.spark.checks import Offence, Rows, Ruled, ruled

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
        """Return the module.

        Raises:
            ImportError: importing it raised that.
        """
        return self._module.result()


SOMEBODY = "there is a member"
"""Expected of every group that is not meant to be empty."""


def _pairs(gx: Any, name: str) -> list[tuple[str, Any]]:
    """(sentence, expectation) pairs that a table must meet. Every table of a snapshot: its columns, its key,
    its nulls; what particular tables must meet besides is listed here."""
    in_set, at_least = gx.ExpectColumnValuesToBeInSet, gx.ExpectColumnValuesToBeBetween
    ordered = gx.ExpectColumnPairValuesAToBeGreaterThanB
    stores = [("store is a store", in_set(column="store", value_set=[*map(str, Store)]))]
    particular: dict[str, list[tuple[str, Any]]] = {
        "group": [
            ("the snapshot is of one group", gx.ExpectTableRowCountToEqual(value=1)),
            ("effective_mode is a mode", in_set(column="effective_mode", value_set=[*map(str, Mode)])),
        ],
        "members": [
            ("kind is a kind of member", in_set(column="kind", value_set=[*map(str, MemberKind)])),
            (SOMEBODY, gx.ExpectTableRowCountToBeBetween(min_value=1, severity="warning")),
        ],
        "subscriptions": [("streams are at least 1", at_least(column="streams", min_value=1))],
        "owners": stores,
        "offsets": stores,
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
    if name not in TABLES:
        return particular[name]
    names, key = [column.name for column in TABLES[name].columns], list(TABLES[name].key)
    columns = gx.ExpectTableColumnsToMatchOrderedList(column_list=names, severity="critical")
    unique = gx.ExpectColumnValuesToBeUnique(column=key[0], severity="critical")
    if len(key) > 1:
        unique = gx.ExpectCompoundColumnsToBeUnique(column_list=key, severity="critical")
    filled = [column.name for column in TABLES[name].columns if not column.nullable]
    return [
        ("columns are the promised ones", columns),
        (f"key ({', '.join(key)}) is unique", unique),
        *((f"{each} is never empty", gx.ExpectColumnValuesToNotBeNull(column=each)) for each in filled),
        *particular[name],
    ]


def positions(tables: Mapping[str, Rows]) -> Rows:
    """Return every offset beside log start and end of its partition (offsets of unknown partitions left
    out)."""
    bounds = {(row["topic"], row["partition"]): row for row in tables["log_ends"]}
    return [
        {**row, "log_start": bound["log_start"], "log_end": bound["log_end"]}
        for row in tables["offsets"]
        if (bound := bounds.get((row["topic"], row["partition"])))
    ]


def expectations(
    gx: Any, snapshots: Mapping[str, Mapping[str, Rows]], *, nobody: bool = False
) -> dict[str, tuple[Expected, ...]]:
    """Return by moment what every expectation says of every table of a snapshot (rows by table), as Great
    Expectations (``gx``) judges it in one context that is kept nowhere.

    With ``nobody`` the group is meant to be empty, or was: a member is not expected."""
    import pandas as pd
    from great_expectations.data_context.types.base import ProgressBarsConfig

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    by_moment = {}
    for moment, tables in snapshots.items():
        source, results = context.data_sources.add_pandas(moment), list[Expected]()
        for name, rows in {**tables, POSITIONS: positions(tables)}.items():
            if not rows and name == POSITIONS:
                continue
            suite = gx.ExpectationSuite(name=f"{moment}.{name}")
            for sentence, expectation in _pairs(gx.expectations, name):
                if not (nobody and sentence == SOMEBODY):
                    expectation.meta = {"sentence": sentence}
                    suite.add_expectation(expectation)
            columns = list(rows[0]) if rows else [column.name for column in TABLES[name].columns]
            frame = pd.DataFrame([dict(row) for row in rows], columns=columns)
            whole = source.add_dataframe_asset(name).add_batch_definition_whole_dataframe("all")
            batch = whole.get_batch(batch_parameters={"dataframe": frame})
            outcome = batch.validate(suite, result_format="COMPLETE")
            results += (_expected(name, rows, one) for one in outcome.to_json_dict()["results"])
        by_moment[moment] = tuple(results)
    return by_moment


def _expected(table: str, rows: Rows, result: Mapping[str, Any]) -> Expected:
    """One answer of Great Expectations."""
    config, values_seen = result["expectation_config"], result["result"]
    raised = result.get("exception_info", {})
    about = {
        "table": table,
        "sentence": config["meta"]["sentence"],
        "severity": config.get("severity", "critical"),
    }
    if result["success"]:
        return Expected(**about, success=True)
    detail = f"found {values_seen.get('observed_value', 'nothing')}"
    if values := values_seen.get("partial_unexpected_list"):
        detail = f"{values_seen.get('unexpected_count', len(values))} unexpected, first {values[0]}"
    elif raised.get("raised_exception"):
        detail = str(raised.get("exception_message", "could not be evaluated"))
    unexpected = values_seen.get("unexpected_index_list") or ()
    return Expected(**about, success=False, detail=detail, rows=tuple(rows[int(at)] for at in unexpected))


FAILING_COLUMNS = (
    "snapshot string, table string, expectation string, severity string, topic string, row string, "
    "partition int"
)
"""Columns of ``failing_rows.parquet``: ``row`` is the whole row as JSON."""


def failing_rows(results: Mapping[str, Sequence[Expected]]) -> list[dict[str, Any]]:
    """Return every row that an expectation named, by snapshot, table and expectation."""
    return [
        {
            "snapshot": moment,
            "table": one.table,
            "expectation": one.sentence,
            "severity": one.severity,
            "topic": row.get("topic"),
            "partition": row.get("partition"),
            "row": json.dumps(dict(row), ensure_ascii=False),
        }
        for moment, expected in results.items()
        for one in expected
        for row in one.rows
    ]


def judged(rule: str, moment: str, results: Sequence[Expected]) -> Ruled:
    """Return one finding for the suite of one snapshot; the worst severity that failed decides."""
    failed = [result for result in results if not result.success]
    failing = [Offence(reason=f"table {one.table}: {one.sentence} ({one.detail})") for one in failed]
    verdict = worst(_VERDICTS[one.severity] for one in failed) if failed else Verdict.PASS
    if verdict is Verdict.PASS:
        held = f"snapshot {moment}: all {len(results) - len(failed)} expectations hold"
        return ruled(rule, "; ".join([held, *(f"explained: {one.reason}" for one in failing)]), ())
    hint = "the snapshot itself is not sound; take it again and look at the group"
    return ruled(rule, "", failing, verdict=verdict, hint=hint)
