"""What is refused before any broker is asked, and what is told of single offsets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from groupshift.adapters.kafka.wire import Api, BrokerError, fill, request_schema
from groupshift.domain.rows import OffsetRow


def test_f03_an_offset_of_a_former_topic_reaches_no_broker() -> None:
    """Whoever wants it committed is told, of this offset alone; there is no cluster to ask."""
    from groupshift.adapters.kafka.group_changes import commit_rows
    from groupshift.ports.changes import refusal_of

    former = OffsetRow(group="g", topic="t", partition=1, offset=5, topic_id="former")
    sound = OffsetRow(group="g", topic="t", partition=0, offset=5)
    refused = commit_rows(None, [former])  # type: ignore[arg-type]
    assert refused == {
        "g": "the offset of t-1 is not committed: it belongs to a former topic of that name, and is not "
        "committed to the topic of today"
    }
    assert (refusal_of(refused, former), refusal_of(refused, sound)) == (refused["g"], "")


def test_f09_a_refusal_names_the_offsets_that_were_refused() -> None:
    """Healthy ones of the same group are none; where only the group is told, it is about all of them."""
    from groupshift.ports.changes import Refusals, refusal_of

    rows = [OffsetRow(group="g", topic="t", partition=number, offset=5) for number in range(3)]
    refused = Refusals()
    refused.add(rows[1], "UNKNOWN_TOPIC_OR_PARTITION (3)")
    assert [bool(refusal_of(refused, row)) for row in rows] == [False, True, False]
    assert [bool(refusal_of({"g": "no"}, row)) for row in rows] == [True] * 3


class Coordinator:
    """A broker of some version that answers every commit, and what it was asked."""

    def __init__(self, highest: int, codes: Sequence[Mapping[int, int]] = ()) -> None:
        self._highest, self._codes = highest, list(codes)
        self.asked: list[Any] = []

    def coordinated(self, groups: Any) -> dict[str, int]:
        return dict.fromkeys(groups, 1)

    def broker(self, _node: int) -> Coordinator:
        return self

    def highest(self, _api: Api) -> int:
        return self._highest

    def request(self, api: Api, *, at_least: int, at_most: int, **values: Any) -> Any:
        assert at_least <= self._highest
        return fill(request_schema(api, min(at_most, self._highest)), **values)

    def ask_each(self, asked: Any, in_flight: int = 1) -> Iterator[tuple[Any, Any]]:  # noqa: ARG002
        for request, part in [each for found in asked.values() for each in found]:
            self.asked.append(request)
            codes = self._codes.pop(0) if self._codes else {}
            yield part, SimpleNamespace(topics=[self._answered(each, codes) for each in request.topics])

    def attempt(self, work: Callable[[], None]) -> None:
        while True:
            try:
                return work()
            except BrokerError:
                continue

    def _answered(self, topic: Any, codes: Mapping[int, int]) -> Any:
        numbers = (each.partition_index for each in topic.partitions)
        said = [SimpleNamespace(partition_index=each, error_code=codes.get(each, 0)) for each in numbers]
        name, topic_id = getattr(topic, "name", None), getattr(topic, "topic_id", None)
        return SimpleNamespace(name=name or "", topic_id=topic_id, partitions=said)

    @property
    def told(self) -> list[tuple[int, list[int]]]:
        """Version and partitions of each request."""
        return [
            (each.__version__, [at.partition_index for topic in each.topics for at in topic.partitions])
            for each in self.asked
        ]


def test_f03_an_offset_without_a_topic_id_takes_the_id_of_no_other_away() -> None:
    """Each is asked by what is known of it; a broker before 4.1 is asked by names."""
    from groupshift.adapters.kafka.group_changes import commit_rows

    known = OffsetRow(group="g", topic="t", partition=0, offset=5, topic_id="BBBBBBBBBBBBBBBBBBBBBA")
    unknown = OffsetRow(group="g", topic="u", partition=1, offset=5)
    newer, older = Coordinator(10), Coordinator(9)
    for each in (newer, older):
        assert commit_rows(each, [known, unknown]) == {}  # type: ignore[arg-type]
    assert newer.told == [(10, [0]), (9, [1])]
    assert older.told == [(9, [0]), (9, [1])]


def test_f09_what_may_pass_is_asked_again_beside_what_is_refused_for_good() -> None:
    """A topic that is gone, and a coordinator that moves: only the latter's offsets are sent again."""
    from groupshift.adapters.kafka.group_changes import commit_rows
    from groupshift.ports.changes import refusal_of

    rows = [OffsetRow(group="g", topic="t", partition=number, offset=5) for number in range(3)]
    cluster = Coordinator(9, [{1: 3, 2: 16}])
    refused = commit_rows(cluster, rows)  # type: ignore[arg-type]
    assert cluster.told == [(9, [0, 1, 2]), (9, [2])]
    assert [bool(refusal_of(refused, row)) for row in rows] == [False, True, False]
