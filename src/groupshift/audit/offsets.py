"""The three-way audit of committed offsets: the coordinators' answer, their log and ZooKeeper.

It judges one (group, topic, partition) at a time. Commits go on while the sources are read, so a difference
between two readings proves nothing by itself. The log's position is taken before and after the coordinators
are asked: what they answer must be the last commit before that bracket or one within it. An absence counts
only where a second source says it too. An audit leaves the table of differences and a summary in plain
values.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any

from groupshift.audit.inputs import Key, LogSide, Terms, ZookeeperGroup
from groupshift.audit.rules import KAFKA_RULES, STORE_RULES, AuditRule, Weight
from groupshift.audit.sources import Sources
from groupshift.domain.foreign_json import whole_number
from groupshift.domain.plain import from_plain
from groupshift.domain.rows import GONE, ClusterState
from groupshift.domain.snapshot import Column, ColumnType, Table
from groupshift.log.decode import Position


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """One key whose sources differ, with what each of them says (None: nothing).

    ``log_partition`` and ``log_offset`` say where the deciding record lies, ``foreign_partition`` and
    ``foreign_offset`` one that lies elsewhere and the offset that it commits."""

    group: str
    topic: str
    partition: int
    kind: str
    weight: Weight
    rule: str
    reason: str
    remedy: str
    answered: int | None
    logged: int | None
    zookeeper: int | None
    mode: str | None
    log_partition: int | None
    log_offset: int | None
    foreign_partition: int | None
    foreign_offset: int | None
    log_end: int | None

    @property
    def key(self) -> Key:
        """Group, topic, partition."""
        return self.group, self.topic, self.partition


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """One look at all keys: how many there were, and those that do not agree in every source.

    ``problems`` are sentences about what could not be read, ``unread`` those that say that coordinators or
    ZooKeeper did not tell all of a group (empty name: of all); ``elsewhere`` the partitions of the log that
    hold commits of the suspicious groups although those belong to another."""

    keys: int
    mismatches: tuple[Mismatch, ...]
    problems: tuple[str, ...] = ()
    unread: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    elsewhere: frozenset[int] = frozenset()

    @property
    def agreeing(self) -> int:
        """How many keys say the same in every source."""
        return self.keys - len(self.mismatches)

    @property
    def suspicious(self) -> tuple[Mismatch, ...]:
        """Those that are not explained."""
        return tuple(one for one in self.mismatches if one.weight is not Weight.EXPLAINED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What an audit found, and of what. ``began_ms`` and ``ended_ms`` are epoch ms; ``zookeeper`` is whether
    there was one to ask; ``retention_ms`` None: the brokers do not tell."""

    began_ms: int
    ended_ms: int
    cluster_id: str
    zookeeper: bool
    retention_ms: int | None
    looked: Looked

    @property
    def clean(self) -> bool:
        """Whether every difference is explained, and every source told all it has."""
        return not self.looked.suspicious and not self.looked.unread


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What was read within one bracket, all but the log: its positions ``opened`` and ``closed`` are known,
    its records up to there are still to be read (of ``partitions`` only, None: of all).

    ``zookeeper`` None: there is none; ``groups`` None: every group of any source."""

    admin: ClusterState
    zookeeper: Mapping[str, ZookeeperGroup] | None
    opened: Position
    closed: Position
    terms: Terms
    groups: Collection[str] | None = None
    partitions: Collection[int] | None = None


def audit(reading: Reading, log: LogSide) -> Looked:
    """Every key of any source held against the others.

    ``log`` holds the records between the positions ``opened`` and ``closed`` of ``reading``; a group that is
    not in its ``zookeeper`` does not exist there. Pure; raises nothing."""
    sources = Sources(reading.admin, log, reading.zookeeper or {}, reading.terms)
    keys = sources.all_keys()
    rows = ((key, sources.row(key)) for key in keys if not sources.plainly_agrees(key))
    mismatches = [mismatch(key, rule, row) for key, row in rows if (rule := judge(row)) is not None]
    away = ((one.commit.group_id, one.commit.src_partition) for one in log.state.foreign_commits)
    return looked_at(reading, mismatches, keys=len(keys), unsaid=sources.unsaid(), away=away)


def looked_at(
    reading: Reading,
    mismatches: Sequence[Mismatch],
    *,
    keys: int,
    unsaid: Iterable[str],
    away: Iterable[tuple[str, int]],
) -> Looked:
    """What a look at so many ``keys`` came to: the differences, and sentences about what coordinators,
    ZooKeeper and the log (``unsaid``) could not tell. ``away`` are groups with commits outside of their own
    partition of the log, each with that partition."""
    sides = (reading.zookeeper or {}).items()
    unread: dict[str, list[str]] = defaultdict(list)
    for row in reading.admin.problems:
        if not row.of_leftover:
            unread[row.group or ""].append(row.problem)
    for group, side in sides:
        if side.problems:
            unread[group] += side.problems
    suspicious = {one.group for one in mismatches if one.weight is not Weight.EXPLAINED}
    return Looked(
        keys=keys,
        mismatches=tuple(mismatches),
        problems=(
            *(row.problem for row in reading.admin.problems),
            *(sentence for _, side in sides for sentence in side.problems),
            *unsaid,
        ),
        unread={group: tuple(sentences) for group, sentences in unread.items()},
        elsewhere=frozenset(partition for group, partition in away if group in suspicious),
    )


def judge(row: Mapping[str, Any]) -> AuditRule | None:
    """The rule that speaks about the key of this `Sources.row`, or None when its sources agree. What is
    explained on Kafka's side hides no difference between the stores that is not."""
    kafka = next((rule for rule in KAFKA_RULES if rule.applies(row)), None)
    if kafka is not None and kafka.weight is not Weight.EXPLAINED:
        return kafka
    stores = next((rule for rule in STORE_RULES if rule.applies(row)), None)
    return stores if kafka is None or (stores and stores.weight is not Weight.EXPLAINED) else kafka


def unheard_of(looked: Looked, reading: Reading) -> Looked:
    """The same, with a problem for every group that was asked for by name and that no source knows: nothing
    is proven about it."""
    known = {row.group for row in reading.admin.groups if row.state != GONE}
    known |= {row.group for row in reading.admin.offsets} | set(reading.zookeeper or {})
    known |= {one.group for one in looked.mismatches} | set(looked.unread)
    unknown = {
        group: f"group {group!r}: neither a coordinator nor its log nor ZooKeeper knows it: "
        "see that its name is right, letter by letter"
        for group in reading.groups or ()
        if group not in known
    }
    unread = {**looked.unread, **{group: (sentence,) for group, sentence in unknown.items()}}
    return replace(looked, problems=(*looked.problems, *unknown.values()), unread=unread)


def confirmed(first: Looked, second: Looked) -> Looked:
    """What two looks say together: a difference that is not explained counts when both saw one at its key.

    ``second`` looked at the groups of the suspicious keys of ``first`` only."""
    again = {one.key: one for one in second.mismatches}
    kept = [one for one in first.mismatches if one.weight is Weight.EXPLAINED]
    both = [again[one.key] for one in first.suspicious if one.key in again]
    asked_again = {one.group for one in first.suspicious}
    left = {group: sentences for group, sentences in first.unread.items() if group not in asked_again}
    return Looked(
        keys=first.keys,
        mismatches=tuple(sorted((*kept, *both), key=lambda one: one.key)),
        problems=tuple(dict.fromkeys((*second.problems, *first.problems))),
        unread={**left, **second.unread},
    )


def mismatch(key: Key, rule: AuditRule, row: Mapping[str, Any]) -> Mismatch:
    """The difference of which this rule speaks; what each source says is in ``row``, as `TOLD`."""
    group, topic, partition = key
    of_rule = {name: getattr(rule, name) for name in ("kind", "weight", "reason", "remedy")}
    says = {name: row[name] for name in TOLD}
    return Mismatch(group=group, topic=topic, partition=partition, rule=rule.number, **of_rule, **says)


def _column(of: Field[Any]) -> Column:
    kind = ColumnType.STRING
    if "int" in str(of.type):
        kind = ColumnType.INT if of.name.endswith("partition") else ColumnType.LONG
    return Column(name=of.name, type=kind, nullable="None" in str(of.type))


DIFFERENCES = Table(
    name="differences", columns=tuple(map(_column, fields(Mismatch))), key=("group", "topic", "partition")
)
"""The columns are the fields of `Mismatch`."""
_NAMES = tuple(each.name for each in fields(Mismatch))
TOLD = _NAMES[_NAMES.index("answered") :]
"""What the sources say of a key, by the fields of `Mismatch`."""
_ABOUT = ("cluster_id", "began_ms", "ended_ms", "zookeeper", "retention_ms")


def summary(audit: Audit) -> dict[str, Any]:
    """Counts by kind and weight, and of what; only values that JSON knows."""
    looked = audit.looked
    weights = Counter(one.weight.value for one in looked.mismatches)
    return {
        **{name: getattr(audit, name) for name in _ABOUT},
        "clean": audit.clean,
        "keys": looked.keys,
        "agreeing": looked.agreeing,
        "weights": {weight.value: weights[weight.value] for weight in Weight},
        "kinds": dict(sorted(Counter(one.kind for one in looked.mismatches).items())),
        "problems": list(looked.problems),
        "unread": {group: list(sentences) for group, sentences in looked.unread.items()},
    }


def audit_of(summary_json: Mapping[str, Any], rows: Iterable[Mapping[str, Any]]) -> Audit:
    """The audit of which `summary` told this, and whose differences these rows are.

    Raises `KeyError`, `TypeError`, `ValueError` and `Rejected` for what no audit has."""
    looked = {name: summary_json[name] for name in ("problems", "unread")} | {"mismatches": rows}
    looked["keys"] = whole_number(summary_json["keys"], "keys")
    return from_plain(Audit, {**{name: summary_json[name] for name in _ABOUT}, "looked": looked})
