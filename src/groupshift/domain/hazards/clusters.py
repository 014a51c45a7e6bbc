"""Hazards of the moves between stores and clusters: KIP-125, KIP-895 and copies by MirrorMaker 2.

Sources: specs/group-coordinator.md §3; specs/verified-coordinator.md §F; specs/zookeeper-coordination.md §1;
specs/cross-cluster-offset-sync.md §§5, 6.
"""

from __future__ import annotations

from groupshift.domain.hazards.entries import CLUSTER, EXPANSION, JIRA, KAFKA, ZOOKEEPER, since, until
from groupshift.domain.hazards.model import Action, Hazard, Role, Sure, Trait
from groupshift.domain.versions import Fix

_ZOOKEEPER = frozenset({ZOOKEEPER})
_EXPANSION = frozenset({EXPANSION})
_CLUSTER = frozenset({CLUSTER})

CLUSTERS = (
    Hazard(
        number="H31",
        bug="KIP-896",
        title="Kafka 4.0 and newer serve no old Scala consumer",
        happens="these brokers register in no ZooKeeper and answer none of the requests of clients before"
        " 2.1",
        moves=_ZOOKEEPER,
        affected={Role.BROKER: (since("4.0.0", last="4.4.0"),)},
        action=Action.REFUSE,
        remedy="move the groups while the brokers are at 3.9 or older in ZooKeeper mode",
        source="https://kafka.apache.org/41/getting-started/compatibility",
        sure=Sure.REPORTED,
        seen="compatibility page of the project",
    ),
    Hazard(
        number="H32",
        bug="KRaft",
        title="brokers in KRaft mode register in no ZooKeeper",
        happens="an old consumer finds no broker there, and there is no group to move",
        moves=_ZOOKEEPER,
        affected={Role.BROKER: (until("4.0.0", since="2.8.0", last="3.9.2", fix=Fix.LINE),)},
        traits=frozenset({Trait.KRAFT}),
        action=Action.REFUSE,
        remedy="move the groups before the cluster is migrated to KRaft",
        source="https://kafka.apache.org/40/getting-started/compatibility",
        sure=Sure.READ,
        seen="sources of 3.9; from 4.0 on H31 speaks",
    ),
    Hazard(
        number="H33",
        bug="KAFKA-8069",
        title="committed offsets can expire when the coordinator loads them",
        happens="with an older inter.broker.protocol.version commits carry no expiry of their own, are read"
        " as expired and removed long before their time",
        moves=_ZOOKEEPER,
        affected={
            Role.BROKER: (until("2.3.0", since="2.1.0", last="2.2.0", fix=Fix.NOT_CONFIRMED),),
        },
        traits=frozenset({Trait.OLD_BROKER_PROTOCOL}),
        action=Action.ASK,
        remedy="go to a newer release first, or raise inter.broker.protocol.version; audit the offsets after"
        " every restart of a broker",
        source=JIRA + "KAFKA-8069",
        sure=Sure.REPORTED,
        seen="merged in March 2019 (pull request 6401); whether 2.1.2 and 2.2.1 hold it is not confirmed",
    ),
    Hazard(
        number="H34",
        bug="KAFKA-19423",
        title="brokers read the number of partitions of the offsets topic only when they start",
        happens="after an expansion nothing changes until a restart, and then brokers disagree about the"
        " coordinator of most groups until the last one is restarted",
        moves=_EXPANSION,
        affected={Role.BROKER: (since("", last="4.4.0"),)},
        action=Action.ASK,
        remedy="stop the groups, delete those that move, restart every broker, then commit their offsets"
        " anew",
        source=JIRA + "KAFKA-19423",
        sure=Sure.VERIFIED,
        seen="3.9.2, 4.3.1, 4.4.0: 51 and 45 of 200 groups served by two brokers at once",
    ),
    Hazard(
        number="H35",
        bug="KIP-895 residue",
        title="the old coordinator can answer from the former partition of a group",
        happens="commits that were acknowledged are not visible, and may come and go with every load",
        moves=_EXPANSION,
        affected={Role.BROKER: (until("4.1.0", last="4.0.2"),)},
        traits=frozenset({Trait.OLD_COORDINATOR}),
        action=Action.ASK,
        remedy="delete the moving groups before partitions are added",
        source=JIRA + "KAFKA-7771",
        sure=Sure.VERIFIED,
        seen="3.9.2: 73 of 200 groups stale right after the commit, 65 after a restart; 0 where they were"
        " deleted first; 4.1 has no old coordinator",
    ),
    Hazard(
        number="H36",
        bug="KAFKA-19794",
        title="MirrorMaker 2 can write an older offset into a group that is in use",
        happens="members of the target cluster read again what they had consumed",
        moves=_CLUSTER,
        affected={Role.MIRROR_MAKER: (since("", last="4.3.1"),)},
        action=Action.ASK,
        remedy="switch sync.group.offsets.enabled off before the first member of a group moves",
        source=JIRA + "KAFKA-19794",
        sure=Sure.REPORTED,
        seen="a fix was proposed in June 2026 (pull request 22610) and is open",
    ),
    Hazard(
        number="H37",
        bug="KAFKA-12635",
        title="MirrorMaker 2 copies the literal offset of a partition that it never mirrored",
        happens="the group starts beyond the end of the target's log",
        moves=_CLUSTER,
        affected={Role.MIRROR_MAKER: (until("3.3.0", since="2.4.0", last="3.2.3"),)},
        action=Action.REFUSE,
        remedy="go to 3.3 or newer first",
        source=JIRA + "KAFKA-12635",
        sure=Sure.REPORTED,
        seen="known issues of a provider name 3.3.0 (pull request 11748)",
    ),
    Hazard(
        number="H38",
        bug="acks=0 tombstones",
        title="the old coordinator answers a deletion of groups before followers have its tombstones",
        happens="a broker that is stopped right then hands its partitions to one without them: the groups"
        " are back, and an expansion finds them in their former partitions",
        moves=_EXPANSION,
        affected={Role.BROKER: (until("4.1.0", last="4.0.2"),)},
        traits=frozenset({Trait.OLD_COORDINATOR}),
        action=Action.ASK,
        remedy="read the log of the offsets topic until it shows the tombstones, then stop brokers",
        source=JIRA + "KAFKA-7771",
        sure=Sure.VERIFIED,
        seen="3.9.2 with ZooKeeper: the tombstones of 51 groups were truncated by a restart 0.3 s later",
    ),
    Hazard(
        number="H39",
        bug="tombstones too large",
        title="the old coordinator answers that a group is deleted whose tombstones it could not write",
        happens="the group is gone from the cache only: it is back with all its offsets when its partition is"
        " loaded again (a restart, another leader)",
        moves=_EXPANSION,
        affected={Role.BROKER: (until("4.1.0", last="4.0.2"),)},
        traits=frozenset({Trait.OLD_COORDINATOR}),
        action=Action.WARN,
        remedy="delete the offsets of such a group in parts first (groupshift does; kafka-consumer-groups.sh"
        " --delete-offsets), and read the log",
        source=KAFKA + "2125",
        sure=Sure.VERIFIED,
        seen="3.9.2, max.message.bytes lowered: the 301 offsets of a deleted group were answered after a"
        " restart; with the default of 1 MiB that are some 10,000",
    ),
)
"""H31 to H39."""
