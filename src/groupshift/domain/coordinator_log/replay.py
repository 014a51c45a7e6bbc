"""Replay lint: what the coordinator of a release would load from this log.

Per group: it loads, it loads with loss, or its partition's coordinator fails, with the record that
decides; of a log that Apache Kafka did not write nothing is said.
Source: specs/group-coordinator.md §1.7 "Replay lint", §4; the releases are data (`releases`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from groupshift.domain.coordinator_log.materialise import materialise
from groupshift.domain.coordinator_log.other_writers import other_writers
from groupshift.domain.coordinator_log.records import Decoded, DecodeStatus
from groupshift.domain.coordinator_log.releases import Coordinator, Loader, loader
from groupshift.domain.coordinator_log.replay_rules import GroupVerdict, verdict
from groupshift.domain.coordinator_log.shard import load
from groupshift.domain.coordinator_log.state import GroupFamily, GroupState, State

_CLASSIC = 2


def lint(records: Iterable[Decoded], release: str, coordinator: Coordinator) -> dict[str, GroupVerdict]:
    """A verdict for every group with anything live in the log, by group id.

    ``records`` are the whole log of every partition as it lies there (compacted or not), decoded with
    the partition count in force; their order does not matter. Raises `Rejected` for a release that does
    not have this coordinator, and for records decoded without a count.
    """
    line = loader(release, coordinator)
    logs: dict[int, list[Decoded]] = defaultdict(list)
    for record in records:
        logs[record.src_partition].append(record)
    state = materialise(record for log in logs.values() for record in log)
    alive = [group for group in state.groups.values() if group.family is not GroupFamily.GONE]
    if other_writers(record for log in logs.values() for record in log):
        names = {group.group_id: group.partition for group in alive}
        names |= {name: home for name, (home, _) in _displaced(state, logs).items()}
        return {name: verdict(name, home, "X2") for name, home in sorted(names.items())}
    copies = _displaced(state, logs)
    verdicts = _old(alive, logs, copies, line) if coordinator is Coordinator.OLD else _new(alive, logs, line)
    for group_id, (home, record) in copies.items():
        verdicts.setdefault(group_id, verdict(group_id, home, "X1", record))
    return dict(sorted(verdicts.items()))


def _displaced(state: State, logs: Mapping[int, list[Decoded]]) -> dict[str, tuple[int, Decoded]]:
    """Groups with live records outside their partition: where they belong, and the first such record."""
    winners = {(one.commit.src_partition, one.commit.record_offset) for one in state.foreign_commits}
    winners |= {(one.src_partition, one.src_offset) for one in state.foreign_records}
    found: dict[str, tuple[int, Decoded]] = {}
    for log in logs.values():
        for record in sorted(log, key=lambda one: one.src_offset):
            live = not record.is_tombstone and (record.src_partition, record.src_offset) in winners
            if live and record.group_id is not None and record.expected_partition is not None:
                found.setdefault(record.group_id, (record.expected_partition, record))
    return found


def _old(
    groups: Iterable[GroupState],
    logs: Mapping[int, list[Decoded]],
    copies: Mapping[str, tuple[int, Decoded]],
    line: Loader,
) -> dict[str, GroupVerdict]:
    """The old coordinator: all or nothing a partition, and one cache over all of them."""
    broken = {partition: _breaks(records, line) for partition, records in logs.items()}
    verdicts = {}
    for group in groups:
        name, home = group.group_id, group.partition
        stop = broken[home]
        newer = next((one for one in group.records if one.record_type not in line.types), None)
        if stop is not None:
            verdicts[name] = verdict(name, home, *stop)
        elif newer is not None:
            verdicts[name] = verdict(name, home, "O4", newer)
        elif name in copies:
            verdicts[name] = verdict(name, home, "O5", copies[name][1])
        else:
            verdicts[name] = verdict(name, home, "L0")
    return verdicts


def _breaks(records: Iterable[Decoded], line: Loader) -> tuple[str, Decoded] | None:
    """The first record that ends an old coordinator's load of a partition, and its rule."""
    for record in sorted(records, key=lambda one: one.src_offset):
        number = record.record_type
        if number is not None and number not in line.types:
            if not line.ignores_unknown_types:
                return "O1", record
            continue
        limit = line.group_version if number == _CLASSIC else line.commit_version
        if record.value_version is not None and record.value_version > limit:
            return "O2", record
        if record.decode_status is DecodeStatus.ERROR:
            return "O3", record
    return None


def _new(
    groups: Iterable[GroupState], logs: Mapping[int, list[Decoded]], line: Loader
) -> dict[str, GroupVerdict]:
    """The new coordinator: every partition a shard of its own, so copies elsewhere harm nobody."""
    loaded = {partition: load(records, line) for partition, records in logs.items()}
    verdicts = {}
    for group in groups:
        name, home = group.group_id, group.partition
        shard = loaded[home]
        if shard.stopped is not None:
            verdicts[name] = verdict(name, home, *shard.stopped)
        elif any(one.live for one in group.commits) and name not in shard.present:
            verdicts[name] = verdict(name, home, "N8", shard.removed.get(name))
        elif name in shard.ignored:
            verdicts[name] = verdict(name, home, "N9", shard.ignored[name])
        else:
            verdicts[name] = verdict(name, home, "L0")
    return verdicts
