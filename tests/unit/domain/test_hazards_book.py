"""The hazard book: both borders of every range, and what holds for the whole table."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from groupshift.domain.equality_rules import Comparison
from groupshift.domain.hazards import (
    BOOK,
    MEANS,
    UNKNOWN,
    Action,
    Facts,
    Hazard,
    Met,
    Role,
    Trait,
    hazards_of,
    look,
)
from groupshift.domain.verdict import Verdict
from groupshift.domain.versions import Span, Version
from support.hazards_page import COMMAND, markdown

DOCS = Path(__file__).resolve().parents[3] / "docs" / "reference"
HELD_BY = {Role.LOADER: Role.BROKER}
EVERYTHING = dict.fromkeys(Trait, True)


def _ranges() -> Iterator[tuple[Hazard, Role, Span]]:
    for hazard in BOOK:
        for role, spans in hazard.affected.items():
            for span in spans:
                yield hazard, role, span


RANGES = list(_ranges())
ENDING = [each for each in RANGES if each[2].before is not None]


def _ids(ranges: list[tuple[Hazard, Role, Span]]) -> list[str]:
    return [f"{hazard.number} {role} {span}" for hazard, role, span in ranges]


def _facts(hazard: Hazard, chosen: Mapping[Role, Version], traits: Mapping[Trait, bool]) -> Facts:
    """Facts of a cluster that has this hazard, but for the versions that were chosen."""
    versions: dict[Role, tuple[Met, ...]] = dict.fromkeys(Role, ())
    for role, spans in hazard.affected.items():
        version = chosen.get(role, spans[0].last)
        held = HELD_BY.get(role, role)
        versions[held] = (Met(where=held.value, version=version),)
    return Facts(versions=versions, traits=traits)


def _does(hazard: Hazard, facts: Facts, move: Comparison | None = None) -> Action | None:
    chosen = move or min(hazard.moves)
    (found,) = [each for each in look(chosen, facts) if each.hazard is hazard]
    return found.does


@pytest.mark.parametrize(("hazard", "role", "span"), RANGES, ids=_ids(RANGES))
def test_the_last_affected_version_is_acted_on(hazard: Hazard, role: Role, span: Span) -> None:
    """In every move it concerns, the newest affected version is refused, asked or warned of."""
    assert span.last is not None
    facts = _facts(hazard, {role: span.last}, EVERYTHING)
    said = {move: _does(hazard, facts, move) for move in hazard.moves}
    assert said == dict.fromkeys(hazard.moves, hazard.action)


@pytest.mark.parametrize(("hazard", "role", "span"), RANGES, ids=_ids(RANGES))
def test_the_first_affected_version_is_acted_on_and_the_one_before_is_not(
    hazard: Hazard, role: Role, span: Span
) -> None:
    """The lower border of a range is affected, its candidates too; a snapshot of an older version is not."""
    if span.since is None:
        assert span.holds(Version.parse("0.8.2.0"))
        return
    facts = _facts(hazard, {role: span.since.lowest}, EVERYTHING)
    assert _does(hazard, facts) is hazard.action
    older = Version(span.since.lowest.numbers, -1)
    if not any(each.holds(older) for each in hazard.affected[role]):
        assert _does(hazard, _facts(hazard, {role: older}, EVERYTHING)) is None


@pytest.mark.parametrize(("hazard", "role", "span"), ENDING, ids=_ids(ENDING))
def test_the_first_version_that_is_not_affected_passes(hazard: Hazard, role: Role, span: Span) -> None:
    """One step above the upper border nothing is said any more, and the finding is a pass without a hint."""
    assert span.before is not None
    if any(each.holds(span.before) for each in hazard.affected[role]):
        pytest.fail(f"{hazard.number}: {span} ends inside another range of the same role")
    facts = _facts(hazard, {role: span.before}, EVERYTHING)
    assert _does(hazard, facts) is None
    (found,) = [each for each in look(min(hazard.moves), facts) if each.hazard is hazard]
    assert (found.finding.verdict, found.finding.hint) == (Verdict.PASS, "")


@pytest.mark.parametrize(
    ("hazard", "trait"), [(hazard, trait) for hazard in BOOK for trait in sorted(hazard.traits)],
    ids=lambda each: each.number if isinstance(each, Hazard) else str(each),
)  # fmt: skip
def test_a_condition_that_does_not_hold_clears_and_one_that_nobody_told_asks(
    hazard: Hazard, trait: Trait
) -> None:
    """Without its condition a hazard is clear; where nobody told it, it is not refused but still said."""
    without = _facts(hazard, {}, {**EVERYTHING, trait: False})
    untold = _facts(hazard, {}, {each: True for each in Trait if each is not trait})
    if _does(hazard, without) is not None:  # the versions say it, whatever anybody tells
        assert trait in {Trait.NEW_COORDINATOR, Trait.OLD_COORDINATOR, Trait.KRAFT}
        return
    acted = hazard.action
    assert _does(hazard, untold) is (Action.ASK if acted is Action.REFUSE else acted)
    (found,) = [each for each in look(min(hazard.moves), untold) if each.hazard is hazard]
    assert MEANS[trait] in found.finding.reason


@pytest.mark.parametrize("move", list(Comparison))
def test_an_unknown_version_is_asked_for_and_never_passed(move: Comparison) -> None:
    """Of nothing known, one question a role names every hazard that depends on it."""
    findings = hazards_of(move, Facts(traits=EVERYTHING))
    assert {finding.rule for finding in findings} == {UNKNOWN}
    assert {finding.verdict for finding in findings} == {Verdict.INCONCLUSIVE}
    asked = " ".join(finding.reason for finding in findings)
    assert [each.number for each in BOOK if move in each.moves and each.number not in asked] == []


def test_one_broker_of_unknown_version_among_known_ones_is_asked_for() -> None:
    """Two brokers without the bug do not answer for a third that nobody knows."""
    known = [Met(where=f"broker {number}", version=Version.parse("4.3.1")) for number in (1, 2)]
    facts = Facts(
        versions={
            Role.BROKER: (*known, Met(where="broker 3", version=None)),
            Role.LIBRDKAFKA: (),
            Role.KAFKA_CLIENTS: (),
        },
        traits=EVERYTHING,
    )
    findings = {each.rule: each for each in hazards_of(Comparison.PROTOCOL, facts)}
    assert findings[UNKNOWN].verdict is Verdict.INCONCLUSIVE
    assert "H12" in findings[UNKNOWN].reason


def test_one_affected_broker_among_others_is_named() -> None:
    """The finding says which broker is affected and what to do."""
    facts = Facts(
        versions={
            Role.BROKER: (
                Met(where="broker 1", version=Version.parse("4.0.2")),
                Met(where="broker 2", version=Version.parse("4.0.1")),
            ),
            Role.LIBRDKAFKA: (),
            Role.KAFKA_CLIENTS: (),
        },
        traits=dict.fromkeys(Trait, False),
    )
    (refused,) = [f for f in hazards_of(Comparison.PROTOCOL, facts) if f.verdict is Verdict.FAIL]
    assert refused.rule == "H12"
    assert "broker 2 4.0.1" in refused.reason
    assert "broker 1" not in refused.reason
    assert "4.0.2" in refused.hint


def test_the_target_of_a_downgrade_is_asked_too() -> None:
    """A bug of loading counts where it is met after the move: 4.3.1 has none, the 4.0.1 it goes to has."""
    versions = {
        Role.BROKER: (Met(where="broker", version=Version.parse("4.3.1")),),
        Role.LIBRDKAFKA: (),
        Role.KAFKA_CLIENTS: (),
    }
    for target, does in (("4.0.1", Action.REFUSE), ("4.0.2", None)):
        there = (Met(where="target", version=Version.parse(target)),)
        facts = Facts(versions={**versions, Role.TARGET: there}, traits=EVERYTHING)
        said = {each.hazard.number: each.does for each in look(Comparison.DOWNGRADE, facts)}
        assert said["H12"] is does


def test_a_downgrade_without_a_target_is_asked_where_it_goes() -> None:
    """Brokers without a bug do not answer for the release that nobody named."""
    facts = Facts(
        versions={
            Role.BROKER: (Met(where="broker", version=Version.parse("4.3.1")),),
            Role.LIBRDKAFKA: (),
            Role.KAFKA_CLIENTS: (),
        },
        traits=EVERYTHING,
    )
    findings = [each for each in hazards_of(Comparison.DOWNGRADE, facts) if each.rule == UNKNOWN]
    assert [each.hint for each in findings] == ["say it, such as --target 3.9.2"]
    assert "H12" in findings[0].reason
    assert UNKNOWN not in {each.rule for each in hazards_of(Comparison.PROTOCOL, facts)}


def test_every_release_of_policy_disabled_is_spoken_of_once() -> None:
    """A classic member is either admitted for ever (H19) or refused for ever (H20), never neither."""
    releases = [
        "3.8.0",
        "3.9.2",
        "4.0.0",
        "4.0.2",
        "4.0.3",
        "4.1.2",
        "4.1.3",
        "4.2.1",
        "4.2.2",
        "4.3.0",
        "4.3.1",
    ]
    pair = [hazard for hazard in BOOK if hazard.number in {"H19", "H20"}]
    for release in releases:
        said = [_does(each, _facts(each, {Role.BROKER: Version.parse(release)}, EVERYTHING)) for each in pair]
        assert set(said) == {None, Action.REFUSE}, release


def test_numbers_are_unique_and_in_order() -> None:
    """H01, H02 … without a gap; H00 is the question. Every condition has its half of a sentence."""
    assert set(MEANS) == set(Trait)
    assert [hazard.number for hazard in BOOK] == [f"H{number:02}" for number in range(1, len(BOOK) + 1)]


@pytest.mark.parametrize(("hazard", "role", "span"), RANGES, ids=_ids(RANGES))
def test_ranges_are_not_empty_and_name_the_last_affected(hazard: Hazard, role: Role, span: Span) -> None:
    """The newest affected release lies in its range; no reason is given for an end that is not there."""
    assert span.last is not None
    assert span.touch(span.last) is True, hazard.number
    assert span.before is not None or span.fix == "released"


@pytest.mark.parametrize("hazard", BOOK, ids=lambda hazard: hazard.number)
def test_ranges_of_a_role_do_not_overlap_and_entries_are_whole(hazard: Hazard) -> None:
    """No version is in two ranges; every entry has a move, a role, a link and sentences without a stop."""
    for spans in hazard.affected.values():
        assert [pair for pair in itertools.combinations(spans, 2) if pair[0].meets(pair[1])] == []
    assert hazard.moves
    assert hazard.affected
    link = urlsplit(hazard.source)
    assert (link.scheme, bool(link.netloc), bool(link.path.strip("/"))) == ("https", True, True)
    for text in (hazard.title, hazard.happens, hazard.remedy, hazard.basis):
        assert text == text.strip()
        assert not text.endswith(".")
    assert hazard.sure in {"verified", "read", "reported"}


def test_a_target_is_only_asked_for_in_a_downgrade() -> None:
    """No other move has one, so that nobody is asked for what there is not."""
    assert {move for each in BOOK if Role.TARGET in each.affected for move in each.moves} == {
        Comparison.DOWNGRADE
    }


def test_every_bug_of_the_issue_is_in_the_book() -> None:
    """Those that made a move unsafe when the book began are there."""
    named = ["21117", "21102", "20640", "19862", "20254", "19546", "18134", "14869"]
    bugs = " ".join(hazard.bug for hazard in BOOK)
    assert [number for number in named if f"KAFKA-{number}" not in bugs] == []


def test_the_page_is_the_one_made_from_the_book() -> None:
    """docs/reference/hazards.md is never edited by hand."""
    shown = (DOCS / "hazards.md").read_text(encoding="utf-8")
    assert shown == markdown(), f"docs/reference/hazards.md is not the book's: run {COMMAND}"
