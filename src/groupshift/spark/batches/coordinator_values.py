"""Values of coordinator records of types 2 to 8 as JSON, compiled: what brokers write all day.

The functions are written here, from the layouts in ``log/messages.json`` that the decoder in Python
(`groupshift.log.decode`) interprets: one per type, with a branch where versions differ. A classic group
(type 2) comes with what its members subscribed to and were assigned.

That decoder decides what a record means; this one only knows the usual record and gives up on all else, so
that the other one gets it: unknown versions and tags, early layouts, flexible versions of a type that began
without them, null arrays, classic members of a new group, anything left over or cut off, text beyond
printable ASCII, member bytes that end early. Where it does not give up, its JSON is that decoder's, byte for
byte. Source: docs/reference/group-coordinator.md §§1.4, 1.5.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from groupshift.log.schema import ASSIGNMENT, SUBSCRIPTION, TYPES, Field, FieldType, Schema
from groupshift.spark.batches import coordinator_json

_CLASSIC, _NEWEST = 2, 8
_WIDTHS = {FieldType.INT8: 1, FieldType.INT16: 2, FieldType.INT32: 4, FieldType.INT64: 8}
_EMBEDDED = {"subscription": SUBSCRIPTION, "assignment": ASSIGNMENT}
"""The fields of a classic member whose bytes are a message of their own."""


class _Writer:
    """Writes the source of compiled functions, line by line.

    ``constant`` is JSON that is the same in every value. It is collected until other code has to follow, so
    that what lies between two values of a record is one constant in ``names``.
    """

    def __init__(self) -> None:
        self.names = {**vars(coordinator_json), "__name__": __name__}
        self.lines: list[str] = []
        self.depth = 0
        self.constant = ""

    def line(self, code: str = "") -> None:
        """One line, behind one that writes the constant that was collected."""
        if self.constant:
            word = f"WORD_{len(self.names)}"
            self.names[word] = coordinator_json.name(self.constant)
            self.lines.append("    " * self.depth + f"put(out, place, {word})")
            self.constant = ""
        if code:
            self.lines.append("    " * self.depth + code)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """What is written meanwhile belongs below ``head``."""
        self.line(head)
        self.depth += 1
        yield
        self.line()
        self.depth -= 1

    def give_up(self, condition: str) -> None:
        """Leave the record to the decoder in Python where this is so."""
        with self.block(f"if {condition}:"):
            self.line("place[USUAL] = 0")
            self.line("return")

    def message(self, schema: Schema, *, shows_version: bool = False) -> None:
        """The version that `place` stands at, and the fields of those versions that have one encoding."""
        newest, flexible = schema.newest, schema.is_flexible(schema.oldest)
        if schema.flexible is not None and not flexible:
            newest = min(newest, schema.flexible - 1)
        self.line("version = number(data, place, 2)")
        self.give_up(f"version < {schema.oldest} or version > {newest}")
        self.constant = "{"
        if shows_version:
            self.constant += '"version":'
            self.line("show(out, place, version)")
            self.constant = ","
        self.fields(schema.fields, flexible=flexible, oldest=schema.oldest)

    def fields(self, fields: Sequence[Field], *, flexible: bool, oldest: int = 0) -> None:
        """The fields of a struct behind its opening brace, and the closing one; all have the first."""
        plain, tagged = ([each for each in fields if (each.tag is None) is known] for known in (True, False))
        for number, field in enumerate(plain):
            limits = [f"version >= {field.since}"] if field.since > oldest else []
            limits += [] if field.until is None else [f"version <= {field.until}"]
            with self.block(f"if {' and '.join(limits)}:") if limits else nullcontext():
                self.constant += f'{"," if number else ""}"{field.name}":'
                self.value(field, flexible=flexible)
        if _EMBEDDED.keys() <= {field.name for field in plain}:
            with self.block("if consumer and place[USUAL]:"):
                for name, opening in zip(_EMBEDDED, (',"embedded":{', ","), strict=True):
                    self.constant = f'{opening}"{name}":'
                    self.line(f"{name}(data, out, place, at_{name}, size_{name})")
                self.constant = "}"
        if flexible:
            self.tags(tagged)
        self.constant += "}"

    def tags(self, tagged: Sequence[Field]) -> None:
        """The tag section of a struct, with known tags only; Kafka counts them from 0."""
        if not tagged:
            self.give_up("varint(data, place) != 0")
            return
        last, tag, stop = (f"{name}_{self.depth}" for name in ("last", "tag", "stop"))
        self.line(f"{last} = -1")
        with self.block("for _ in range(varint(data, place)):"):
            self.line(f"{tag} = varint(data, place)")
            self.line(f"{stop} = varint(data, place) + place[AT]")
            self.give_up(f"place[USUAL] == 0 or {tag} <= {last} or {tag} >= {len(tagged)}")
            for field in tagged:
                with self.block(f"if {tag} == {field.tag}:"):
                    self.constant = f',"{field.name}":'
                    self.value(field, flexible=True)
            self.give_up(f"place[USUAL] == 0 or place[AT] != {stop}")
            self.line(f"{last} = {tag}")

    def value(self, field: Field, *, flexible: bool) -> None:
        """One element, or an array of them: each with a comma behind it, the last of which goes."""
        if not field.array:
            self.element(field, flexible=flexible)
            return
        count = f"count_{self.depth}"
        self.constant += "["
        self.line(f"{count} = length(data, place, {flexible:d})")
        with self.block(f"for _ in range({count}):"):
            self.element(field, flexible=flexible)
            self.constant += ","
            self.line()
            with self.block("if place[USUAL] == 0:"):
                self.line("return")
        with self.block(f"if {count}:"):
            self.line("place[OUT] -= 1")
        self.constant = "]"

    def element(self, field: Field, *, flexible: bool) -> None:
        """One element of a field."""
        nullable = field.nullable and not field.array
        if field.kind is FieldType.STRUCT and nullable:
            self.give_up("number(data, place, 1) != 0")
            self.constant += "null"
        elif field.kind is FieldType.STRUCT:
            self.constant += "{"
            self.fields(field.fields, flexible=flexible)
        elif field.kind is FieldType.UUID:
            self.line("uuid(data, out, place)")
        elif field.kind is FieldType.STRING:
            self.line(f"string(data, out, place, {flexible:d}, {nullable:d})")
        elif field.kind is FieldType.BYTES:
            self.line(
                f"size_{field.name} = {'varint(data, place) - 1' if flexible else 'number(data, place, 4)'}"
            )
            self.line(f"at_{field.name} = place[AT]")
            self.line(f"hexed(data, out, place, size_{field.name}, {nullable:d})")
        else:
            self.line(f"show(out, place, number(data, place, {_WIDTHS[field.kind]}))")


def _written() -> Any:
    """The function that writes the value of a record of type ``kind``; see `coordinator_json.AT`."""
    writer = _Writer()
    for name, schema in _EMBEDDED.items():
        writer.line("@inner")
        with writer.block(f"def {name}(data, out, place, begin, size):"):
            writer.line("after, end = place[AT], place[END]")
            writer.line("place[AT], place[END] = begin, begin + size")
            with writer.block("if size == 0:"):
                writer.constant = '{"version":null}'
            with writer.block("else:"):
                writer.message(schema, shows_version=True)
            writer.give_up("place[AT] != place[END]")
            writer.line("place[AT], place[END] = after, end")
    for number in range(_CLASSIC, _NEWEST + 1):
        writer.line("@inner")
        with writer.block(f"def type_{number}(data, out, place):"):
            if number == _CLASSIC:
                writer.line("consumer = of_consumers(data, place)")
            writer.message(TYPES[number].values[0])
    writer.line("@inner")
    with writer.block("def write_value(data, out, place, kind):"):
        for number in range(_CLASSIC, _NEWEST + 1):
            with writer.block(f"if kind == {number}:"):
                writer.line(f"type_{number}(data, out, place)")
        writer.give_up(f"kind > {_NEWEST}")
    exec("\n".join(writer.lines), writer.names)  # noqa: S102 - written above, from a file of this package
    return writer.names["write_value"]


write_value = _written()
