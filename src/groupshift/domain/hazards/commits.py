"""Hazards of commits and members that the coordinator takes, or keeps out, without a word to anybody.

Sources: specs/verified-epochs-shares.md §§A, C; the classes of kafka-group-coordinator 3.8.1, 3.9.1, 4.0.0 to
4.0.2, 4.1.0 to 4.1.2, 4.2.0, 4.2.1, 4.3.0, 4.3.1 and 4.4.0, and of kafka-clients 2.0.1 to 2.3.1.
"""

from __future__ import annotations

from groupshift.domain.hazards.entries import (
    BOTH_WAYS,
    CLUSTER,
    EXPANSION,
    GROUPS,
    JIRA,
    since,
    until,
)
from groupshift.domain.hazards.model import Action, Hazard, Role, Sure, Trait

_NEW = frozenset({Trait.NEW_COORDINATOR})

COMMITS = (
    Hazard(
        number="H40",
        bug="KAFKA-19233",
        title="a fenced member may not come back with epoch 0",
        happens="the coordinator still knows the member with a higher epoch and answers FENCED_MEMBER_EPOCH"
        " to each new attempt, until the member's session is over",
        moves=BOTH_WAYS,
        affected={Role.BROKER: (until("4.2.0", since="3.7.0", last="4.1.2"),)},
        traits=_NEW,
        action=Action.WARN,
        remedy="wait for one session timeout (group.consumer.session.timeout.ms) before you restart a fenced"
        " member, or go to 4.2 first",
        source=JIRA + "KAFKA-19233",
        sure=Sure.READ,
        seen="classes: the check of the member epoch has no exception for 0 in 3.8.1, 3.9.1, 4.0.0 to 4.0.2"
        " and 4.1.0 to 4.1.2; it has one in 4.2.0, 4.2.1, 4.3.0, 4.3.1 and 4.4.0 (pull request 21305)",
    ),
    Hazard(
        number="H41",
        bug="KAFKA-19163",
        title="a group whose only offsets are pending in a transaction is cleaned up",
        happens="the cleanup of expired offsets takes the group for one without offsets and deletes it while"
        " its first commit is under way",
        moves=GROUPS | {EXPANSION},
        affected={Role.LOADER: (until("4.0.1", since="3.8.0", last="4.0.0"),)},
        traits=_NEW | {Trait.OFFSETS_IN_TRANSACTIONS},
        action=Action.WARN,
        remedy="let the transactions end before the move, and audit the offsets after it; or go to 4.0.1"
        " first",
        source=JIRA + "KAFKA-19163",
        sure=Sure.READ,
        seen="classes: cleanupExpiredOffsets of 3.8.1, 3.9.1 and 4.0.0 looks at no open transaction; that of"
        " 4.0.1, 4.0.2 and 4.1.0 to 4.4.0 does (pull request 19496)",
    ),
    Hazard(
        number="H42",
        bug="KAFKA-19164",
        title="a group whose pending offsets were deleted keeps an open transaction for ever",
        happens="after that transaction ended the coordinator still takes it for open: the group is not"
        " removed when its last offset expires, and readers of stable offsets may wait",
        moves=GROUPS | {EXPANSION},
        affected={Role.LOADER: (until("4.0.1", since="3.8.0", last="4.0.0"),)},
        traits=_NEW | {Trait.OFFSETS_IN_TRANSACTIONS},
        action=Action.WARN,
        remedy="delete no offsets of a group while a transaction commits to it; or go to 4.0.1 first",
        source=JIRA + "KAFKA-19164",
        sure=Sure.READ,
        seen="classes: in 3.8.1, 3.9.1 and 4.0.0 the open transactions of a group are found by its pending"
        " offsets; 4.0.1, 4.0.2 and 4.1.0 to 4.4.0 keep a table of their own",
    ),
    Hazard(
        number="H43",
        bug="KAFKA-19154",
        title="who asks by topic id is told no offset where the commit belongs to a former topic",
        happens="a member that asks by topic id (OffsetFetch 10, Kafka's own consumer in a group of type"
        " consumer) is answered -1 and resets; a member that asks by name reads on at the old number",
        moves=GROUPS | {EXPANSION},
        affected={Role.LOADER: (since("4.1.0", last="4.4.0"),)},
        traits=frozenset({Trait.FORMER_TOPIC}),
        action=Action.WARN,
        remedy="find such commits with groupshift audit (A36); set or delete each of them before the move",
        source=JIRA + "KAFKA-19154",
        sure=Sure.READ,
        seen="classes: fetchOffsets compares topic ids in 4.1.0 to 4.4.0, and in none of 3.8.1 to 4.0.2"
        " (pull request 19744); on 4.3.1 a new topic of the same name was answered by name and by its new id"
        " alike",
    ),
    Hazard(
        number="H44",
        bug="foreign leader epochs",
        title="a Java consumer reads nothing behind a committed leader epoch that its partition never had",
        happens="with an epoch above the partition's it joins, heartbeats, reads nothing and logs nothing;"
        " with one that ended before the offset it goes back, or throws LogTruncationException",
        moves=GROUPS | {EXPANSION, CLUSTER},
        affected={Role.KAFKA_CLIENTS: (since("2.3.0", last="4.3.1"),)},
        traits=frozenset({Trait.FOREIGN_EPOCHS}),
        action=Action.WARN,
        remedy="find such commits with groupshift audit (A34, A35) and write them again without an epoch:"
        " groupshift repair epochs --execute",
        source="https://cwiki.apache.org/confluence/display/KAFKA/KIP-320%3A+Allow+fetchers+to+detect+and"
        "+handle+log+truncation",
        sure=Sure.VERIFIED,
        seen="4.3.1 takes any epoch unchecked; clients 4.3.1 (both protocols) and 3.9.2 stall at one too"
        " high; classes: positions are validated from 2.3.0 on, not in 2.2.2; librdkafka 2.16.0 reads on",
    ),
)
"""H40 to H44."""
