"""The history of scans in the journal's database."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from sqlalchemy import bindparam
from sqlalchemy.exc import IntegrityError

from groupshift.adapters.sqlalchemy.database import Database, Transaction, statement_of
from groupshift.domain.plain import from_plain
from groupshift.errors import Conflict
from groupshift.scan.group_state import GroupChange, GroupState, state_from, state_text, vanished
from groupshift.scan.ports import ScanRecord, ToggleRecord

VERSION = 1
"""The version of the tables that this release makes and reads."""
PAGE = 500
"""Rows read at once."""

_BEGINNERS = 5
"""How many scans of one ensemble that begin in one moment wait for each other."""

_NEWEST = 2**31 - 1


class SqlScans:
    """`groupshift.scan.ports.Scans` over SQLAlchemy Core, in the same database as the journal.

    Raises as `groupshift.adapters.sqlalchemy.database.Database`."""

    def __init__(self, url: str) -> None:
        self._database = Database(url, "scans", versions="scan_schema", version=VERSION)

    def close(self) -> None:
        """Close all connections."""
        self._database.close()

    def begin(self, ensemble: str, at_ms: int) -> ScanRecord:
        """See the port."""

        def work(transaction: Transaction) -> ScanRecord:
            transaction.execute("insert_scan", {"ensemble": ensemble, "began_at_ms": at_ms})
            return _scan(transaction.rows("last_scan", ensemble=ensemble)[0])

        for _ in range(_BEGINNERS):
            with suppress(IntegrityError):  # another scan took the number in the same moment
                return self._database.write(work)
        raise Conflict(f"other scans of {ensemble} began in the same moment; run it again")

    def end(self, record: ScanRecord) -> None:
        """See the port."""
        values = {**asdict(record), "totals": json.dumps(dict(record.totals), sort_keys=True)}
        self._database.write(lambda transaction: transaction.execute("end_scan", values))

    def latest(self, ensemble: str, before: int | None = None) -> ScanRecord | None:
        """See the port."""
        limit = _NEWEST if before is None else before
        rows = self._database.rows("latest_scan", ensemble=ensemble, before=limit)
        return _scan(rows[0]) if rows else None

    def known(self, ensemble: str, groups: Sequence[str]) -> Mapping[str, GroupState]:
        """See the port."""
        query = statement_of("scans", "list_scan_states_of")
        query = query.bindparams(bindparam("groups", expanding=True))
        rows = self._database.rows(query, ensemble=ensemble, groups=list(groups)) if groups else []
        return {str(row["group"]): state_from(row["state"]) for row in rows}

    def put(self, record: ScanRecord, states: Sequence[GroupState], changes: Sequence[GroupChange]) -> None:
        """See the port."""
        about = {"ensemble": record.ensemble, "number": record.number}
        rows = [{**about, "group": each.group, "state": state_text(each)} for each in states]
        change_rows = [{**about, **asdict(each), "aspect": each.aspect.value} for each in changes]

        def work(transaction: Transaction) -> None:
            for query, values in (("upsert_scan_state", rows), ("upsert_scan_change", change_rows)):
                if values:
                    transaction.execute(query, values)

        self._database.write(work)

    def sweep(self, record: ScanRecord) -> int:
        """See the port."""
        about = {"ensemble": record.ensemble, "number": record.number}
        gone = 0
        for rows in self._pages("page_scan_states_unseen", "group", **about):
            self.put(record, (), [vanished(str(row["group"]), state_from(row["state"])) for row in rows])
            gone += len(rows)
        self._database.write(lambda transaction: transaction.execute("delete_scan_states_unseen", about))
        return gone

    def states(self, ensemble: str) -> Iterator[GroupState]:
        """See the port."""
        pages = self._pages("page_scan_states", "group", ensemble=ensemble)
        return (state_from(row["state"]) for rows in pages for row in rows)

    def changes(self, ensemble: str, number: int) -> Iterator[GroupChange]:
        """See the port."""
        about = {"ensemble": ensemble, "number": number, "aspect": ""}
        pages = self._pages("page_scan_changes", "group", "aspect", **about)
        return (from_plain(GroupChange, row) for rows in pages for row in rows)

    def put_toggle(self, record: ScanRecord, toggle: ToggleRecord) -> None:
        """See the port."""
        about = {"ensemble": record.ensemble, "number": record.number}
        values = {**about, **asdict(toggle), "to": toggle.to.value, "state": toggle.state.value}
        self._database.write(lambda transaction: transaction.execute("upsert_scan_toggle", values))

    def toggles(self, ensemble: str, number: int) -> tuple[ToggleRecord, ...]:
        """See the port."""
        rows = self._database.rows("list_scan_toggles", ensemble=ensemble, number=number)
        return tuple(from_plain(ToggleRecord, row) for row in rows)

    def _pages(self, query: str, *last: str, **values: Any) -> Iterator[list[dict[str, Any]]]:
        """Page after page: the next one begins behind the columns ``last`` of a page's last row; the first of
        them is asked for as ``after``."""
        parameters = {**values, "after": "", "limit": PAGE}
        while rows := self._database.rows(query, **parameters):
            yield rows
            parameters |= {**{name: rows[-1][name] for name in last}, "after": rows[-1][last[0]]}


def _scan(row: dict[str, Any]) -> ScanRecord:
    return from_plain(ScanRecord, {**row, "totals": json.loads(row["totals"])})
