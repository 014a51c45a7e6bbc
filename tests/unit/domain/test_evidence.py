"""One schema for every move: each column is defined once, and form 1 is what old packs have."""

from __future__ import annotations

from collections import defaultdict

from groupshift.audit.offsets import DIFFERENCES
from groupshift.domain.evidence import FORM
from groupshift.domain.snapshot import CLUSTER_TABLES, SCHEMA, TABLES, Column, ColumnType

FORM_1 = {
    "group": "group! taken_at_ms:int64! mode_text mode_version:int32! mode_identity! effective_mode! "
    "kafka_state!",
    "members": "member_id! kind! client_id host pattern! fence:int32 mode acting_on version session_id:int64",
    "subscriptions": "member_id! topic! streams:int32!",
    "owners": "topic! partition:int32! store! member_id! thread_id czxid:int64 session_id:int64",
    "offsets": "topic! partition:int32! store! offset:int64! metadata!",
    "log_ends": "topic! partition:int32! log_start:int64! log_end:int64!",
    "ledger": "topic! partition:int32! last_delivered:int64!",
}
"""The tables of a phase's snapshot as release 0.1 writes them: ``!`` is never null."""


def written(column: Column) -> str:
    """As in `FORM_1`."""
    type_ = "" if column.type is ColumnType.STRING else f":{column.type}"
    return f"{column.name}{type_}{'' if column.nullable else '!'}"


def test_form_1_is_what_it_was() -> None:
    """Whoever changes a column has to raise `FORM`, and to keep this one readable."""
    assert FORM == 1
    assert {name: " ".join(map(written, table.columns)) for name, table in TABLES.items()} == FORM_1


def test_every_column_of_every_snapshot_is_one_of_the_schema() -> None:
    """Name and type are the schema's; a selection may forbid null, never allow it."""
    known = {name: column for columns in SCHEMA.values() for name, column in columns.items()}
    for table in (*TABLES.values(), *CLUSTER_TABLES.values()):
        for column in table.columns:
            assert column.type is known[column.name].type, (table.name, column.name)
        assert set(table.key) <= {column.name for column in table.columns}


def test_a_name_has_one_type_wherever_it_stands() -> None:
    """So that tables of different snapshots can be joined."""
    types: dict[str, set[ColumnType]] = defaultdict(set)
    for columns in (*(each.values() for each in SCHEMA.values()), DIFFERENCES.columns):
        for column in columns:
            types[column.name].add(column.type)
    assert {name: found for name, found in types.items() if len(found) > 1} == {}
