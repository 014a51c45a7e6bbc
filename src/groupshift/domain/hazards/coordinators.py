"""Hazards of the new group coordinator: conversions between the protocols, and loading what they wrote.

Sources: specs/group-coordinator.md §§1.7, 5; specs/verified-coordinator.md §§A, C; the classes of releases
3.7.2, 3.8.1, 3.9.1, 3.9.2, 4.0.0 to 4.0.2, 4.1.0 to 4.1.2, 4.2.0, 4.2.1, 4.3.0, 4.3.1 and 4.4.0.
"""

from __future__ import annotations

from groupshift.domain.hazards.entries import BACK, BOTH_WAYS, DOWN, GROUPS, JIRA, KAFKA, UP, since, until
from groupshift.domain.hazards.model import Action, Hazard, Role, Sure, Trait
from groupshift.domain.versions import Fix

_NEW = frozenset({Trait.NEW_COORDINATOR})
_BACK = frozenset({BACK})

COORDINATORS = (
    Hazard(
        number="H10",
        bug="KAFKA-21117",
        title="a group converted back to classic can fail to load after a compaction",
        happens="where the tombstone of its former classic record is compacted away, the loader stops with"
        " 'Group ... is not a consumer group' and every group of the partition answers"
        " NOT_COORDINATOR",
        moves=frozenset({BACK, DOWN}),
        affected={Role.LOADER: (since("3.8.0", last="4.4.0"),)},
        traits=_NEW,
        action=Action.WARN,
        remedy="let the replay lint (rule N1) read the log after the conversion and before a broker restarts",
        source=JIRA + "KAFKA-21117",
        sure=Sure.READ,
        seen="classes: the strict check is in every release up to 4.4.0; a fix was proposed in September"
        " 2026 (pull request 23514); three cycles of conversion and compaction on 4.3.1 loaded",
    ),
    Hazard(
        number="H11",
        bug="KAFKA-21102",
        title="a member's tombstone stops the loader where its sibling tombstones were compacted away",
        happens="the partition fails to load and every group in it answers NOT_COORDINATOR",
        moves=GROUPS,
        affected={Role.LOADER: (since("3.7.0", last="4.4.0"),)},
        traits=_NEW,
        action=Action.WARN,
        remedy="let the replay lint (rules N2, N3) read the log after the conversion and before a broker"
        " restarts",
        source=JIRA + "KAFKA-21102",
        sure=Sure.READ,
        seen="classes: both checks are in every release from 3.7.2 to 4.4.0; a fix was proposed in September"
        " 2026 (pull request 23530)",
    ),
    Hazard(
        number="H12",
        bug="KAFKA-19862",
        title="a partition that is compacted while it loads can fail to load",
        happens="the loader stops with 'Cannot remove the epoch ...' and every group of the partition"
        " answers NOT_COORDINATOR until the next load",
        moves=GROUPS,
        affected={
            Role.LOADER: (
                until("4.0.2", since="4.0.0", last="4.0.1"),
                until("4.1.2", since="4.1.0", last="4.1.1"),
            )
        },
        action=Action.REFUSE,
        remedy="go to 4.0.2, 4.1.2 or 4.2.0 first",
        source=JIRA + "KAFKA-19862",
        sure=Sure.READ,
        seen="classes: thrown in 3.8.1, 3.9.2 (see H14), 4.0.0, 4.0.1, 4.1.0, 4.1.1; logged only in 4.0.2,"
        " 4.1.2, 4.2.0",
    ),
    Hazard(
        number="H13",
        bug="KIP-848 early access",
        title="3.7 has the consumer protocol in early access only",
        happens="it converts no group, not even an empty one (error 69), and no other release reads its"
        " records",
        moves=GROUPS,
        affected={Role.LOADER: (until("3.8.0", since="3.7.0", last="3.7.2", fix=Fix.LINE),)},
        traits=_NEW,
        action=Action.REFUSE,
        remedy="leave the consumer protocol off on 3.7; go to 4.0 or newer for it",
        source="https://cwiki.apache.org/confluence/display/KAFKA/The+Next+Generation+of+the+Consumer+Reba"
        "lance+Protocol+(KIP-848)+-+Early+Access+Release+Notes",
        sure=Sure.READ,
        seen="layouts read off the classes of 3.7.2, its loader held against the replay lint; the release"
        " notes exclude upgrades",
    ),
    Hazard(
        number="H14",
        bug="KAFKA-17306",
        title="the new coordinator of 3.x is strict about the order of records",
        happens="offsets or tombstones before the records of their group, which compaction makes, stop the"
        " load of the partition; KAFKA-19862 was not fixed there either",
        moves=GROUPS,
        affected={Role.LOADER: (until("4.0.0", since="3.7.0", last="3.9.2"),)},
        traits=_NEW,
        action=Action.ASK,
        remedy="let the replay lint (rule N5) read the log first, or go to 4.0.2 or newer",
        source=KAFKA + "16898",
        sure=Sure.VERIFIED,
        seen="rule N5 of the replay lint, provoked on 3.9.2 (tests/matrix/test_replay_lint.py); a group that"
        " was half-way back to classic while its log was compacted: 3.9.2 answers NOT_COORDINATOR, 4.0.2"
        " loads the same log whole (tests/matrix/test_conversion_compaction.py); classes of 4.0.0 have the"
        " fix",
    ),
    Hazard(
        number="H15",
        bug="KIP-848 preview",
        title="3.8 and 3.9 have the consumer protocol as a preview",
        happens="it is not meant for production, and the migration policy is disabled unless it is set",
        moves=BOTH_WAYS,
        affected={Role.BROKER: (until("4.0.0", since="3.8.0", last="3.9.2"),)},
        action=Action.ASK,
        remedy="go to 4.0 or newer for it",
        source="https://cwiki.apache.org/confluence/display/KAFKA/KIP-848:+The+Next+Generation+of+the+Cons"
        "umer+Rebalance+Protocol",
        sure=Sure.READ,
        seen="3.9.2: default policy disabled, heartbeat version 0; 4.0.2: bidirectional",
    ),
    Hazard(
        number="H16",
        bug="KAFKA-18134",
        title="an assignor's data is dropped when a group is converted",
        happens="brokers before 4.0 convert a group whose assignor keeps user data in the assignment, and"
        " lose that data",
        moves=frozenset({UP}),
        affected={Role.BROKER: (until("4.0.0", since="3.8.0", last="3.9.2"),)},
        traits=frozenset({Trait.ASSIGNMENT_DATA, Trait.NEW_COORDINATOR, Trait.ONLINE}),
        action=Action.REFUSE,
        remedy="change to range or roundrobin first, or move while the group is empty",
        source=JIRA + "KAFKA-18134",
        sure=Sure.READ,
        seen="classes: no check in 3.8.1, 3.9.1, 3.9.2; from 4.0.0 such a group is refused with error 69"
        " (H23)",
    ),
    Hazard(
        number="H17",
        bug="KAFKA-17317",
        title="a classic static member that replaces the last native one does not convert the group",
        happens="the group stays of type consumer with classic members only",
        moves=_BACK,
        affected={Role.BROKER: (until("4.0.0", since="3.8.0", last="3.9.2"),)},
        traits=frozenset({Trait.STATIC_MEMBERS, Trait.NEW_COORDINATOR}),
        action=Action.ASK,
        remedy="stop one native member for longer than its session instead of replacing it, and check the"
        " type",
        source=JIRA + "KAFKA-17317",
        sure=Sure.READ,
        seen="classes: the conversion is missing in 3.9.2 and there in 4.0.0",
    ),
    Hazard(
        number="H18",
        bug="KAFKA-19546",
        title="a static member that comes back with another subscription causes no rebalance",
        happens="the group is converted, and the topics added or dropped stay unassigned or assigned",
        moves=frozenset({BACK, DOWN}),
        affected={
            Role.BROKER: (
                until("4.0.2", since="4.0.0", last="4.0.1"),
                until("4.1.1", since="4.1.0", last="4.1.0"),
            )
        },
        traits=frozenset({Trait.STATIC_MEMBERS, Trait.OTHER_SUBSCRIPTION}),
        action=Action.REFUSE,
        remedy="keep each static member's subscription during the move, or go to 4.0.2 or 4.1.1 first",
        source=JIRA + "KAFKA-19546",
        sure=Sure.READ,
        seen="classes: missing in 4.0.0, 4.0.1, 4.1.0, there in 4.0.2, 4.1.1; 4.1.1 and 4.0.2 as the commits"
        " to the branches say",
    ),
    Hazard(
        number="H19",
        bug="KAFKA-20640",
        title="policy disabled still lets classic members into a group of type consumer",
        happens="the group stays mixed for ever, for neither conversion is allowed",
        moves=_BACK,
        affected={
            Role.BROKER: (
                until("4.0.3", since="3.8.0", last="4.0.2", fix=Fix.MERGED),
                until("4.1.3", since="4.1.0", last="4.1.2", fix=Fix.MERGED),
                until("4.2.2", since="4.2.0", last="4.2.1", fix=Fix.NOT_CONFIRMED),
                until("4.3.1", since="4.3.0", last="4.3.0"),
            )
        },
        traits=frozenset({Trait.POLICY_DISABLED, Trait.NEW_COORDINATOR, Trait.ONLINE}),
        action=Action.REFUSE,
        remedy="set the policy to downgrade or bidirectional on every broker (a restart), or move while the"
        " group is empty",
        source=JIRA + "KAFKA-20640",
        sure=Sure.VERIFIED,
        seen="4.0.2, 4.1.2 and 4.2.1 admit, 4.3.1 and 4.4.0 refuse; classes: the refusal is in none of 3.8.1"
        " to 4.3.0; merged to the branches 4.0, 4.1 and 4.3 in June 2026, of 4.2 no commit was found",
    ),
    Hazard(
        number="H20",
        bug="policy disabled",
        title="policy disabled keeps classic members out of a group of type consumer",
        happens="they are answered INCONSISTENT_GROUP_PROTOCOL (23); librdkafka tries for ever and says"
        " nothing",
        moves=_BACK,
        affected={
            Role.BROKER: (
                until("4.1.0", since="4.0.3", last="4.0.3", fix=Fix.LINE),
                until("4.2.0", since="4.1.3", last="4.1.3", fix=Fix.LINE),
                until("4.3.0", since="4.2.2", last="4.2.2", fix=Fix.LINE),
                since("4.3.1", last="4.4.0"),
            )
        },
        traits=frozenset({Trait.POLICY_DISABLED, Trait.ONLINE}),
        action=Action.REFUSE,
        remedy="set the policy to downgrade or bidirectional on every broker (a restart), or move while the"
        " group is empty",
        source=KAFKA + "22457",
        sure=Sure.VERIFIED,
        seen="4.3.1 and 4.4.0: 23, never admitted; the lines 4.0 to 4.2 follow from H19, not seen",
    ),
    Hazard(
        number="H21",
        bug="KAFKA-21176",
        title="a converted group stays in the coordinator's index of topics",
        happens="a leak in the coordinator's memory; no effect on members is reported",
        moves=_BACK,
        affected={
            Role.BROKER: (
                until("4.3.3", since="4.0.0", last="4.3.1"),
                until("4.4.1", since="4.4.0", last="4.4.0"),
            )
        },
        action=Action.WARN,
        remedy="nothing, unless groups are converted by the thousand",
        source=JIRA + "KAFKA-21176",
        sure=Sure.REPORTED,
        seen="fix versions 4.3.3, 4.4.1 and 4.5.0 of the issue",
    ),
    Hazard(
        number="H22",
        bug="KAFKA-21582",
        title="a native static member that replaces a classic one during a rebalance gets a stale assignment",
        happens="the former generation's assignment stands, and in a group that never finished its first"
        " rebalance the member gets epoch 0 (KAFKA-21581)",
        moves=frozenset({UP}),
        affected={Role.BROKER: (since("4.0.0", last="4.4.0"),)},
        traits=frozenset({Trait.STATIC_MEMBERS, Trait.ONLINE}),
        action=Action.WARN,
        remedy="replace members only while the group is Stable",
        source=JIRA + "KAFKA-21582",
        sure=Sure.REPORTED,
        seen="affects version 4.0.0 of the issue; no fix version was found",
    ),
)
"""H10 to H22."""
