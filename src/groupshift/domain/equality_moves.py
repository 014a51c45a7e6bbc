"""What each move demands of two snapshots: the numbered equality rules, as data.

``docs/evidence.md`` shows this table; a test keeps both in step. Protocol and downgrade are
group-coordinator.md §6.2 (its columns A to B and B to C); the other moves were written here from the
sections named.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from groupshift.domain.equality_rules import (
    Comparison,
    Demand,
    EqualityRule,
    Field,
    Kind,
    numbered,
)

_62, _53, _17 = "group-coordinator.md §6.2", "group-coordinator.md §5.3", "group-coordinator.md §1.7"
_52, _34 = "group-coordinator.md §5.2", "group-coordinator.md §3.4"
_ZK, _ZK6 = "zookeeper-coordination.md §8.6", "zookeeper-coordination.md §6"
_LINK, _LINK8 = "cross-cluster-offset-sync.md §9", "cross-cluster-offset-sync.md §8"

_19154 = "verified-epochs-shares.md §C"
_ANEW = (
    "another id is another topic of the same name, to which this commit does not belong; none is not known"
)

_Demands = Mapping[Field, Demand]


def _equal(reason: str, source: str = _62, live: Kind | None = None) -> Demand:
    return Demand(kind=Kind.EQUAL, reason=reason, source=source, live=live)


def _ignored(reason: str, source: str = _62) -> Demand:
    return Demand(kind=Kind.IGNORE, reason=reason, source=source)


def _of(kind: Kind, reason: str, source: str = _62) -> Demand:
    return Demand(kind=kind, reason=reason, source=source)


_DOWNGRADE: _Demands = {
    Field.GROUPS: _equal("a group that is gone was not loaded by the older coordinator"),
    Field.COMMITTED: _equal("a lost offset makes its consumer use auto.offset.reset"),
    Field.OFFSET: _equal("nobody commits while brokers are replaced", live=Kind.FORWARD),
    Field.LEADER_EPOCH: _equal("part of the commit; brokers never rewrite one", live=Kind.IGNORE),
    Field.METADATA: _equal("part of the commit; brokers never rewrite one", live=Kind.IGNORE),
    Field.COMMIT_TIMESTAMP: _equal("part of the commit; it starts the retention clock", live=Kind.AT_LEAST),
    Field.EXPIRE_TIMESTAMP: _equal("part of the commit", live=Kind.IGNORE),
    Field.TOPIC_ID: _equal("part of the commit", live=Kind.IGNORE),
    Field.RECORD: _equal("brokers never rewrite offsets: the bytes stay", live=Kind.IGNORE),
    Field.KEYS: _of(Kind.UNIQUE, "two answers for one partition are two coordinators for one group"),
    Field.TYPE: _equal("the consumers are classic before the first broker is replaced"),
    Field.STATE: _of(Kind.SETTLED, "a bounced coordinator rebalances its groups once, then they are Stable"),
    Field.PROTOCOL_TYPE: _equal("told by the group's own record"),
    Field.PROTOCOL: _equal("told by the group's own record"),
    Field.GENERATION: _of(Kind.AT_LEAST, "equal, or greater where a session expired during the bounce"),
    Field.MEMBER_COUNT: _equal("no member may be lost by a bounce"),
    Field.CLIENT_IDS: _equal("no member may be lost by a bounce"),
    Field.INSTANCE_IDS: _equal("static members keep their identity"),
    Field.SUBSCRIBED: _equal("told by the members"),
    Field.MEMBER_IDS: _ignored("equal without a rejoin, new after one; both are sound"),
    Field.ASSIGNMENT: _of(Kind.COVERS, "who owns what may change, that all is owned once may not"),
    Field.PLACE: _ignored("changes with every election and every reconnect"),
}

_MEMBERS_CHANGED: _Demands = {
    Field.OFFSET: _equal("a change of protocol touches no offset", live=Kind.FORWARD),
    Field.LEADER_EPOCH: _equal("a change of protocol touches no offset", live=Kind.IGNORE),
    Field.METADATA: _equal("a change of protocol touches no offset", live=Kind.IGNORE),
    Field.COMMIT_TIMESTAMP: _of(
        Kind.AT_LEAST, "a clean close commits unchanged offsets again; none may be older than before", _17
    ),
    Field.EXPIRE_TIMESTAMP: _ignored("a commit that is made again by another writer drops it"),
    Field.TOPIC_ID: _ignored("comes and goes with the version of the writer"),
    Field.RECORD: _ignored("a commit that is made again has other bytes"),
    Field.STATE: _of(Kind.SETTLED, "Stable stays Stable and Empty stays Empty once all have rejoined"),
    Field.PROTOCOL_TYPE: _equal("consumer under both protocols"),
    Field.PROTOCOL: _ignored("assignors of the client and of the server have other names"),
    Field.MEMBER_COUNT: _equal("members are replaced one by one, none is left out"),
    Field.CLIENT_IDS: _equal("members are replaced one by one, none is left out"),
}

_PROTOCOL_BACK: _Demands = {
    **_DOWNGRADE,
    **_MEMBERS_CHANGED,
    Field.TYPE: Demand(
        kind=Kind.BECOMES,
        old="consumer",
        new="classic",
        reason="a group still of type consumer was not converted, whatever its members are",
        source=_53,
    ),
    Field.GENERATION: _ignored(
        "at least the group epoch where members stayed; near 0 where the group was empty", _53
    ),
}

_PROTOCOL: _Demands = {
    **_DOWNGRADE,
    **_MEMBERS_CHANGED,
    Field.TYPE: Demand(
        kind=Kind.BECOMES,
        old="classic",
        new="consumer",
        reason="a group still classic has a member left that never changed, or none joined",
        source=_52,
    ),
    Field.GENERATION: _ignored(
        "the epoch goes on from the generation; from 1 where the group was empty", _52
    ),
}

_EXPANSION: _Demands = {
    **_DOWNGRADE,
    Field.GROUPS: _of(
        Kind.KEPT,
        "a moving group that was not committed anew is unknown to its coordinator; one without offsets is "
        "forgotten with the restart",
        _34,
    ),
    Field.COMMITTED: _equal("the new coordinator answers -1 with error NONE for what was not moved", _34),
    Field.OFFSET: _equal("groups are drained: a lower one comes from a stale copy", _34, Kind.FORWARD),
    Field.LEADER_EPOCH: _equal("committed anew as it was", _34, Kind.IGNORE),
    Field.METADATA: _equal("committed anew as it was", _34, Kind.IGNORE),
    Field.COMMIT_TIMESTAMP: _of(Kind.AT_LEAST, "becomes the time of the new commit", _34),
    Field.EXPIRE_TIMESTAMP: _ignored("is lost by the new commit", _34),
    Field.TOPIC_ID: _equal(_ANEW, _19154),
    Field.RECORD: _ignored("committed anew into another partition", _34),
    Field.TYPE: _ignored("a group of offsets only is classic until its consumers are back", _34),
    Field.STATE: _equal("every group is Empty until the end of the move", _34, Kind.IGNORE),
    Field.PROTOCOL_TYPE: _ignored("empty until the consumers are back", _34),
    Field.PROTOCOL: _ignored("empty until the consumers are back", _34),
    Field.GENERATION: _ignored("starts anew at the new coordinator", _34),
}

_COORDINATION: _Demands = {
    **_DOWNGRADE,
    Field.GROUPS: _equal("the group keeps its name in both stores", _ZK),
    Field.COMMITTED: _equal(
        "the store in force after must know each partition that the one before knew", _ZK6
    ),
    Field.OFFSET: _of(Kind.FORWARD, "members go on consuming; no store may fall back", _ZK6),
    Field.LEADER_EPOCH: _ignored("ZooKeeper has none", _ZK6),
    Field.METADATA: _ignored("ZooKeeper has none", _ZK6),
    Field.COMMIT_TIMESTAMP: _ignored("ZooKeeper has none", _ZK6),
    Field.EXPIRE_TIMESTAMP: _ignored("ZooKeeper has none", _ZK6),
    Field.TOPIC_ID: _ignored("ZooKeeper has none", _ZK6),
    Field.RECORD: _ignored("other store, other bytes", _ZK6),
    Field.TYPE: _ignored("ZooKeeper knows no types", _ZK),
    Field.STATE: _ignored("judged by the stage's own rules (V01 to V24)", _ZK),
    Field.PROTOCOL_TYPE: _ignored("ZooKeeper knows none", _ZK),
    Field.PROTOCOL: _ignored("ZooKeeper knows none", _ZK),
    Field.GENERATION: _ignored("ZooKeeper knows none", _ZK),
    Field.CLIENT_IDS: _ignored("a member gets a new incarnation when it is replaced", _ZK),
    Field.INSTANCE_IDS: _ignored("the old consumer has none", _ZK),
    Field.SUBSCRIBED: _equal("what the group reads does not change with who coordinates it", _ZK),
}

_CLUSTER: _Demands = {
    **_DOWNGRADE,
    Field.GROUPS: _equal("a group that is not there starts by auto.offset.reset", _LINK),
    Field.COMMITTED: _equal("a partition without an offset starts by auto.offset.reset", _LINK),
    Field.OFFSET: _of(
        Kind.WITHIN, "numbers differ between clusters; beyond the log end one day skips records", _LINK8
    ),
    Field.LEADER_EPOCH: _ignored("epochs of another cluster", _LINK8),
    Field.METADATA: _equal("copied with the offset", _LINK),
    Field.COMMIT_TIMESTAMP: _ignored("the time of the copy", _LINK),
    Field.EXPIRE_TIMESTAMP: _ignored("not copied", _LINK),
    Field.TOPIC_ID: _ignored("ids of another cluster", _LINK),
    Field.RECORD: _ignored("other numbers, other bytes", _LINK),
    Field.TYPE: _ignored("a copied group is classic and simple until its consumers come", _LINK),
    Field.STATE: _ignored("the copy is Empty, or it would not have been written", _LINK),
    Field.PROTOCOL_TYPE: _ignored("empty in the copy", _LINK),
    Field.PROTOCOL: _ignored("empty in the copy", _LINK),
    Field.GENERATION: _ignored("the copy has none", _LINK),
    Field.MEMBER_COUNT: _ignored("the copy has no members", _LINK),
    Field.CLIENT_IDS: _ignored("the copy has no members", _LINK),
    Field.INSTANCE_IDS: _ignored("the copy has no members", _LINK),
    Field.SUBSCRIBED: _ignored("the copy has no members", _LINK),
    Field.ASSIGNMENT: _ignored("the copy has no members", _LINK),
}

RULES: Mapping[Comparison, tuple[EqualityRule, ...]] = {
    comparison: numbered(comparison, demands)
    for comparison, demands in (
        (Comparison.PROTOCOL, _PROTOCOL),
        (Comparison.PROTOCOL_BACK, _PROTOCOL_BACK),
        (Comparison.DOWNGRADE, _DOWNGRADE),
        (Comparison.COORDINATION, _COORDINATION),
        (Comparison.EXPANSION, _EXPANSION),
        (Comparison.CLUSTER, _CLUSTER),
    )
}
"""The rules of every move, each in the order of its numbers."""


def mirrored_names(
    source: Collection[str], committed: Collection[str], topics: Collection[str]
) -> Mapping[str, tuple[str, ...]]:
    """The topics of ``source`` that look mirrored under another name, with those names: an alias and a
    separator before the name (MirrorMaker's default is ``alias.topic``), or behind it.

    ``committed`` are the other cluster's topics with offsets, ``topics`` all that it has. A topic that is
    there under its own name too counts where both have offsets: which is the copy cannot be told."""
    found = {}
    for topic in sorted(set(source)):
        asked = committed if topic in committed else topics
        names = tuple(sorted(each for each in set(asked) - set(source) if _is_mirror(each, topic)))
        if names:
            found[topic] = names
    return found


def _is_mirror(name: str, topic: str) -> bool:
    """Whether this is the topic's name with something before or behind it, and a separator in between."""
    before, behind = name.removesuffix(topic), name.removeprefix(topic)
    return (name != before and len(before) > 1 and not before[-1].isalnum()) or (
        name != behind and len(behind) > 1 and not behind[0].isalnum()
    )
