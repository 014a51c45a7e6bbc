"""Differences between two snapshots, by class, and the equality rules that allow some of them.

Pure: frames in, a frame out. Every difference is one row::

    table string      which table it was found in
    class string      lost | extra | regressed | advanced | metadata_only
    topic, partition, store    null where they do not apply
    subject string    what differs, for people: ``orders-3 (zookeeper)``, ``member g_m1-2``
    before, after string       the two values, null where absent

`Rules` are read from the JSON that `groupshift.domain.equality` makes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import reduce
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name the whole Spark world uses

from groupshift import foreign_files
from groupshift.domain.equality import RULES_VERSION
from groupshift.domain.foreign_json import FILE_BYTES, load_json
from groupshift.errors import Rejected
from groupshift.foreign_files import text_of

Tables = Mapping[str, DataFrame]


class Difference(StrEnum):
    """The five classes of differences."""

    LOST = "lost"
    EXTRA = "extra"
    REGRESSED = "regressed"
    ADVANCED = "advanced"
    METADATA_ONLY = "metadata_only"


COLUMNS = ("table", "class", "topic", "partition", "store", "subject", "before", "after")


def _side(frame: DataFrame, key: tuple[str, ...], moment: str) -> DataFrame:
    renamed = [
        F.col(f"`{name}`").alias(name if name in key else f"{moment}_{name}") for name in frame.columns
    ]
    return frame.select(*renamed).withColumn(f"in_{moment}", F.lit(True))


def _pair(before: DataFrame, after: DataFrame, *key: str) -> DataFrame:
    """Full outer join on ``key``: columns ``before_x``, ``after_x`` and ``in_before``, ``in_after``."""
    return _side(before, key, "before").join(_side(after, key, "after"), list(key), "full_outer")


def _presence() -> Column:
    lost = F.when(F.col("in_after").isNull(), Difference.LOST.value)
    return lost.when(F.col("in_before").isNull(), Difference.EXTRA.value)


def _shape(pairs: DataFrame, table: str, class_: Column, **columns: Column) -> DataFrame:
    """The common columns of `pairs`, only rows that belong to a class."""
    empty = {name: F.lit(None).cast("string") for name in ("topic", "store", "before", "after")}
    given = {**empty, "partition": F.lit(None).cast("int"), **columns}
    given |= {"table": F.lit(table), "class": class_}
    return pairs.select(*(given[name].alias(name) for name in COLUMNS)).where(F.col("class").isNotNull())


def _named_partition() -> Column:
    return F.concat_ws("-", F.col("topic"), F.col("partition").cast("string"))


def offsets(before: DataFrame, after: DataFrame) -> DataFrame:
    """Committed offsets by (topic, partition, store)."""
    pairs = _pair(before, after, "topic", "partition", "store")
    class_ = (
        _presence()
        .when(F.col("after_offset") < F.col("before_offset"), Difference.REGRESSED.value)
        .when(F.col("after_offset") > F.col("before_offset"), Difference.ADVANCED.value)
        .when(F.col("after_metadata") != F.col("before_metadata"), Difference.METADATA_ONLY.value)
    )
    same = F.col("class") == Difference.METADATA_ONLY.value

    def value(moment: str) -> Column:
        text = F.col(f"{moment}_offset").cast("string")
        return F.when(same, F.concat(text, F.lit(" "), F.to_json(F.struct(f"{moment}_metadata")))).otherwise(
            text
        )

    return _shape(
        pairs.withColumn("class", class_),
        "offsets",
        F.col("class"),
        topic=F.col("topic"),
        partition=F.col("partition"),
        store=F.col("store"),
        subject=F.concat(_named_partition(), F.lit(" ("), F.col("store"), F.lit(")")),
        before=value("before"),
        after=value("after"),
    )


def log_ends(before: DataFrame, after: DataFrame) -> DataFrame:
    """Partitions that appeared or went, and logs whose end went back."""
    pairs = _pair(before, after, "topic", "partition")
    class_ = _presence().when(F.col("after_log_end") < F.col("before_log_end"), Difference.REGRESSED.value)

    def value(moment: str) -> Column:
        bounds = F.concat_ws(", ", F.col(f"{moment}_log_start"), F.col(f"{moment}_log_end"))
        return F.when(F.col(f"in_{moment}"), F.concat(F.lit("["), bounds, F.lit("]")))

    return _shape(
        pairs,
        "log_ends",
        class_,
        topic=F.col("topic"),
        partition=F.col("partition"),
        subject=_named_partition(),
        before=value("before"),
        after=value("after"),
    )


def members(before: DataFrame, after: DataFrame) -> DataFrame:
    """Members that came, went, or changed their kind."""
    pairs = _pair(before, after, "member_id")
    changed = F.col("before_kind") != F.col("after_kind")
    return _shape(
        pairs,
        "members",
        _presence().when(changed, Difference.METADATA_ONLY.value),
        subject=F.concat(F.lit("member "), F.col("member_id")),
        before=F.col("before_kind"),
        after=F.col("after_kind"),
    )


def subscriptions(before: DataFrame, after: DataFrame) -> DataFrame:
    """Topics subscribed by the group, with the sum of its members' streams."""

    def per_topic(frame: DataFrame) -> DataFrame:
        return frame.groupBy("topic").agg(F.sum("streams").alias("streams"))

    pairs = _pair(per_topic(before), per_topic(after), "topic")
    changed = F.col("before_streams") != F.col("after_streams")
    return _shape(
        pairs,
        "subscriptions",
        _presence().when(changed, Difference.METADATA_ONLY.value),
        topic=F.col("topic"),
        subject=F.concat(F.lit("topic "), F.col("topic")),
        before=F.concat(F.col("before_streams").cast("string"), F.lit(" streams")),
        after=F.concat(F.col("after_streams").cast("string"), F.lit(" streams")),
    )


def owners(before: DataFrame, after: DataFrame) -> DataFrame:
    """Partitions whose owner is another one, or that gained or lost all owners."""

    def per_partition(frame: DataFrame) -> DataFrame:
        name = F.coalesce(F.col("thread_id"), F.col("member_id"))
        names = F.array_join(F.sort_array(F.collect_list(name)), " and ")
        return frame.groupBy("topic", "partition").agg(names.alias("owner"))

    pairs = _pair(per_partition(before), per_partition(after), "topic", "partition")
    changed = F.col("before_owner") != F.col("after_owner")
    return _shape(
        pairs,
        "owners",
        _presence().when(changed, Difference.METADATA_ONLY.value),
        topic=F.col("topic"),
        partition=F.col("partition"),
        subject=F.concat(F.lit("owner of "), _named_partition()),
        before=F.col("before_owner"),
        after=F.col("after_owner"),
    )


def group(before: DataFrame, after: DataFrame) -> DataFrame:
    """The mode: the text of the mode node and the mode in effect."""
    pairs = _pair(before, after, "group")

    def value(moment: str) -> Column:
        text = F.coalesce(F.col(f"{moment}_mode_text"), F.lit("absent"))
        mode = F.col(f"{moment}_effective_mode")
        return F.when(F.col(f"in_{moment}"), F.concat(mode, F.lit(" (node: "), text, F.lit(")")))

    changed = (F.col("before_effective_mode") != F.col("after_effective_mode")) | ~F.col(
        "before_mode_text"
    ).eqNullSafe(F.col("after_mode_text"))
    return _shape(
        pairs,
        "group",
        _presence().when(changed, Difference.METADATA_ONLY.value),
        subject=F.concat(F.lit("mode of group "), F.col("group")),
        before=value("before"),
        after=value("after"),
    )


_COMPARED = {
    "group": group,
    "members": members,
    "subscriptions": subscriptions,
    "owners": owners,
    "offsets": offsets,
    "log_ends": log_ends,
}


def differences(before: Tables, after: Tables) -> DataFrame:
    """All differences of all compared tables (the ledger is a witness, not a subject)."""
    parts = [compare(before[name], after[name]) for name, compare in _COMPARED.items()]
    return reduce(DataFrame.unionByName, parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What one comparison allows. ``allowed`` says it per class of offset difference; ``replaced``
    members changed from kind ``old`` to ``new``; ``gap`` is in records; ``mode_text`` is the text the
    mode node must hold afterwards (None: absent); ``effective_mode`` is ``kafka`` or ``zookeeper``;
    ``nobody``: the group is to be empty afterwards. ``log`` is what the log answers about offsets that
    advanced and were delivered to nobody: topic, partition, from, to (exclusive), answer, and why."""

    stage: str
    moment: str
    allowed: Mapping[Difference, bool]
    gap: int
    kafka_mode: bool
    replaced: int
    old: str
    new: str
    mode_text: str | None
    ledger_required: bool
    nobody: bool = False
    log: tuple[tuple[str, int, int, int, str, str], ...] = ()

    @property
    def effective_mode(self) -> str:
        """The mode that must be in effect in the later snapshot."""
        return "kafka" if self.kafka_mode else "zookeeper"


def _allowed(offsets: Mapping[str, Any]) -> dict[Difference, bool]:
    words = {"allowed": True, "never": False}
    return {kind: words[offsets[kind.value]] for kind in Difference}


def from_data(data: Mapping[str, Any]) -> Rules:
    """Rules from plain values. Raises `Rejected`, naming the key, when they are not complete."""
    try:
        if data["version"] != RULES_VERSION:
            raise Rejected(f"rules version {data['version']!r} is not {RULES_VERSION}; update groupshift")
        members = data["members"]
        equal = members["change"] == "equal"
        return Rules(
            stage=str(data["stage"]),
            moment=str(data["moment"]),
            allowed=_allowed(data["offsets"]),
            gap=int(data["commit_interval_records"]),
            kafka_mode=bool(data["kafka_mode"]),
            replaced=0 if equal else int(members["count"]),
            old="" if equal else str(members["from"] or ""),
            new="" if equal else str(members["to"] or ""),
            mode_text=data["mode_node"]["to"],
            ledger_required=data.get("ledger") == "required",
            nobody=data.get("owners") == "nobody",
            log=tuple(_answer(each) for each in data.get("log", ())),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Rejected(f"the rules lack or spoil the key {error}; plan the migration again") from error


def _answer(each: Mapping[str, Any]) -> tuple[str, int, int, int, str, str]:
    return (
        str(each["topic"]),
        int(each["partition"]),
        int(each["from"]),
        int(each["to"]),
        str(each["answer"]),
        str(each["reason"]),
    )


def read(path: Path) -> Rules:
    """Rules from a JSON file. Raises `Rejected` when it is missing or not such a file."""
    try:
        data = load_json(text_of(foreign_files.read(path)), "it", at_most=FILE_BYTES)
    except FileNotFoundError:
        raise Rejected(f"the rules file {path} does not exist; give --rules an existing file") from None
    except OSError as error:
        why = error.strerror or error
        raise Rejected(f"the rules file {path} cannot be read ({why}); give --rules another") from error
    except (ValueError, Rejected) as error:
        raise Rejected(f"the rules file {path} is not JSON ({error})") from error
    if not isinstance(data, dict):
        raise Rejected(f"the rules file {path} holds no JSON object")
    return from_data(data)
