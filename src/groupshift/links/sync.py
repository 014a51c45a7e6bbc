"""Plans one cycle of a sync: looks at both clusters, translates each commit, decides about each offset.

`translate` is what other programs call for one group (KIP-545's ``translateOffsets``); `SyncPlanner` is the
same for all groups, and for cycle after cycle. Neither changes a cluster.

Records are read after all other looks (`groupshift.links.sync_look`), by a reader of the target that is
opened before that of the source: each copy that is met has its original.

Decided here:

* A commit below the source's log start is translated itself, not the log start: the target may still have the
  records, and would skip them (§9.1).
* The topic of a commit is known by the topic id that its coordinator tells (4.1 on), else by the id that was
  remembered with this very commit; else a commit within the log counts as one of the present topic, and one
  beyond it as one of an older topic.
* A commit on the target that its coordinator tells to be of a former topic counts as none.
* A group that nobody could read in full on the source has a row of its own beside those that were read.
* Where not one topic in scope has a copy, the link is described wrongly: that is refused, not skipped.

Source: docs/reference/cross-cluster-offsets.md §§8, 9, 9.1; KIP-545.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from typing import NamedTuple

from groupshift.domain.partitions import TopicPartition, grouped
from groupshift.domain.rows import OffsetRow
from groupshift.errors import Rejected, Transient
from groupshift.links.discovery import timestamps_of
from groupshift.links.link import MIRRORMAKER, Counterpart, LinkKind, SyncLocation
from groupshift.links.mirrormaker import CheckpointFilter, MirrorMakerStore
from groupshift.links.partition_translation import (
    IdentityProof,
    TranslationRules,
    prove_identity,
    translate_partition,
)
from groupshift.links.ports import GroupPartition, LinkSyncs, TopicLogs
from groupshift.links.record_reads import FingerprintRule, content_by
from groupshift.links.sync_history import PartitionPair, SyncHistory
from groupshift.links.sync_look import Look, OpenLink, Positions, log_of, look_at, observation_of
from groupshift.links.sync_plan import SyncPlan, SyncRequest, SyncRow
from groupshift.links.translation import Certainty, Evidence, Reason, Translation
from groupshift.links.write_rules import Decision, Failure, LogRange, Observation, decide, explain
from groupshift.ports.records import PartitionReader

LEDGER = "kpr1;"
"""What metadata begins with that holds offsets of the source: it means nothing on the target (§9 step 7)."""
_SYNCS = "mm2-offset-syncs"
_BEHIND = (
    "The link has not copied all records before the commit yet: plan again, or the group reads these again"
)
_RULES_MS = 60_000
_EVIDENCE = tuple(each.name for each in fields(Evidence))


class _Parity:
    """What MirrorMaker would write: its store of each partition, and its last checkpoint of each group."""

    def __init__(self, syncs: LinkSyncs) -> None:
        self._source = syncs
        self._stores: dict[TopicPartition, tuple[MirrorMakerStore, int]] = {}
        self._checkpoints = CheckpointFilter()

    def offset(self, key: GroupPartition, committed: int) -> int | None:
        """The offset of its newest checkpoint; None: it has none. It never has one of a group id with a comma
        (§6, H6)."""
        if "," in key.group:
            return None
        translated = self._store(key.partition).translate(committed)
        self._checkpoints.offer(key.group, key.partition, committed, translated)
        checkpoint = self._checkpoints.checkpoint(key.group, key.partition)
        return checkpoint.translated if checkpoint else None

    def _store(self, partition: TopicPartition) -> MirrorMakerStore:
        syncs = self._source.all_of(partition)
        store, inserted = self._stores.get(partition) or (MirrorMakerStore(), 0)
        if inserted > len(syncs):  # another process began an epoch, and what was before it is gone
            store, inserted = MirrorMakerStore(), 0
        for sync in syncs[inserted:]:
            store.insert(sync.upstream, sync.downstream)
        store.finish_loading()
        self._stores[partition] = store, len(syncs)
        return store


class Readers(NamedTuple):
    """The readers of a partition and of its copy."""

    source: PartitionReader
    target: PartitionReader


class SyncPlanner:
    """Plans the cycles of one link; keeps proofs of identity and MirrorMaker's stores from one to the next.

    ``compares``: rows say what MirrorMaker would write.

    Raises `Rejected` for a filter that cannot be used."""

    def __init__(self, at: OpenLink, request: SyncRequest, *, compares: bool = True) -> None:
        self._at, self._request, self._filters = at, request, request.filters
        self._proofs: dict[TopicPartition, IdentityProof] = {}
        self._rules: dict[TopicPartition, tuple[int, TranslationRules]] = {}
        self._parity = _Parity(at.syncs) if compares and at.link.kind in MIRRORMAKER else None
        self._is_checked = False

    def plan(
        self,
        groups: Iterable[str] | None = None,
        positions: Positions | None = None,
        known: Mapping[GroupPartition, int | None] | None = None,
    ) -> SyncPlan:
        """Return the rows of these groups (None: of all groups of the source); nothing is changed.

        ``positions`` are those of the journal; without them nothing is known of earlier cycles. ``known`` are
        the commits on the target at the last look, by the partition of the source.

        Raises:
            Rejected: the link cannot be as it is described; nothing was read of groups then. Or an offset
                lies before the first sync, and ``before_first_sync`` is fail.
            Transient: the source does not answer, or does not list all of its groups.
        """
        at, made_ms = self._at, self._at.clock.now_ms()
        clusters = require_two_clusters(at)
        if not self._is_checked:
            _require_sync_topic(at)
            self._is_checked = True
        wanted = sorted(at.source.groups() if groups is None else set(groups))
        refusals = {group: self._filters.refusal_of_group(group) for group in wanted}
        taken = [group for group in wanted if not refusals[group]]
        look = look_at(at, taken)
        _require_copies(at, self._filters.accepts_topic, look)
        rows = [_whole_group(group, Reason.SKIP_FILTERED, why) for group, why in refusals.items() if why]
        rows += [_whole_group(group, Reason.SKIP_ADMIN_ERROR, why) for group, why in look.unread.items()]
        rows += self._rows(look, positions or {}, known or {})
        commas = [group for group in taken if "," in group and at.link.kind in MIRRORMAKER]
        notes = (
            f"group {group}: MirrorMaker never syncs a group id with a comma; groupshift does"
            for group in commas
        )
        return SyncPlan(
            request=self._request,
            source_cluster=clusters[0],
            target_cluster=clusters[1],
            made_ms=made_ms,
            rows=tuple(sorted(rows, key=lambda row: (row.group, row.source_tp))),
            notes=tuple(notes),
        )

    def _rows(
        self, look: Look, positions: Positions, known: Mapping[GroupPartition, int | None]
    ) -> list[SyncRow]:
        rows: list[SyncRow] = []
        for partition, keys in grouped((key.partition, key) for key in look.commits).items():
            cells = [
                observation_of(look, key, positions.get(key), *([known[key]] if key in known else ()))
                for key in keys
            ]
            refusal = self._filters.refusal_of_topic(partition.topic)
            if refusal:
                cells = [replace(cell, refusal=refusal) for cell in cells]
            commits = [c for cell in cells if (c := _offset(cell.source_commit)) is not None]
            translations = {} if refusal else self.translations(partition, commits, look)
            rows += [
                self._row(cell, translations.get(_offset(cell.source_commit)), look.commits[key])
                for cell, key in zip(cells, keys, strict=True)
            ]
        return rows

    def accepts_topic(self, topic: str) -> bool:
        """Whether a topic of the source is synced."""
        return self._filters.accepts_topic(topic)

    # -- the translation -------------------------------------------------------------------------------

    def readers(self, partitions: Collection[TopicPartition], look: Look) -> Mapping[TopicPartition, Readers]:
        """Open readers of source partitions and of their copies, all looked up together: those of the target
        first. What is gone, and what has no copy, is left out."""
        isolation, targets = self._at.link.isolation, dict[TopicPartition, TopicPartition]()
        for at in partitions:
            copy = look.copies[at.topic].topic
            if copy is not None:
                targets[at] = TopicPartition(copy, at.partition)
        copies = self._at.target.open(list(targets.values()), isolation)
        originals = self._at.source.open(list(targets), isolation)
        return {
            at: Readers(originals[at], copies[target])
            for at, target in targets.items()
            if at in originals and target in copies
        }

    def translations(
        self,
        partition: TopicPartition,
        commits: Iterable[int],
        look: Look,
        readers: Mapping[TopicPartition, Readers] | None = None,
    ) -> Mapping[int | None, Translation | Failure]:
        """Return the translation of each committed offset of a source partition that was looked at, by its
        offset; none where either log is not known. ``readers`` None: they are opened here."""
        copy = look.copies[partition.topic].topic
        target = TopicPartition(copy or "", partition.partition)
        wanted = sorted(set(commits))
        logs = log_of(look.source_topics, partition), log_of(look.target_topics, target)
        if copy is None or not wanted or not all(isinstance(log, LogRange) for log in logs):
            return {}
        try:
            opened = (self.readers([partition], look) if readers is None else readers).get(partition)
            if opened is None:
                return dict.fromkeys(
                    wanted, Failure(f"{partition} or its copy is gone since it was looked at")
                )
            translations = self._translated(partition, target, wanted, look, opened)
        except Transient as why:
            return dict.fromkeys(wanted, Failure(str(why)))
        except Rejected as wrong:
            raise Rejected(f"link {self._at.link.name}, {partition}: {wrong}") from None
        return dict(zip(wanted, translations, strict=True))

    def _translated(
        self,
        partition: TopicPartition,
        target: TopicPartition,
        commits: Sequence[int],
        look: Look,
        readers: Readers,
    ) -> Sequence[Translation]:
        at, link, (original, reader) = self._at, self._at.link, readers
        source_topic, target_topic = look.source_topics[partition.topic], look.target_topics[target.topic]
        source_log, target_log = log_of(look.source_topics, partition), log_of(look.target_topics, target)
        assert isinstance(source_topic, TopicLogs)  # noqa: S101 - its log was looked up
        assert isinstance(target_topic, TopicLogs)  # noqa: S101
        assert isinstance(source_log, LogRange)  # noqa: S101
        assert isinstance(target_log, LogRange)  # noqa: S101
        pair = PartitionPair(
            source_id=source_topic.topic_id,
            target_id=target_topic.topic_id,
            source_start=source_log.start,
            target_end=target_log.end,
            sync_log_end=look.sync_log_end,
        )
        at.syncs.observe(partition, pair)
        syncs = at.syncs.history(partition)
        rules = self._rules_of(partition, readers)
        proof = None
        if link.kind is LinkKind.OFFSET_PRESERVING:
            proof = self._proof(partition, rules.fingerprint, pair)
            if proof is None or not proof.is_proven:
                self._proofs[partition] = proof = prove_identity(
                    original,
                    reader,
                    rules.fingerprint or FingerprintRule(),
                    source_topic_id=pair.source_id or "",
                    target_topic_id=pair.target_id or "",
                )
        sign = syncs and syncs.replay_sign(target_end=target_log.end, now_ms=at.clock.now_ms())
        translations = translate_partition(
            commits,
            target=reader,
            source=original,
            syncs=syncs,
            identity=proof,
            replay_sign=sign or None,
            rules=rules,
        )
        if proof is not None and not proof.is_proven:
            why = f"offsets are not proven to be the same: {proof.reason}"
            return [replace(each, evidence=replace(each.evidence, note=why)) for each in translations]
        return [
            replace(each, evidence=replace(each.evidence, is_behind=True))
            if each.x == reader.end and not _has_arrived(each.committed, original, reader, syncs, rules)
            else each
            for each in translations
        ]

    def _rules_of(self, partition: TopicPartition, readers: Readers) -> TranslationRules:
        """The rules for a partition; who sets the timestamps of both topics is looked up once a minute."""
        now_ms = self._at.clock.now_ms()
        at_ms, rules = self._rules.get(partition, (0, TranslationRules()))
        if now_ms - at_ms >= _RULES_MS:
            declared = TranslationRules.of_link(
                self._at.link,
                partition.topic,
                source_timestamps=timestamps_of(readers.source),
                target_timestamps=timestamps_of(readers.target),
            )
            rules = replace(
                declared,
                certainty_min=self._request.certainty_min,
                before_first_sync=self._request.before_first_sync,
            )
            self._rules[partition] = now_ms, rules
        return rules

    def _proof(
        self, partition: TopicPartition, rule: FingerprintRule | None, pair: PartitionPair
    ) -> IdentityProof | None:
        """A proof of an earlier cycle, while both topics are the same ones; without ids it is made anew."""
        proof = self._proofs.get(partition)
        if proof is None or rule is None or not (pair.source_id and pair.target_id):
            return None
        return proof if proof.holds_for(pair.source_id, pair.target_id) else None

    # -- the row ---------------------------------------------------------------------------------------

    def _row(self, cell: Observation, translation: Translation | Failure | None, row: OffsetRow) -> SyncRow:
        if isinstance(translation, Translation):
            cell = cell.with_translation(translation)
        elif translation is not None:
            cell = replace(cell, translation=translation)
        decision = decide(cell, policy=self._request.rewind_policy)
        c = _offset(cell.source_commit)
        mm2_x = None
        if self._parity and c is not None and not cell.refusal:
            mm2_x = self._parity.offset(GroupPartition(cell.group, cell.source), c)
        made = row_of(cell, decision, translation if isinstance(translation, Translation) else None)
        return replace(
            made,
            mm2_x=mm2_x,
            mm2_again=None if mm2_x is None or made.x is None else max(0, made.x - mm2_x),
            metadata="" if (row.metadata or "").startswith(LEDGER) else row.metadata,
        )


def _has_arrived(
    committed: int,
    source: PartitionReader,
    target: PartitionReader,
    syncs: SyncHistory | None,
    rules: TranslationRules,
) -> bool:
    """Whether the last record before a commit is known to be on the target, for a group that goes on at the
    end of the target: by a sync, or by the target's last record."""
    last = source.before(committed, 1)
    if not last or (syncs and syncs.newest and syncs.newest.upstream >= last[0].offset):
        return True
    copy = target.before(target.end, 1)
    if not copy:
        return False
    if rules.offset_header:
        return rules.offset_header.source_offset(copy[0]) == last[0].offset
    if rules.fingerprint is None:
        return False
    content = content_by(rules.fingerprint)
    return content(copy[0]) == content(last[0])


def _offset(commit: int | Failure | None) -> int | None:
    """The committed offset; None where there is none, or a client committed -1."""
    return commit if isinstance(commit, int) and commit >= 0 else None


def _whole_group(group: str, reason: Reason, why: str) -> SyncRow:
    said = f"group {group}: left out by the filters ({why})" if reason is Reason.SKIP_FILTERED else why
    return SyncRow(group=group, source_tp="", reason=reason, said=said)


def row_of(cell: Observation, decision: Decision, translation: Translation | None = None) -> SyncRow:
    """Return the row of a decision; without a translation it has no method and no evidence."""
    source, target = (
        log if isinstance(log, LogRange) else None for log in (cell.source_log, cell.target_log)
    )
    x, evidence, said = decision.x, dict[str, object](), explain(cell, decision)
    if translation is not None:
        x = translation.x if x is None else x
        kept = translation.evidence
        evidence = {name: value for name in _EVIDENCE if (value := getattr(kept, name)) not in (None, "", 0)}
        said += f" ({kept.note})" if translation.x is None and kept.note else ""
        said += f". {_BEHIND}" if kept.is_behind else ""
    deleted = max(0, (x or 0) - (x or 0 if decision.translated is None else decision.translated))
    is_skipped = decision.reason.startswith("SKIP")
    return SyncRow(
        group=cell.group,
        source_tp=str(cell.source),
        target_tp="" if cell.target is None else str(cell.target),
        c=_offset(cell.source_commit),
        s_start=source.start if source else None,
        s_end=source.end if source else None,
        t_start=target.start if target else None,
        t_end=target.end if target else None,
        t_current=_offset(cell.target_commit),
        x=x,
        method=translation.method if translation else None,
        certainty=translation.certainty if translation else None,
        evidence=evidence,
        action=decision.action,
        reason=decision.reason,
        est_again=_again(translation, x, target.end) if translation and x is not None and target else 0,
        est_lost=0 if is_skipped else deleted,
        translated=cell.translation if isinstance(cell.translation, int) else None,
        source_id=cell.ids_before.source,
        target_id=cell.ids_now.target,
        said=said,
    )


def _again(translation: Translation, x: int, target_end: int) -> int:
    """The most records that the group reads again from ``x`` on, by the syncs around its commit."""
    if translation.certainty is Certainty.EXACT_PROVEN:
        return 0
    evidence, anchor = translation.evidence, translation.evidence.anchor
    high = evidence.next_sync.target if evidence.next_sync else target_end
    low = anchor.target if anchor else 0
    if not low <= x <= high or evidence.before_replay is not None:
        return max(0, target_end - x)  # by an older run: what was copied again since is read, too
    if anchor is None or x > low + 1:
        return high - x
    # x is behind the copy of the anchor: what was committed since then is read again
    return min(high - x, max(0, translation.committed - anchor.source - 1))


# -- whether the link is what it is said to be ---------------------------------------------------------------


def require_two_clusters(at: OpenLink) -> tuple[str, str]:
    """Return the ids of source and target. Raises `Rejected` where both are one cluster."""
    source, target = at.source.cluster_id(), at.target.cluster_id()
    if source == target:
        raise Rejected(
            f"link {at.link.name}: source and target are the same cluster ({source}); "
            "name the servers of two clusters"
        )
    return source, target


def _require_sync_topic(at: OpenLink) -> None:
    """Raise `Rejected` unless MirrorMaker's offset-syncs topic is where the link says."""
    link = at.link
    topics = link.internal_topics
    if topics is None:
        return
    names = {SyncLocation.SOURCE: at.source.topic_names(), SyncLocation.TARGET: at.target.topic_names()}
    here, wanted = link.sync_location, topics.offset_syncs
    if wanted in names[here]:
        return
    other = SyncLocation.TARGET if here is SyncLocation.SOURCE else SyncLocation.SOURCE
    there = replace(link, sync_location=other).internal_topics
    where = f"link {link.name}: the {here} cluster has no offset-syncs topic {wanted}"
    if there and there.offset_syncs in names[other]:
        raise Rejected(
            f"{where}, and the {other} cluster has {there.offset_syncs}; set sync_location to {other}"
        )
    alike = sorted(name for name in names[here] if name.startswith(_SYNCS))
    if alike:
        name = "target_alias" if here is SyncLocation.SOURCE else "source_alias"
        raise Rejected(
            f"{where}, it has {', '.join(alike)}; correct {name} {getattr(link, name)!r}, or the separator"
        )
    raise Rejected(f"{where}; start MirrorMaker with this pair of aliases, or correct aliases and separator")


def _require_copies(at: OpenLink, accepts: Callable[[str], bool], look: Look) -> None:
    """Raise `Rejected` where topics are in scope and the target has a copy of none of them."""
    link = at.link
    topics = sorted({key.partition.topic for key in look.commits if accepts(key.partition.topic)})
    copies = {topic: copy for topic in topics if (copy := link.target_topic(topic).topic) is not None}
    if not copies or any(copy in look.target_topics for copy in copies.values()):
        return
    topic, copy = next(iter(copies.items()))
    where = f"link {link.name}: the target has no copy of any topic in scope ({topic} would be {copy})"
    names = at.target.topic_names()
    for kind in sorted(MIRRORMAKER - {link.kind}) if link.kind in MIRRORMAKER else ():
        twin = Counterpart(None)
        with suppress(Rejected):
            twin = replace(link, kind=kind).target_topic(topic)
        if twin.topic in names:
            raise Rejected(f"{where}, and it has {twin.topic}, as kind {kind} names it; set kind to {kind}")
    raise Rejected(f"{where}; have the link replicate it, or correct kind, aliases and separator")


def translate(link: OpenLink, group: str, request: SyncRequest | None = None) -> tuple[SyncRow, ...]:
    """Translate all committed offsets of one group of the source, and change nothing.

    It is the answer of ``RemoteClusterUtils.translateOffsets`` (KIP-545), with what that leaves open: a
    partition without an offset has a reason, each offset says how certain it is, and what could not be read
    is named instead of left out (§6, H7). ``SyncRow.x`` is the offset for ``SyncRow.target_tp``; commit it
    without a leader epoch. ``request`` None: the defaults, with all topics.

        with open_link(settings, "dr") as link:
            offsets = {row.target_tp: row.x for row in translate(link, "billing") if row.x is not None}

    Returns one row for each partition that the group has a commit of, in their order; a group without any has
    no row.

    Raises:
        Rejected: the link cannot be as it is described.
        Transient: the source does not answer.
    """
    chosen = request or SyncRequest(link=link.link.name, groups_exclude=())
    return SyncPlanner(link, chosen).plan([group]).rows
