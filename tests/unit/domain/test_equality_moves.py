"""The numbered equality rules as data: complete, unambiguous, and the ones of §6.2."""

from __future__ import annotations

from groupshift.domain.equality_rules import RULES, Comparison, Field, RuleKind, in_force


def of(comparison: Comparison) -> dict[Field, RuleKind]:
    """Kinds by field."""
    return {rule.field: rule.kind for rule in RULES[comparison]}


def test_every_move_answers_for_every_field_once() -> None:
    """Rules are numbered by field, numbers are unique over all moves, none lacks reason or source."""
    numbers = [rule.number for rules in RULES.values() for rule in rules]
    assert set(RULES) == set(Comparison)
    assert len(set(numbers)) == len(numbers) == len(Comparison) * len(Field)
    for comparison, rules in RULES.items():
        assert [rule.field for rule in rules] == list(Field)
        assert all(rule.comparison is comparison for rule in rules)
        assert all(rule.reason and ".md §" in rule.source for rule in rules)


def test_a_downgrade_of_brokers_is_column_b_to_c() -> None:
    """§6.2, brokers: offsets and their bytes equal, assignment by coverage, generation may grow."""
    kinds = of(Comparison.DOWNGRADE)
    equal = (Field.GROUPS, Field.COMMITTED, Field.OFFSET, Field.LEADER_EPOCH, Field.METADATA, Field.RECORD)
    assert {kinds[field] for field in (*equal, Field.TYPE, Field.CLIENT_IDS)} == {RuleKind.EQUAL}
    assert kinds[Field.ASSIGNMENT] is RuleKind.COVERS
    assert kinds[Field.GENERATION] is RuleKind.AT_LEAST
    assert kinds[Field.STATE] is RuleKind.SETTLED
    assert kinds[Field.PLACE] is RuleKind.IGNORE


def test_a_change_of_protocol_is_column_a_to_b() -> None:
    """§6.2, consumers: the type changes as expected, member ids and assignors differ, offsets do not."""
    kinds = of(Comparison.PROTOCOL_BACK)
    assert kinds[Field.TYPE] is RuleKind.BECOMES
    assert kinds[Field.MEMBER_IDS] is kinds[Field.PROTOCOL] is kinds[Field.TOPIC_ID] is RuleKind.IGNORE
    assert kinds[Field.OFFSET] is kinds[Field.INSTANCE_IDS] is kinds[Field.SUBSCRIBED] is RuleKind.EQUAL
    texts = {move: _type(move) for move in (Comparison.PROTOCOL, Comparison.PROTOCOL_BACK)}
    assert texts == {
        Comparison.PROTOCOL: "classic becomes consumer",
        Comparison.PROTOCOL_BACK: "consumer becomes classic",
    }


def _type(move: Comparison) -> str:
    return next(rule.text for rule in RULES[move] if rule.field is Field.TYPE)


def test_while_commits_go_on_offsets_may_advance_and_nothing_else_loosens_unsaid() -> None:
    """The alternative is used only where a rule names one; afterwards no rule has two answers."""
    rest = {rule.field: rule for rule in in_force(RULES[Comparison.DOWNGRADE], live=False)}
    live = {rule.field: rule for rule in in_force(RULES[Comparison.DOWNGRADE], live=True)}
    assert (rest[Field.OFFSET].kind, live[Field.OFFSET].kind) == (RuleKind.EQUAL, RuleKind.FORWARD)
    changed = {field for field in Field if rest[field].kind is not live[field].kind}
    assert changed == {rule.field for rule in RULES[Comparison.DOWNGRADE] if rule.live}
    assert all(rule.live is None for rule in (*rest.values(), *live.values()))
