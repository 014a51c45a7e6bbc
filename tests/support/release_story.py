"""What happens on a broker before its log is compared: groups of every kind that the release has.

Members stay as long as the story is open. Committed texts hold what separates fields in a dump.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient

from groupshift.adapters.kafka.connection_and_login import Access, BrokerConnection
from groupshift.adapters.kafka.requests import fetch_offsets, fetched
from groupshift.adapters.kafka.wire import Api, BrokerError, fill, raise_for
from groupshift.errors import Transient
from groupshift_sandbox.kafka import create_topic
from groupshift_sandbox.processes import wait_until
from support.kio_messages import messages
from support.native_member import ShareMember
from support.release_broker import Release, ReleaseBroker
from support.release_members import EarlyConnection, StatedMember, StreamsMember

ORDERS, PAYMENTS, FORGOTTEN = "orders", "payments", "forgotten"
TOPICS = {ORDERS: 4, PAYMENTS: 2, FORGOTTEN: 1}
ODD = 'a,b]=[::{"q":1},expireTimestamp=7 é\u0000🚀'
_DEADLINE_S = 180.0
_COMMIT, _JOIN, _HEARTBEAT, _SYNC, _DELETE, _DELETE_OFFSETS = 8, 11, 12, 14, 42, 47
_RETRIED = frozenset({14, 15, 16, 27})
_ILLEGAL_GENERATION = 22
_MINUTE_MS, _DAY_MS = 60_000, 86_400_000

Offsets = Mapping[tuple[str, int], tuple[int, str | None]]


class Story:
    """The acts and the members that are there when it is told: calls of `alive` and polls keep them."""

    def __init__(self, broker: ReleaseBroker) -> None:
        self.release: Release = broker.release
        self.bootstrap = broker.bootstrap
        host, _, port = broker.bootstrap.rpartition(":")
        connect = EarlyConnection if broker.release.early_share else BrokerConnection
        self.broker = connect(host, int(port), Access(timeout_s=60.0))
        self.alive: list[Callable[[], Any]] = []
        self.clients: list[Consumer] = []

    def beat(self) -> None:
        """Keep every member."""
        for each in self.alive:
            each()
        for client in self.clients:
            client.poll(0.05)

    def until(self, ready: Callable[[], bool], what: str) -> None:
        """Wait for something while the members live on."""
        wait_until(lambda: (self.beat(), ready())[1], _DEADLINE_S, what, every_s=0.1)

    def settles(self, read: Callable[[], Any], wanted: Any, what: str) -> None:
        """Wait until ``read`` gives what is wanted; the failure tells what it gave last."""
        last: list[Any] = [None]

        def same() -> bool:
            last[0] = read()
            return bool(last[0] == wanted)

        try:
            self.until(same, what)
        except Transient as late:
            raise Transient(f"{what}: {last[0]} instead of {wanted}") from late

    def retried(self, act: Callable[[], Any]) -> Any:
        """Act until the coordinator is there and has no rebalance under way."""
        found: list[Any] = []

        def done() -> bool:
            try:
                found.append(act())
            except BrokerError as error:
                if error.code not in _RETRIED:
                    raise
                return False
            return True

        wait_until(done, _DEADLINE_S, "the coordinator answers", every_s=0.1)
        return found[-1]

    def commit(
        self,
        group: str,
        offsets: Offsets,
        *,
        member: tuple[str, int] = ("", -1),
        retention_ms: int | None = None,
        leader_epoch: int = -1,
    ) -> None:
        """Commit by a request of ours; ``retention_ms`` asks for a version that has it."""
        at_most = 9 if retention_ms is None else 4

        def act() -> None:
            module = messages(self.broker, _COMMIT, at_least=2, at_most=at_most)  # type: ignore[arg-type]
            topics = [
                module.OffsetCommitRequestTopic(
                    name=name,
                    partitions=tuple(
                        fill(
                            module.OffsetCommitRequestPartition,
                            partition_index=number,
                            committed_offset=offset,
                            committed_metadata=text,
                            committed_leader_epoch=leader_epoch,
                        )
                        for (topic, number), (offset, text) in offsets.items()
                        if topic == name
                    ),
                )
                for name in dict.fromkeys(topic for topic, _ in offsets)
            ]
            asked = fill(
                module.OffsetCommitRequest,
                group_id=group,
                generation_id=member[1],
                generation_id_or_member_epoch=member[1],
                member_id=member[0],
                retention_time=dt.timedelta(milliseconds=-1 if retention_ms is None else retention_ms),
                topics=tuple(topics),
            )
            for topic in self.broker.ask(asked).topics:
                for each in topic.partitions:
                    raise_for(each.error_code, f"commit of {group}")

        self.retried(act)

    def offsets(self, group: str) -> dict[tuple[str, int], int]:
        """What the coordinator answers."""
        ((asked, part),) = fetch_offsets(self.broker, [group])
        ((_, code, topics),) = fetched(part, self.broker.ask(asked))
        raise_for(code, f"offsets of {group}")
        return {
            (str(topic.name), each.partition_index): each.committed_offset
            for topic in topics
            for each in topic.partitions
            if each.committed_offset >= 0
        }

    def consumer(self, group: str, **more: Any) -> Consumer:
        """A real client in a group with the classic protocol; it takes the two lasting topics."""
        static = {} if self.release.numbers >= (2, 3) else {"group.instance.id"}
        settings = {
            "bootstrap.servers": self.bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "session.timeout.ms": 120_000,
            "max.poll.interval.ms": 20 * _MINUTE_MS,
            "log_level": 0,
            **{key.replace("_", "."): value for key, value in more.items()},
        }
        client = Consumer({key: value for key, value in settings.items() if key not in static})
        client.subscribe([ORDERS, PAYMENTS])
        self.clients.append(client)
        return client

    def leave(self, client: Consumer) -> None:
        """A client goes before the story is over."""
        self.clients.remove(client)
        client.close()


def assigned(*clients: Consumer) -> int:
    """Partitions of all of them."""
    return sum(len(client.assignment()) for client in clients)


@contextmanager
def told(broker: ReleaseBroker) -> Iterator[Story]:
    """Tell everything that the release can do; the members leave when the context ends."""
    story = Story(broker)
    try:
        for topic, partitions in TOPICS.items():
            story.retried(partial(create_topic, broker.bootstrap, topic, partitions))
        _offsets_only(story)
        _classic(story)
        _worker(story)
        for kind, act in (
            ("transactions", _transactions),
            ("consumer", _native),
            ("streams", _streams),
            ("", _removed),
            ("share", _shared),
        ):
            if not kind or kind in broker.release.kinds:
                act(story)
        yield story
    finally:
        for client in reversed(story.clients):
            client.close()
        story.broker.close()


def _offsets_only(story: Story) -> None:
    """Groups without members, over all partitions of the log; the second commit beats the first."""
    asked = messages(story.broker, Api.FIND_COORDINATOR, at_most=2).FindCoordinatorRequest
    story.until(
        lambda: not story.broker.ask(fill(asked, key="simple", key_type=0)).error_code,
        "the offsets topic is there",
    )
    for number in range(6):
        group = "simple" if not number else f"simple-{number}"
        story.commit(group, {(ORDERS, p): (p, "first") for p in range(4)})
        story.commit(group, {(ORDERS, 0): (17 + number, "second"), (ORDERS, 1): (1 << 40, ODD)})
    story.commit("simple", {(PAYMENTS, 0): (0, None), (PAYMENTS, 1): (5, "")}, leader_epoch=7)


def _classic(story: Story) -> None:
    """Two members, one static; a cooperative one with user data; a group whose member left."""
    pair = [
        story.consumer("classic", client_id="alpha"),
        story.consumer("classic", client_id="beta,b=1", group_instance_id="static-1"),
    ]
    sticky = story.consumer("sticky", partition_assignment_strategy="cooperative-sticky")
    left = story.consumer("left", client_id="gone soon")
    story.until(lambda: all(assigned(each) == 3 for each in pair), "the pair is assigned")
    story.until(lambda: assigned(sticky) == assigned(left) == 6, "the single ones are assigned")
    for client in (*pair, sticky, left):
        mine = ((each.topic, each.partition) for each in client.assignment())
        offsets = [KafkaPartition(*each, 3, metadata="by a member") for each in mine]
        client.commit(offsets=offsets, asynchronous=False)
    story.leave(left)


def _worker(story: Story) -> None:
    """A group of another protocol type: what its members say is theirs alone."""
    broker = story.broker
    module = messages(broker, _JOIN, at_most=3)  # type: ignore[arg-type]
    protocols = (module.JoinGroupRequestProtocol(name="eager", metadata=b"\x00\x01\xffopaque"),)
    asked = fill(
        module.JoinGroupRequest,
        group_id="workers",
        session_timeout=dt.timedelta(minutes=20),
        rebalance_timeout=dt.timedelta(minutes=4),
        member_id="",
        protocol_type="connect",
        protocols=protocols,
    )

    def join() -> Any:
        answer = broker.ask(asked, timeout_s=60.0)
        raise_for(answer.error_code, "workers")
        return answer

    joined = story.retried(join)
    sync = messages(broker, _SYNC, at_most=2)  # type: ignore[arg-type]
    share = sync.SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"\x07work")
    answer = broker.ask(
        sync.SyncGroupRequest(
            group_id="workers",
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=(share,),
        )
    )
    raise_for(answer.error_code, "workers")
    story.commit("workers", {(PAYMENTS, 0): (11, "w")}, member=(joined.member_id, joined.generation_id))


def is_generation(story: Story, group: str, member_id: str, generation: int) -> bool:
    """Whether the coordinator takes a heartbeat of this generation: the only request that tells it."""
    module = messages(story.broker, _HEARTBEAT, at_most=2)  # type: ignore[arg-type]
    asked = module.HeartbeatRequest(group_id=group, generation_id=generation, member_id=member_id)
    code = int(story.broker.ask(asked).error_code)
    if code == _ILLEGAL_GENERATION:
        return False
    raise_for(code, f"heartbeat in {group}")
    return True


def _transactions(story: Story) -> None:
    """Committed, aborted, and both orders of a plain commit inside an open transaction."""
    group = "transactional"
    plain = partial(story.commit, group)
    plain({(ORDERS, 3): (10, "before"), (PAYMENTS, 0): (7, "before")})
    owner = Consumer({"bootstrap.servers": story.bootstrap, "group.id": group, "log_level": 0})

    def transaction(topic: str, number: int, offset: int) -> Producer:
        """By a producer of its own: a 2.4.1 once went on answering what was not in its log, after one
        producer's transactions had followed each other at once."""
        settings = {"transactional.id": f"mover-{topic}-{number}", "log_level": 0}
        producer = Producer({"bootstrap.servers": story.bootstrap, **settings})
        producer.init_transactions(_DEADLINE_S)
        producer.begin_transaction()
        at = [KafkaPartition(topic, number, offset, metadata="in a transaction")]
        producer.send_offsets_to_transaction(at, owner.consumer_group_metadata(), _DEADLINE_S)
        return producer

    transaction(ORDERS, 0, 100).commit_transaction(_DEADLINE_S)
    transaction(ORDERS, 1, 500).abort_transaction(_DEADLINE_S)
    mixed = transaction(ORDERS, 2, 1000)
    plain({(ORDERS, 2): (2000, "meanwhile")})
    mixed.commit_transaction(_DEADLINE_S)
    transaction(ORDERS, 3, 20).commit_transaction(_DEADLINE_S)
    transaction(PAYMENTS, 0, 8).abort_transaction(_DEADLINE_S)
    owner.close()
    wanted = {(ORDERS, 0): 100, (ORDERS, 2): 2000, (ORDERS, 3): 20, (PAYMENTS, 0): 7}
    story.settles(lambda: story.offsets(group), wanted, "the transactions are decided")


def _native(story: Story) -> None:
    """Members that stay, one with all it can say; that left; a regular expression; conversions."""

    def join(group: str, **stated: Any) -> StatedMember:
        topics = [] if "subscribed_topic_regex" in stated else [ORDERS, PAYMENTS]
        member = story.retried(lambda: StatedMember(story.broker, group, topics, **stated))
        story.alive.append(member.beat)
        return member

    def leave(member: StatedMember) -> None:
        story.alive.remove(member.beat)
        member.leave()

    pair = [join("native"), join("native", instance_id="i-1", rack_id="r,1", server_assignor="range")]
    guest, emptied, deleted = join("native"), join("emptied"), join("native-deleted")
    story.until(lambda: bool(guest.assigned), "the guest has its share")
    leave(guest)
    story.until(lambda: sum(len(each.assigned) for each in pair) == 6, "the pair has everything")
    story.until(lambda: len(emptied.assigned) == 6, "the one that will leave is assigned")
    story.until(lambda: bool(deleted.assigned), "the one whose group is deleted is assigned")
    for member, group in ((pair[0], "native"), (emptied, "emptied"), (deleted, "native-deleted")):
        story.commit(group, {(ORDERS, 0): (40, "native")}, member=(member.member_id, member.epoch))
    leave(emptied)
    leave(deleted)
    if story.release.numbers >= (4,):
        seeker = join("seeking", subscribed_topic_regex="orders|pay.*")
        story.until(lambda: len(seeker.assigned) == 6, "the expression is resolved")
    for group in ("mixed", "reverted"):
        classic = story.consumer(group, client_id=f"classic in {group}")
        story.until(lambda client=classic: assigned(client) == 6, f"{group} is classic")
        native = join(group)
        story.until(
            lambda client=classic, member=native: assigned(client) == len(member.assigned) == 3,
            f"{group} is shared",
        )
        if group == "reverted":
            leave(native)
            story.until(lambda client=classic: assigned(client) == 6, f"{group} is classic again")


def _shared(story: Story) -> None:
    """Two members of a share group; one whose member left."""
    members = [
        story.retried(lambda group=group: _ready(ShareMember(story.broker, group, [ORDERS])))
        for group in ("shared", "shared", "shared-left")
    ]
    story.alive += [member.beat for member in members]
    story.until(lambda: all(member.assigned for member in members), "the share members are assigned")
    story.alive.remove(members[-1].beat)
    members[-1].leave()


def _ready(member: ShareMember) -> ShareMember:
    member.beat()
    return member


def _streams(story: Story) -> None:
    """Two members of a streams group, one of which stays."""
    pair = [story.retried(lambda: StreamsMember(story.broker, "streaming")) for _ in range(2)]
    story.alive += [member.beat for member in pair]
    story.until(lambda: all(member.tasks == 2 for member in pair), "the tasks are shared")
    story.alive.remove(pair[1].beat)
    pair[1].leave()
    story.until(lambda: pair[0].tasks == 4, "the one that stays has every task")
    story.commit("streaming", {(ORDERS, 0): (9, "task")}, member=(pair[0].member_id, pair[0].epoch))


def _removed(story: Story) -> None:
    """Everything that makes tombstones: expiry, deleted offsets, topics and groups."""
    story.commit("expiring", {(ORDERS, 0): (1, "")}, retention_ms=1)
    story.commit("expiring", {(ORDERS, 1): (2, "ten days")}, retention_ms=10 * _DAY_MS)
    story.commit("expired", {(ORDERS, 0): (3, "")}, retention_ms=1)
    story.commit("orphaned", {(FORGOTTEN, 0): (4, "x"), (ORDERS, 0): (5, "y")})
    story.commit("thinned", {(ORDERS, 0): (6, ""), (ORDERS, 1): (7, "")})
    admin = AdminClient({"bootstrap.servers": story.bootstrap, "log_level": 0})
    admin.delete_topics([FORGOTTEN])[FORGOTTEN].result(60)
    if story.release.numbers >= (1, 1):
        story.commit("deleted", {(ORDERS, 0): (8, "")})
        names = ["deleted", *(["native-deleted"] if "consumer" in story.release.kinds else [])]
        module = messages(story.broker, _DELETE, at_most=1)  # type: ignore[arg-type]
        for each in story.broker.ask(module.DeleteGroupsRequest(groups_names=tuple(names))).results:
            raise_for(each.error_code, f"{each.group_id} is deleted")
    if story.release.numbers >= (2, 4):
        module = messages(story.broker, _DELETE_OFFSETS)  # type: ignore[arg-type]
        topic = module.OffsetDeleteRequestTopic(
            name=ORDERS, partitions=(module.OffsetDeleteRequestPartition(partition_index=0),)
        )
        answer = story.broker.ask(module.OffsetDeleteRequest(group_id="thinned", topics=(topic,)))
        raise_for(answer.error_code, "thinned")
    story.until(lambda: story.offsets("expiring") == {(ORDERS, 1): 2}, "a commit expires")
    story.until(lambda: story.offsets("expired") == {}, "the only commit of a group expires")
    story.until(lambda: story.offsets("orphaned") == {(ORDERS, 0): 5}, "the topic's commits are gone")
