"""The three-way audit of committed offsets: the coordinators' answer, their log and ZooKeeper.

It judges one (group, topic, partition) at a time. Commits go on while the sources are read, so a difference
between two readings proves nothing by itself. The log's position is taken before and after the coordinators
are asked: what they answer must be the last commit before that bracket or one within it. An absence counts
only where a second source says it too. An audit leaves the table of differences and a summary in plain
values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any

from groupshift.audit.case import Case, Key, LogSide, Terms, ZookeeperGroup
from groupshift.audit.rules import KAFKA_RULES, STORE_RULES, AuditRule, Weight
from groupshift.audit.sources import Sources, untold
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
    """One look at all keys: how many there were, how many agree in every source, and the others.

    ``problems`` are sentences about what could not be read, ``unread`` those that say that coordinators or
    ZooKeeper did not tell all of a group (empty name: of all); ``elsewhere`` the partitions of the log that
    hold commits of the suspicious groups although those belong to another."""

    keys: int
    agreeing: int
    mismatches: tuple[Mismatch, ...]
    problems: tuple[str, ...] = ()
    unread: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    kinds: Mapping[str, int] = field(default_factory=dict)
    elsewhere: frozenset[int] = frozenset()

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


def audit(
    admin: ClusterState, log: LogSide, zookeeper: Mapping[str, ZookeeperGroup] | None, terms: Terms
) -> Looked:
    """Every key of any source held against the others.

    ``admin`` was read between the positions ``opened`` and ``closed`` of ``log``, and so was ``zookeeper``
    (None: there is none; a group that is not in it does not exist there). Pure; raises nothing."""
    sources = Sources(admin, log, zookeeper or {}, terms)
    mismatches: list[Mismatch] = []
    keys = sources.all_keys()
    for key in keys:
        if sources.plainly_agrees(key):
            continue
        case = sources.case(key)
        rule = judge(case)
        if rule is not None:
            mismatches.append(_mismatch(case, rule))
    return Looked(
        keys=len(keys),
        agreeing=len(keys) - len(mismatches),
        mismatches=tuple(mismatches),
        problems=tuple(sources.problems()),
        unread=untold(admin, zookeeper or {}),
        kinds=Counter(one.kind for one in mismatches),
        elsewhere=sources.elsewhere({one.group for one in mismatches if one.weight is not Weight.EXPLAINED}),
    )


def judge(case: Case) -> AuditRule | None:
    """The rule that speaks about this key, or None when its sources agree. What is explained on Kafka's side
    hides no difference between the stores that is not."""
    kafka = _first(KAFKA_RULES, case)
    if kafka is not None and kafka.weight is not Weight.EXPLAINED:
        return kafka
    stores = _first(STORE_RULES, case)
    return stores if kafka is None or (stores and stores.weight is not Weight.EXPLAINED) else kafka


def unheard_of(looked: Looked, reading: Reading) -> Looked:
    """The same, with a problem for every group that was asked for by name and that no source knows: nothing
    is proven about it."""
    known = {row.group for row in reading.admin.groups if row.state != GONE}
    known |= {row.group for row in reading.admin.offsets} | set(reading.zookeeper or {})
    known |= {one.group for one in looked.mismatches} | set(looked.unread)
    unknown = {
        group: (
            (
                f"group {group!r}: neither a coordinator nor its log nor ZooKeeper knows it: "
                "see that its name is right, letter by letter"
            ),
        )
        for group in reading.groups or ()
        if group not in known
    }
    sentences_of = tuple(each for sentences in unknown.values() for each in sentences)
    return replace(looked, problems=(*looked.problems, *sentences_of), unread={**looked.unread, **unknown})


def confirmed(first: Looked, second: Looked) -> Looked:
    """What two looks say together: a difference that is not explained counts when both saw one at its key.

    ``second`` looked at the groups of the suspicious keys of ``first`` only."""
    again = {one.key: one for one in second.mismatches}
    kept = [one for one in first.mismatches if one.weight is Weight.EXPLAINED]
    both = [again[one.key] for one in first.suspicious if one.key in again]
    asked_again = {one.group for one in first.suspicious}
    left = {group: sentences for group, sentences in first.unread.items() if group not in asked_again}
    rows = sorted((*kept, *both), key=lambda one: one.key)
    return Looked(
        keys=first.keys,
        agreeing=first.keys - len(rows),
        mismatches=tuple(rows),
        problems=tuple(dict.fromkeys((*second.problems, *first.problems))),
        unread={**left, **second.unread},
        kinds=Counter(one.kind for one in rows),
    )


def _first(rules: Iterable[AuditRule], case: Case) -> AuditRule | None:
    return next((rule for rule in rules if rule.applies(case)), None)


def mismatch(key: Key, rule: AuditRule, **says: Any) -> Mismatch:
    """The difference of which this rule speaks; ``says`` is what each source says, by the fields of
    `Mismatch`."""
    group, topic, partition = key
    of_rule = {name: getattr(rule, name) for name in ("kind", "weight", "reason", "remedy")}
    return Mismatch(group=group, topic=topic, partition=partition, rule=rule.number, **of_rule, **says)


def _mismatch(case: Case, rule: AuditRule) -> Mismatch:
    foreign = case.foreign[0].commit if case.foreign else None
    return mismatch(
        case.key,
        rule,
        answered=case.answered,
        logged=case.logged,
        zookeeper=None if case.znode is None else case.znode.offset,
        mode=None if case.zookeeper is None else case.zookeeper.mode.value,
        log_partition=None if case.winner is None else case.winner.src_partition,
        log_offset=None if case.winner is None else case.winner.record_offset,
        foreign_partition=None if foreign is None else foreign.src_partition,
        foreign_offset=None if foreign is None else foreign.offset,
        log_end=None if case.end is None else case.end.log_end,
    )


def _column(of: Field[Any]) -> Column:
    kind = ColumnType.STRING
    if "int" in str(of.type):
        kind = ColumnType.INT if of.name.endswith("partition") else ColumnType.LONG
    return Column(name=of.name, type=kind, nullable="None" in str(of.type))


DIFFERENCES = Table(
    name="differences",
    columns=tuple(map(_column, fields(Mismatch))),
    key=("group", "topic", "partition"),
)
"""The columns are the fields of `Mismatch`."""
_ABOUT = ("cluster_id", "began_ms", "ended_ms", "zookeeper", "retention_ms")
_LOOKED = ("keys", "agreeing", "kinds", "problems")


def summary(audit: Audit) -> dict[str, Any]:
    """Counts by kind and weight, and of what; only values that JSON knows."""
    looked = audit.looked
    weights = Counter(str(one.weight) for one in looked.mismatches)
    return {
        **{name: getattr(audit, name) for name in _ABOUT},
        "clean": audit.clean,
        **{name: getattr(looked, name) for name in ("keys", "agreeing")},
        "weights": {str(weight): weights[weight] for weight in Weight},
        "kinds": dict(sorted(looked.kinds.items())),
        "problems": list(looked.problems),
        "unread": {group: list(sentences) for group, sentences in looked.unread.items()},
    }


def audit_of(document: Mapping[str, Any], rows: Iterable[Mapping[str, Any]]) -> Audit:
    """The audit of which `summary` told this, and whose differences these rows are.

    Raises `KeyError` and `ValueError` for what no audit has."""
    looked = from_plain(Looked, {name: document[name] for name in _LOOKED} | {"mismatches": rows})
    unread = {group: tuple(sentences) for group, sentences in document.get("unread", {}).items()}
    return Audit(**{name: document[name] for name in _ABOUT}, looked=replace(looked, unread=unread))
