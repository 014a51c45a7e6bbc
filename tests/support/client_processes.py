"""Members of several clients as processes of a test, and what they told so far."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from confluent_kafka import Producer

from groupshift_sandbox.client_members.commands import ClientMember, command, events_file
from groupshift_sandbox.client_members.events import MemberEvent, read_events
from groupshift_sandbox.home import Home
from groupshift_sandbox.processes import Running, start, stop, wait_until

DEADLINE_S = 90.0


class ClientProcess:
    """A member that was started; ``told`` reads its events anew."""

    def __init__(self, home: Home, member: ClientMember) -> None:
        self.member = member
        self._file = events_file(home, member)
        self.process: Running = start(home, command(home, member))

    def told(self, *kinds: str) -> list[MemberEvent]:
        """Its events so far, of these kinds or all."""
        return [each for each in read_events(self._file) if not kinds or each.event in kinds]

    def await_told(
        self, *kinds: str, when: Callable[[MemberEvent], bool] = lambda _event: True
    ) -> MemberEvent:
        """The first event of these kinds for which ``when`` holds, waited for."""
        found: list[MemberEvent] = []

        def there() -> bool:
            found.extend(each for each in self.told(*kinds) if when(each))
            return bool(found)

        wait_until(there, DEADLINE_S, f"{self.member.name} tells {' or '.join(kinds)}", every_s=0.1)
        return found[0]

    def end(self) -> None:
        """SIGTERM, then the deadline of its own close, then SIGKILL."""
        stop(self.process, self.member.close_s + 15.0)


@contextmanager
def client_processes(home: Home) -> Iterator[Callable[[ClientMember], ClientProcess]]:
    """A function that starts a member; all are ended afterwards."""
    begun: list[ClientProcess] = []

    def run(member: ClientMember) -> ClientProcess:
        begun.append(ClientProcess(home, member))
        return begun[-1]

    try:
        yield run
    finally:
        for each in reversed(begun):
            each.end()


def produce(bootstrap: str, topic: str, partitions: int, count: int) -> None:
    """``count`` small records on each partition, acknowledged by all replicas."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    failed: list[object] = []
    for partition in range(partitions):
        for number in range(count):
            producer.produce(
                topic, f"{number}", partition=partition,
                on_delivery=lambda error, _: failed.append(error) if error else None,
            )  # fmt: skip
    assert producer.flush(DEADLINE_S) == 0
    assert failed == []
