"""What a real coordinator answers beside what is predicted: the same events on any broker and policy."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from groupshift.adapters.kafka.broker_views import LiveProtocolViews
from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.adapters.kafka.connection_and_login import BrokerConnection
from groupshift.adapters.kafka.wire import BrokerError
from groupshift.adapters.system import SystemClock
from groupshift.domain.group_protocol import KafkaGroup, Kind, Protocol
from groupshift.domain.protocol.answers import (
    AnswerOutcome,
    Case,
    CoordinatorAnswer,
    CoordinatorEvent,
    predict,
)
from groupshift_sandbox.kafka import create_topic
from groupshift_sandbox.processes import wait_until
from support.classic_member import ClassicMember, assignment
from support.native_member import NativeMember, ShareMember
from support.release_members import StatedMember

PATIENCE_S = 90.0
PARTITIONS = 2
_NOT_YET = {14, 15, 16}


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """One event: what was predicted, the error code that came, and the group afterwards."""

    name: str
    predicted: CoordinatorAnswer
    code: int
    after: KafkaGroup

    def check(self) -> None:
        """The code is the predicted one; so is the type, where the member got in. What is not told (by
        brokers before 4.0) is not predicted."""
        if self.predicted.outcome is AnswerOutcome.UNKNOWN:
            return
        assert self.code == self.predicted.code, self
        if self.predicted.kind is not None:
            assert self.after.kind is self.predicted.kind, self


class Story:
    """Groups at one broker; `events` plays every event once. Nothing is left running but sessions."""

    def __init__(self, bootstrap: str) -> None:
        self._views = LiveProtocolViews(KafkaCluster(bootstrap, timeout_s=PATIENCE_S), SystemClock())
        self._cluster = KafkaCluster(bootstrap, timeout_s=PATIENCE_S)
        self.topic = f"story-{uuid.uuid4().hex[:8]}"
        create_topic(bootstrap, self.topic, PARTITIONS)

    def close(self) -> None:
        """Close the connections."""
        self._views.close()
        self._cluster.close()

    def look(self, group: str) -> KafkaGroup:
        """The group now."""
        return self._views.look(group).group

    def events(self) -> Iterator[Given]:
        """Every event of the verified tables, with a group of its own each."""
        yield self._native("native, no group", self.group())
        yield self._native("native, live classic", self.classic().group)
        yield self._native("native, assignor with data", self.classic(user_data=b"sticky").group)
        yield self._native("native, live connect", self.classic(kind="connect").group)
        for kind in ("consumer", "connect"):
            member = self.classic(kind=kind)
            member.leave()
            self.await_group(member.group, lambda group: group.state == "Empty")
            yield self._native(f"native, empty {kind}", member.group)
        live = self.native()
        joined = self._classic("classic, live consumer", live.group)
        yield joined
        if not joined.code:
            yield self._last_leaves("last native leaves classic ones", live)
        alone = self.native()
        yield self._last_leaves("last native leaves nobody", alone)
        yield self._classic("classic, empty consumer", alone.group)
        yield self._classic("classic, no group", self.group())
        static = self.native(instance_id="twin")
        yield self._native("native, instance id taken", static.group, instance_id="twin")
        if joined.code:
            return
        ClassicMember(self._at(static.group), static.group, [self.topic]).join()
        yield self._classic("classic, no common assignor", static.group, offers=("roundrobin",))
        yield self._classic("classic, twin of the last native", static.group, instance_id="twin")

    def group(self) -> str:
        """A fresh name."""
        return f"story-{uuid.uuid4().hex[:8]}"

    def native(self, **stated: Any) -> NativeMember:
        """A member with both partitions."""
        group = self.group()
        member = self.patiently(lambda: StatedMember(self._at(group), group, [self.topic], **stated))
        member.await_assigned(PARTITIONS, PATIENCE_S)
        member.group = group
        return member

    def join_native(self, group: str) -> NativeMember:
        """One more member, whatever it is assigned."""
        return self.patiently(lambda: NativeMember(self._at(group), group, [self.topic]))

    def join_share(self, group: str) -> None:
        """A member of a share group comes."""
        self.patiently(lambda: ShareMember(self._at(group), group, [self.topic]).beat())

    def meet_native(self, group: str) -> Given:
        """A native member comes; what was predicted beside what it met."""
        return self._native("native", group)

    def last_leaves(self, last: NativeMember) -> Given:
        """The last native member leaves; likewise."""
        return self._last_leaves("last native leaves", last)

    def join_classic(self, group: str) -> Given:
        """A classic member comes; what was predicted beside what it met."""
        return self._classic("classic", group)

    def classic(self, *, kind: str = "consumer", user_data: bytes | None = None) -> ClassicMember:
        """A member with both partitions; ``user_data`` goes into its assignment."""
        group = self.group()
        member = ClassicMember(self._at(group), group, [self.topic], kind=kind)
        blob = assignment({self.topic: range(PARTITIONS)}, user_data) if kind == "consumer" else b"opaque"
        self.patiently(member.join)
        member.sync(blob)
        self.await_group(group, lambda found: found.state == "Stable")
        return member

    def await_group(self, group: str, holds: Callable[[KafkaGroup], bool]) -> KafkaGroup:
        """Wait until the group is so, and give it."""
        seen: list[KafkaGroup] = []

        def met() -> bool:
            seen.append(self.look(group))
            return holds(seen[-1])

        wait_until(met, PATIENCE_S, f"group {group}", every_s=0.05)
        return seen[-1]

    def patiently(self, do: Callable[[], object]):
        """Do it again while the coordinator is not there yet."""
        done: list[object] = []

        def tried() -> bool:
            try:
                done.append(do())
            except BrokerError as failed:
                if failed.code in _NOT_YET:
                    return False
                raise
            return True

        wait_until(tried, PATIENCE_S, "a coordinator", every_s=0.2)
        return done[-1]

    def predict(self, event: CoordinatorEvent, group: str, **comes: Any) -> CoordinatorAnswer:
        """What the domain says of the group as it is now, once it has a coordinator that tells."""
        self.await_group(group, lambda found: found.kind is not Kind.UNKNOWN)
        view = self._views.look(group)
        return predict(event, Case(group=view.group, broker=view.settings, **comes))

    def _native(self, name: str, group: str, **stated: Any) -> Given:
        predicted = self.predict(CoordinatorEvent.NATIVE_JOINS, group, **stated)
        code = self._code(lambda: StatedMember(self._at(group), group, [self.topic], **stated))
        return Given(name=name, predicted=predicted, code=code, after=self._after(group, predicted))

    def _classic(self, name: str, group: str, *, offers: Sequence[str] = ("range",), **stated: Any) -> Given:
        """The classic members that are there (all that are not known to be native) offer range only."""
        present = [each for each in self.look(group).members if each.speaks is not Protocol.CONSUMER]
        others = (frozenset({"range"}),) if present else ()
        predicted = self.predict(
            CoordinatorEvent.CLASSIC_JOINS, group, offers=frozenset(offers), others=others, **stated
        )
        member = ClassicMember(self._at(group), group, [self.topic], offers=offers, **stated)
        code = self._code(member.join)
        return Given(name=name, predicted=predicted, code=code, after=self._after(group, predicted))

    def _last_leaves(self, name: str, last: NativeMember) -> Given:
        predicted = self.predict(CoordinatorEvent.LAST_NATIVE_LEAVES, last.group)
        last.leave()
        gone = self.await_group(last.group, lambda group: not group.speaking(Protocol.CONSUMER))
        if predicted.outcome is AnswerOutcome.EMPTIED:
            assert (gone.kind, gone.state) == (Kind.CONSUMER, "Empty")
        return Given(name=name, predicted=predicted, code=0, after=gone)

    def _after(self, group: str, predicted: CoordinatorAnswer) -> KafkaGroup:
        """The group once it is as predicted: a coordinator tells what it has written to its log only."""
        if predicted.kind is None:
            return self.look(group)
        return self.await_group(group, lambda found: found.kind is predicted.kind)

    def _code(self, do: Callable[[], object]) -> int:
        try:
            self.patiently(do)
        except BrokerError as refused:
            return refused.code
        return 0

    def _at(self, group: str) -> BrokerConnection:
        wait_until(lambda: group in self._cluster.coordinators([group])[0], PATIENCE_S, "a coordinator")
        return self._cluster.broker(self._cluster.coordinators([group])[0][group])


@contextmanager
def story(bootstrap: str) -> Iterator[Story]:
    """A story that is closed at its end."""
    told = Story(bootstrap)
    try:
        yield told
    finally:
        told.close()
