"""Hazards of a downgrade: what an older broker or controller makes of what a newer one wrote.

Sources: specs/group-coordinator.md §§4, 5.5, 6, 8.4; specs/verified-coordinator.md §§D, E.
"""

from __future__ import annotations

from groupshift.domain.hazards.entries import DOWN, EXPANSION, JIRA, KAFKA, since, until
from groupshift.domain.hazards.model import Action, Hazard, Role, Sure, Trait
from groupshift.domain.versions import LEVELS

_BEFORE_FLOOR = (until("3.4.1", last="3.4.0"),)
_DOWN = frozenset({DOWN})
CHANGING = tuple(each.name for each in LEVELS.values() if each.changes)
"""Names of the levels of metadata.version that changed the metadata log, in their order."""

DOWNGRADES = (
    Hazard(
        number="H01",
        bug="KAFKA-14869",
        title="a broker before 3.4.1 breaks off at record types that it does not know",
        happens="the partition of the offsets topic is served empty, offsets are answered -1 with error"
        " NONE, also for groups that never used the consumer protocol",
        moves=_DOWN,
        affected={Role.BROKER: (since("3.7.0", last="4.4.0"),), Role.TARGET: _BEFORE_FLOOR},
        traits=frozenset({Trait.NEW_RECORDS}),
        action=Action.REFUSE,
        remedy="go to 3.4.1 or newer, or convert every group, compact the offsets topic and prove from the"
        " log that no key of type 3 or above is left",
        source=KAFKA + "13511",
        sure=Sure.VERIFIED,
        seen="3.9.2 to 3.4.0: 5 of 9 groups lost, converted and compacted 0 of 9; to 3.4.1: 0 of 9",
    ),
    Hazard(
        number="H02",
        bug="KIP-915 floor",
        title="brokers since 4.1 write every commit in a version that brokers before 3.4.1 cannot read",
        happens="every partition of the offsets topic is served empty, and compaction does not help",
        moves=_DOWN,
        affected={Role.BROKER: (since("4.1.0", last="4.4.0"),), Role.TARGET: _BEFORE_FLOOR},
        action=Action.REFUSE,
        remedy="go to 3.4.1 or newer",
        source="https://cwiki.apache.org/confluence/display/KAFKA/KIP-915:+Txn+and+Group+Coordinator+Downg"
        "rade+Foundation",
        sure=Sure.VERIFIED,
        seen="4.3.1 to 3.4.0: 6 of 6 groups lost; to 3.4.1: 0 of 6; 4.0.2 still writes v3, 4.1.2 writes v4",
    ),
    Hazard(
        number="H03",
        bug="strimzi 10735",
        title="a controller before 4.0 dies on a record of group.version",
        happens="the node ends at its start with 'Tried to apply FeatureLevelRecord ... this controller only"
        " supports versions 0'",
        moves=_DOWN,
        affected={
            Role.BROKER: (since("4.0.0", last="4.4.0"),),
            Role.TARGET: (until("4.0.0", last="3.9.2"),),
        },
        traits=frozenset({Trait.GROUP_VERSION}),
        action=Action.REFUSE,
        remedy="lower group.version to 0 and wait on every controller for a metadata snapshot newer than"
        " that record",
        source="https://github.com/strimzi/strimzi-kafka-operator/issues/10735",
        sure=Sure.VERIFIED,
        seen="4.3.1 to 3.9.2, one node and three: dies without, starts with both; the link is the same with"
        " metadata.version, 3.8 to 3.7",
    ),
    Hazard(
        number="H04",
        bug="metadata levels",
        title="levels of metadata.version that changed the metadata log cannot be undone",
        happens="the older node ends at its start, below 4.3-IV0 with \"Can't read version 4 of "
        f'BrokerEndpoint", and no release lowers metadata.version across one of them: {", ".join(CHANGING)}',
        moves=_DOWN,
        affected={
            Role.BROKER: (since("3.5.0", last="4.4.0"),),
            Role.TARGET: (until("4.4.0", last="4.3.1"),),
        },
        traits=frozenset({Trait.METADATA_CHANGED}),
        action=Action.REFUSE,
        remedy="there is no way back across such a level; keep metadata.version below it as long as one is"
        " wanted",
        source="https://kafka.apache.org/43/getting-started/upgrade/",
        sure=Sure.VERIFIED,
        seen="4.3.1 at 4.3-IV0 to 4.2.1 and 4.0.2: dies; 4.4.0 at 4.3-IV0 to 4.3.1: 9 of 9 groups equal; the"
        " controllers of 3.9.2, 4.0.2, 4.2.1 and 4.4.0 refuse to go below exactly these levels",
    ),
    Hazard(
        number="H05",
        bug="KIP-915 configs",
        title="brokers before 4.0 do not know configurations of groups",
        happens="a metadata snapshot of the older node stores them under an unknown type: they are lost,"
        " also after an upgrade",
        moves=_DOWN,
        affected={
            Role.BROKER: (since("4.0.0", last="4.4.0"),),
            Role.TARGET: (until("4.0.0", last="3.9.2"),),
        },
        traits=frozenset({Trait.GROUP_CONFIGS}),
        action=Action.REFUSE,
        remedy="write them down and delete them before the brokers are replaced",
        source="https://cwiki.apache.org/confluence/display/KAFKA/KIP-915:+Txn+and+Group+Coordinator+Downg"
        "rade+Foundation",
        sure=Sure.READ,
        seen="sources of 3.4 to 3.9 (group-coordinator.md §4); no issue of the project was found",
    ),
    Hazard(
        number="H06",
        bug="4.4.0 storage",
        title="folders formatted by the storage tool of 4.4 are said not to suit older brokers",
        happens="the older broker may refuse to start on them",
        moves=_DOWN,
        affected={
            Role.BROKER: (since("4.4.0", last="4.4.0"),),
            Role.TARGET: (until("4.4.0", last="4.3.1"),),
        },
        traits=frozenset({Trait.FORMATTED_NEWER}),
        action=Action.ASK,
        remedy="try the target on a copy of one folder first",
        source="https://kafka.apache.org/44/getting-started/upgrade/",
        sure=Sure.REPORTED,
        seen="upgrade notes of 4.4.0; against them stands one folder formatted by 4.4.0 at 4.3-IV0 that"
        " 4.3.1 took",
    ),
    Hazard(
        number="H07",
        bug="streams static membership",
        title="brokers before 4.4 refuse static members of streams groups",
        happens="every heartbeat is answered INVALID_REQUEST and the application shuts down",
        moves=_DOWN,
        affected={
            Role.BROKER: (since("4.4.0", last="4.4.0"),),
            Role.TARGET: (until("4.4.0", last="4.3.1"),),
        },
        traits=frozenset({Trait.STREAMS_GROUPS, Trait.STATIC_MEMBERS}),
        action=Action.REFUSE,
        remedy="take group.instance.id from the streams applications and restart them first",
        source=KAFKA + "23486",
        sure=Sure.REPORTED,
        seen="documentation change for 4.4.0",
    ),
    Hazard(
        number="H08",
        bug="KAFKA-20115",
        title="the coordinator fails to unload a partition whose leader moves",
        happens="members that wait in JoinGroup or SyncGroup hear nothing until their rebalance timeout,"
        " five minutes by default",
        moves=frozenset({DOWN, EXPANSION}),
        affected={
            Role.LOADER: (
                until("4.0.2", since="4.0.1", last="4.0.1"),
                until("4.1.2", since="4.1.0", last="4.1.1"),
            )
        },
        action=Action.ASK,
        remedy="go to 4.0.2 or 4.1.2 of the same line first, or move while no group rebalances",
        source=JIRA + "KAFKA-20115",
        sure=Sure.READ,
        seen="classes: in 4.0.1, 4.1.0, 4.1.1; not in 4.0.0, 4.0.2, 4.1.2, 4.2.0, 4.3.1",
    ),
    Hazard(
        number="H09",
        bug="KAFKA-20254",
        title="streams groups that were classic fail to load after a compaction",
        happens="the loader stops with 'Group ... is not a streams group' and the whole partition answers"
        " NOT_COORDINATOR",
        moves=_DOWN,
        affected={Role.LOADER: (until("4.2.1", since="4.1.0", last="4.2.0"),)},
        traits=frozenset({Trait.STREAMS_GROUPS}),
        action=Action.REFUSE,
        remedy="stay on, or go to, 4.2.1 or newer while streams groups are there",
        source=JIRA + "KAFKA-20254",
        sure=Sure.READ,
        seen="classes: without the fix 4.1.0 to 4.1.2 and 4.2.0, with it 4.2.1, 4.3.0; the fix went to"
        " branch 4.2",
    ),
)
"""H01 to H09."""
