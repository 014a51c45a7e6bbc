"""Hazards of clients that are members: librdkafka (confluent-kafka has its minor version) and Java's.

Sources: specs/verified-coordinator.md §§A, H; specs/group-coordinator.md §7.1.
"""

from __future__ import annotations

from groupshift.domain.hazards.entries import (
    BOTH_WAYS,
    CLUSTER,
    DOWN,
    EXPANSION,
    KAFKA,
    RDKAFKA,
    UP,
    ZOOKEEPER,
    since,
    until,
)
from groupshift.domain.hazards.model import Action, Hazard, Role, Sure, Trait

_UP = frozenset({UP})

CLIENTS = (
    Hazard(
        number="H23",
        bug="cooperative-sticky",
        title="a group on librdkafka's cooperative-sticky may not be converted while it has members",
        happens="the first native member is refused with error 69 (unsupported custom assignor) whenever"
        " librdkafka put user data into the assignments, which it does after some rebalances and not"
        " after others; the group itself goes on",
        moves=_UP,
        affected={
            Role.LIBRDKAFKA: (since("1.6.0", last="2.16.0"),),
            Role.BROKER: (since("4.0.0", last="4.4.0"),),
        },
        traits=frozenset({Trait.COOPERATIVE_STICKY, Trait.ONLINE}),
        action=Action.REFUSE,
        remedy="move while the group is empty, or change all members to range or roundrobin first",
        source=KAFKA + "18046",
        sure=Sure.VERIFIED,
        seen="librdkafka 2.16.0 against 4.3.1: 31 and 23 bytes of user data, error 69; of six fresh groups"
        " two had such data and were refused, four had none and were converted; no issue of librdkafka"
        " was found",
    ),
    Hazard(
        number="H24",
        bug="heartbeat version 1",
        title="librdkafka since 2.10 never joins natively before Kafka 4.0",
        happens="the member raises nothing, joins nothing and consumes nothing",
        moves=_UP,
        affected={
            Role.LIBRDKAFKA: (since("2.10.0", last="2.16.0"),),
            Role.BROKER: (until("4.0.0", last="3.9.2"),),
        },
        action=Action.REFUSE,
        remedy="go to Kafka 4.0 or newer first; confluent-kafka 2.4 to 2.8 speaks the version of 3.8 and 3.9",
        source="https://cwiki.apache.org/confluence/display/KAFKA/KIP-848:+The+Next+Generation+of+the+Cons"
        "umer+Rebalance+Protocol",
        sure=Sure.VERIFIED,
        seen="2.16.1 on 3.9.2, old and new coordinator: 12 s without an event; 2.8.0 joins; 2.10 as read in"
        " the library; no issue of librdkafka was found",
    ),
    Hazard(
        number="H25",
        bug="KIP-848 in librdkafka",
        title="librdkafka before 2.12 has the consumer protocol in early access or preview",
        happens="its makers say not to use it in production",
        moves=_UP,
        affected={Role.LIBRDKAFKA: (until("2.12.0", since="2.4.0", last="2.11.0"),)},
        action=Action.ASK,
        remedy="go to 2.15 or newer first",
        source="https://github.com/confluentinc/confluent-kafka-python/releases/tag/v2.4.0",
        sure=Sure.REPORTED,
        seen="release notes of 2.4.0 (early access); of 2.12.0 (general availability) those of the Go client",
    ),
    Hazard(
        number="H26",
        bug="librdkafka 5541",
        title="librdkafka before 2.15 ignores GROUP_ID_NOT_FOUND in the answer to a heartbeat",
        happens="a member that is refused, or whose group is gone, sends heartbeats for ever and says"
        " nothing",
        moves=frozenset({UP, EXPANSION}),
        affected={Role.LIBRDKAFKA: (until("2.15.0", since="2.4.0", last="2.14.2"),)},
        action=Action.ASK,
        remedy="go to 2.15 or newer first; count the members that the group has, not the processes",
        source=RDKAFKA + "issues/5541",
        sure=Sure.REPORTED,
        seen="the fix (pull request 5488) is of June 2026, 2.15.0 of 30 June 2026; that it holds the fix is"
        " said by a user",
    ),
    Hazard(
        number="H27",
        bug="fatal error -150",
        title="a fatal error of a native member arrives only as the error of a message",
        happens="code() is -150 (_FATAL), fatal() is False, error_cb stays silent; the process lives on and"
        " consumes nothing",
        moves=BOTH_WAYS | {DOWN, EXPANSION},
        affected={Role.LIBRDKAFKA: (since("2.4.0", last="2.16.0"),)},
        action=Action.WARN,
        remedy="let the application test the code, end and be started again; count the members that the group"
        " has, not the processes (groupshift protocol watch)",
        source=RDKAFKA + "pull/5488",
        sure=Sure.VERIFIED,
        seen="2.16.1 on 4.3.1 (errors 69 and 35), 2.8.0 on 3.9.2; no issue of librdkafka was found",
    ),
    Hazard(
        number="H28",
        bug="librdkafka 3740",
        title="close() of a consumer can hang while its coordinator does not answer",
        happens="the member is neither gone nor replaced, and its partitions wait for its session",
        moves=BOTH_WAYS | {DOWN, EXPANSION, ZOOKEEPER},
        affected={Role.LIBRDKAFKA: (since("", last="2.16.0"),)},
        action=Action.WARN,
        remedy="give close() a deadline and end the process by its id",
        source=RDKAFKA + "issues/3740",
        sure=Sure.VERIFIED,
        seen="2.16.1; reported up to 2.5.3, open",
    ),
    Hazard(
        number="H29",
        bug="commit metadata",
        title="confluent-kafka stores a trailing NUL with the metadata of a commit",
        happens="comparisons and readers of that text see one character more",
        moves=BOTH_WAYS | {CLUSTER, EXPANSION},
        affected={Role.LIBRDKAFKA: (since("2.0.0", last="2.16.0"),)},
        traits=frozenset({Trait.COMMIT_METADATA}),
        action=Action.WARN,
        remedy="compare bytes; strip one NUL where the text is used",
        source="https://github.com/confluentinc/confluent-kafka-python/pull/1410",
        sure=Sure.VERIFIED,
        seen="2.16.1; the first version is that of the field itself, no issue was found",
    ),
    Hazard(
        number="H30",
        bug="KIP-848 in kafka-clients",
        title="kafka-clients before 4.0 have the consumer protocol in early access or preview",
        happens="its makers say not to use it in production",
        moves=_UP,
        affected={Role.KAFKA_CLIENTS: (until("4.0.0", since="3.7.0", last="3.9.2"),)},
        action=Action.ASK,
        remedy="go to kafka-clients 4.0 or newer first",
        source="https://cwiki.apache.org/confluence/display/KAFKA/The+Next+Generation+of+the+Consumer+"
        "Rebalance+Protocol+(KIP-848)+-+Early+Access+Release+Notes",
        sure=Sure.REPORTED,
        seen="release notes of 3.7.0 (early access); preview in 3.8, generally available in 4.0",
    ),
)
"""H23 to H30."""
