"""Records that look alike: removed originals, records of others, replays that no sync shows."""

from __future__ import annotations

import pytest

from groupshift.links.alignment import CopyTraits
from groupshift.links.partition_translation import TranslationRules, translate_partition
from groupshift.links.position_search import SearchLimits
from groupshift.links.record_reads import FingerprintRule
from groupshift.links.sync_history import Sync, SyncHistory
from groupshift.links.translation import Certainty, Translation
from groupshift_testing.partition_reads import SimulatedReader
from groupshift_testing.replication import Replication

NO_TIME = FingerprintRule(timestamps=False)
BY_CONTENT = TranslationRules(fingerprint=NO_TIME)


class Logs:
    """A source and a target that are written record by record, and the syncs that are known.

    ``source`` maps offsets to values; ``target`` has source offsets in the order of the copies, with ``None``
    for an offset without a record, and a value for a record of others."""

    def __init__(
        self, source: dict[int, bytes], target: list[int | bytes | None], syncs: list[tuple[int, int]]
    ) -> None:
        self.replication = Replication()
        log = self.replication.source
        for offset, value in source.items():
            log.skip(offset - log.end)
            self.replication.produce(value)
        self._syncs = syncs
        for each in target:
            if each is None:
                self.replication.target.skip()
            elif isinstance(each, bytes):
                self.replication.write_foreign(each)
            else:
                self.replication.position = each
                self.replication.replicate(1)

    def remove(self, *offsets: int) -> Logs:
        """Compact these source records."""
        self.replication.source.compact(*offsets)
        return self

    def translate(self, committed: int, rules: TranslationRules = BY_CONTENT) -> Translation:
        """Translate one offset."""
        history = SyncHistory()
        for at, (upstream, downstream) in enumerate(self._syncs):
            history.append(Sync(upstream=upstream, downstream=downstream, log_offset=at, log_time_ms=at))
        (found,) = translate_partition(
            [committed],
            target=SimulatedReader(self.replication.target),
            source=SimulatedReader(self.replication.source),
            syncs=history,
            rules=rules,
        )
        return found

    def assert_nothing_lost(self, committed: int, rules: TranslationRules = BY_CONTENT) -> Translation:
        """The translation is at or below the exact position; returns it."""
        found = self.translate(committed, rules)
        assert found.x is not None
        assert found.x <= self.replication.exact(committed), found
        return found


def values(count: int, **others: bytes) -> dict[int, bytes]:
    """Unique values, but for ``others``: ``at5=b"x"``."""
    made = {offset: b"%d" % offset for offset in range(count)}
    return made | {int(name.removeprefix("at")): value for name, value in others.items()}


def test_cluster_13_a_copy_whose_original_was_superseded_by_an_equal_one_is_read() -> None:
    """The key got the same value again at 6, behind the next sync, and compaction removed 4: the copy of 4
    looks like one of 6, which is none of this segment's business, and would be skipped."""
    logs = Logs(values(12, at4=b"on", at6=b"on"), list(range(12)), [(2, 2), (5, 5), (11, 11)]).remove(4)
    logs.assert_nothing_lost(4)


def test_cluster_13_the_later_of_two_equal_copies_does_not_hide_the_earlier_one() -> None:
    """Compaction removed 4 and 5, whose copies look like those of 8 and 9. Only a replay would make them
    superfluous, and this is none."""
    source = values(12, at4=b"on", at5=b"off", at8=b"on", at9=b"off")
    logs = Logs(source, list(range(12)), [(2, 2), (11, 11)]).remove(4, 5)
    logs.assert_nothing_lost(4)


def test_cluster_13_removed_copies_are_not_taken_for_a_place_in_the_order() -> None:
    """Behind the last record that is known, a copy is not simply that of the next original with its content:
    copies may have been removed, too."""
    source = values(10, at4=b"off", at5=b"on", at6=b"off")
    logs = Logs(source, list(range(10)), [(2, 2), (7, 7), (9, 9)])
    logs.replication.target.compact(4, 5)
    logs.replication._forget_removed()
    logs.assert_nothing_lost(5)


def test_a_replay_at_the_end_of_the_target_is_not_taken_for_new_records() -> None:
    """Two values in turn: after 7, 8 and 9 the replicator begins anew at 0, whose value 10 has, too."""
    source = {offset: b"%d" % (offset % 2) for offset in range(20)}
    logs = Logs(source, [*range(14), *range(9), *range(7, 10), 0], [(0, 0), (12, 12), (0, 14), (7, 23)])
    logs.assert_nothing_lost(7)


def test_a_replay_of_what_expired_since_does_not_hide_old_copies() -> None:
    """1 and 10 have the same value; the source has deleted 1 since the replicator began anew there, twice."""
    source = values(17, at1=b"same", at10=b"same")
    logs = Logs(source, [*range(17), 1, 2, 3, 1, 2], [(10, 10), (1, 17)])
    logs.replication.source.delete_before(2)
    logs.assert_nothing_lost(10)


def test_cluster_12_markers_and_a_replay_do_not_count_as_removed_records() -> None:
    """Between two syncs lie as many copies as offsets; but 5 to 7 are markers, and 9 came five times."""
    source = {offset: b"%d" % offset for offset in (*range(5), 8, 9, 11, 12)}
    logs = Logs(source, [*range(5), 8, 9, 9, 9, 9, 9, 11, 12], [(4, 4), (11, 11), (12, 12)]).remove(8, 9)
    logs.assert_nothing_lost(5)
    logs.assert_nothing_lost(8)


def test_records_beyond_what_was_read_are_not_taken_for_nothing() -> None:
    """With short limits the source is not read to its end: what is not found there may still be a copy."""
    source = values(100)
    del source[90]
    logs = Logs(source, list(source), [(0, 0), (99, 98)])
    logs.assert_nothing_lost(85, TranslationRules(limits=SearchLimits(scan=21, guard=20)))


FOREIGN = TranslationRules(fingerprint=NO_TIME, traits=CopyTraits(foreign_writers=True))


def test_a_record_of_others_does_not_hide_an_equal_copy() -> None:
    """Somebody writes what the copy of 4 has once more, behind it."""
    logs = Logs(values(9), [0, 1, 2, 3, 4, b"4", 5, 6, 7, 8], [(2, 2), (7, 8), (8, 9)])
    assert logs.assert_nothing_lost(4, FOREIGN).certainty is Certainty.CONSERVATIVE


def test_records_of_others_around_a_copy_say_nothing_about_its_place() -> None:
    """12 and 15 have the same value. Between what look like copies of 11 and 13 lies the copy of 15."""
    source = values(20, at12=b"same", at15=b"same")
    logs = Logs(source, [*range(15), b"11", 15, b"13", *range(16, 20)], [(14, 14), (16, 18), (19, 21)])
    logs.assert_nothing_lost(15, FOREIGN)


def test_cluster_14_what_only_the_target_has_still_is_read() -> None:
    """The source's retention passed the offset, the target's did not."""
    logs = Logs(values(30), list(range(30)), [(0, 0), (20, 20), (29, 29)])
    logs.replication.source.delete_before(10)
    found = logs.assert_nothing_lost(4)
    assert (found.x, found.evidence.expired) == (1, 6)


@pytest.mark.parametrize("grown", [0, 30])
def test_cluster_11_a_target_that_was_cut_is_not_translated_by_older_syncs(grown: int) -> None:
    """Its end would skip what was copied since the cut, and nobody knows where that begins (H2)."""
    logs = Logs(values(100), list(range(100)), [(0, 0), (90, 90)])
    logs.replication.truncate_target(40)
    for number in range(grown):
        logs.replication.produce(b"new %d" % number)
    logs.replication.replicate()
    found = logs.translate(95)
    assert (found.x, found.reason) == (None, "SKIP_TOPIC_RECREATED")
