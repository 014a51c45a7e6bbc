"""Links: what may be one, the names of MirrorMaker's topics, and topic names mapped both ways."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from groupshift.errors import Rejected
from groupshift.links.link import InternalTopics, Link, LinkKind, SyncLocation

DEFAULT, IDENTITY = LinkKind.MM2_DEFAULT, LinkKind.MM2_IDENTITY
RENAMES_NOTHING = [LinkKind.OFFSET_PRESERVING, LinkKind.NONE]


def link(kind: LinkKind = DEFAULT, **changes: Any) -> Link:
    """From ``source1`` to ``target2``, unless ``changes`` say otherwise."""
    return Link(
        **{"name": "dr", "kind": kind, "source_alias": "source1", "target_alias": "target2", **changes}
    )


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"name": ""}, "link: name is empty; write letters, digits"),
        ({"name": "a/b"}, "name 'a/b' becomes part of topic names"),
        ({"name": "n" * 229}, "has 229 characters; shorten it to 228 or less"),
        ({"kind": "mm3"}, "kind 'mm3' is not known; use one of mm2-default, mm2-identity, header, offset-p"),
        ({"sync_location": "both"}, "sync_location 'both' is not known; use one of source, target"),
        ({"isolation": "serializable"}, "isolation 'serializable' is not known; use one of read_committed"),
        ({"source_alias": ""}, "link 'dr': source_alias is empty; write"),
        ({"target_alias": None}, "target_alias is empty"),
        ({"target_alias": "eu west"}, "target_alias 'eu west' becomes part of topic names"),
        ({"target_alias": "source1"}, "are both 'source1'; a link joins two clusters"),
        ({"separator": ""}, "separator is empty"),
        ({"separator": "/"}, "separator '/' becomes part of topic names, which hold letters"),
        ({"separator": "é"}, "separator 'é' becomes part"),
        ({"separator": "-", "kind": "none"}, "separator '-' is a setting of MirrorMaker, and the kind is"),
        ({"source_alias": ".eu"}, r"copies from '.eu' would have names of internal topics \(.eu.orders\)"),
        ({"target_alias": "_", "separator": "_"}, "copies from '_' would have names of internal topics"),
        ({"kind": "header"}, "provenance_header is empty, and kind header reads source offsets from"),
        ({"altered_topics": "orders"}, "altered_topics is 'orders', which is no list of texts; write one"),
        ({"altered_topics": [3]}, r"altered_topics is '\[3\]', which is no list of texts"),
        ({"altered_topics": ["a", "b c"]}, "altered_topics has 'b c', which is no name of a topic"),
    ],
)  # fmt: skip
def test_a_link_that_cannot_be_is_refused_with_one_sentence(changes: dict[str, Any], says: str) -> None:
    """It names the field, the value and the remedy."""
    with pytest.raises(Rejected, match=says) as error:
        link(**changes)
    assert "\n" not in str(error.value)


def test_texts_of_a_settings_file_become_words_of_their_vocabularies() -> None:
    """So that what reads the link need not compare texts."""
    made = link(kind="header", sync_location="target", isolation="read_committed", provenance_header="src",
                altered_topics=["orders"])  # fmt: skip
    assert made.kind is LinkKind.HEADER
    assert made.sync_location is SyncLocation.TARGET
    assert made.altered_topics == frozenset({"orders"})
    assert hash(made) == hash(link(**{name: getattr(made, name) for name in made.__slots__}))


@pytest.mark.parametrize(
    ("changes", "syncs", "checkpoints"),
    [
        ({}, "mm2-offset-syncs.target2.internal", "source1.checkpoints.internal"),
        ({"sync_location": "target"}, "mm2-offset-syncs.source1.internal", "source1.checkpoints.internal"),
        ({"separator": "_"}, "mm2-offset-syncs_target2_internal", "source1_checkpoints_internal"),
        (
            {"separator": "_", "separator_in_internal_topics": False},
            "mm2-offset-syncs.target2.internal",
            "source1.checkpoints.internal",
        ),
        (
            {"separator": "--", "sync_location": "target"},
            "mm2-offset-syncs--source1--internal",
            "source1--checkpoints--internal",
        ),
    ],
)
@pytest.mark.parametrize("kind", [DEFAULT, IDENTITY])
def test_cluster_06_names_of_internal_topics(
    kind: LinkKind, changes: dict[str, Any], syncs: str, checkpoints: str
) -> None:
    """The offset-syncs topic has the alias of the cluster that it does not lie on; heartbeats have none."""
    assert link(kind, **changes).internal_topics == InternalTopics(syncs, checkpoints, "heartbeats")
    assert all(link(kind, **changes).is_internal(topic) for topic in (syncs, checkpoints))


def test_only_mirrormaker_has_topics_of_its_own() -> None:
    """No other kind has syncs to look for; each link has its topic of last proven positions."""
    assert link(LinkKind.HEADER, provenance_header="src").internal_topics is None
    assert [link(kind).internal_topics for kind in RENAMES_NOTHING] == [None, None]
    assert link().positions_topic == "groupshift.positions.dr"


@pytest.mark.parametrize(
    ("topic", "of_mirrormaker", "of_others"),
    [
        ("__consumer_offsets", True, True),
        (".hidden", True, False),
        ("connect-configs-internal", True, False),
        ("orders_internal", True, False),
        ("orders.internal", True, False),
        ("heartbeats", False, False),
        ("internal", False, False),
        ("orders", False, False),
    ],
)
def test_internal_topics_by_name(topic: str, *, of_mirrormaker: bool, of_others: bool) -> None:
    """What MirrorMaker never replicates; another replicator knows nothing of such ends of names."""
    assert link(separator="_").is_internal(topic) is of_mirrormaker
    assert link(LinkKind.OFFSET_PRESERVING).is_internal(topic) is of_others


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("topic3", "source1.topic3"),
        ("target2.topic3", "topic3"),
        ("source6.topic7", "source1.source6.topic7"),
        ("eu.orders", "source1.eu.orders"),
        ("source1.orders", "source1.source1.orders"),
        ("source10.orders", "source1.source10.orders"),
        ("target2", "source1.target2"),
        ("target2.", "source1.target2."),
        ("target22.orders", "source1.target22.orders"),
        ("target2.eu.orders", "eu.orders"),
        ("target2.target2.orders", "target2.orders"),
        ("heartbeats", "source1.heartbeats"),
        ("target2.heartbeats", "heartbeats"),
    ],
)
def test_default_policy_maps_names_there_and_back(source: str, target: str) -> None:
    """Topics with dots, names that begin with an alias already, and the target's own topics."""
    assert link().target_topic(source) == (target, "")
    assert link().source_topic(target) == (source, "")


@pytest.mark.parametrize(
    ("source", "target"),
    [("topic3", "source1_topic3"), ("target2_topic3", "topic3"), ("eu.orders", "source1_eu.orders"),
     ("target2.orders", "source1_target2.orders"), ("_x", "source1__x")],
)  # fmt: skip
def test_cluster_06_default_policy_with_a_separator_of_its_own(source: str, target: str) -> None:
    """A dot is then a character like any other."""
    assert link(separator="_").target_topic(source).topic == target
    assert link(separator="_").source_topic(target).topic == source


@pytest.mark.parametrize("kind", [IDENTITY, *RENAMES_NOTHING])
@pytest.mark.parametrize("topic", ["topic3", "target2.topic3", "source1.topic3", "eu.orders"])
def test_kinds_that_keep_names_read_nothing_into_them(kind: LinkKind, topic: str) -> None:
    """An alias in a name is a part of the name: such a link cannot detect a cycle."""
    same = link(kind)
    assert same.target_topic(topic) == same.source_topic(topic) == (topic, "")
    assert same.alias_in(topic) == ""


@pytest.mark.parametrize(
    ("source", "target"),
    [("heartbeats", "source1.heartbeats"), ("target2.heartbeats", "heartbeats"),
     ("eu.heartbeats", "source1.eu.heartbeats"), ("my-heartbeats", "source1.my-heartbeats")],
)  # fmt: skip
def test_identity_policy_renames_whatever_ends_in_heartbeats(source: str, target: str) -> None:
    """As the default policy does; other replicators know no heartbeats."""
    assert link(IDENTITY).target_topic(source).topic == target
    assert link(IDENTITY).source_topic(target).topic == source
    assert [link(kind).target_topic(source).topic for kind in RENAMES_NOTHING] == [source, source]


@pytest.mark.parametrize(
    ("way", "topic", "why"),
    [
        ("target_topic", "", "'' is no name of a topic"),
        ("target_topic", "..", "'..' is no name of a topic"),
        ("target_topic", "a b", "'a b' is no name of a topic"),
        ("target_topic", "x" * 242, "has 250 characters, and a topic's name at most 249"),
        ("source_topic", "x" * 242, "has 250 characters"),
        ("target_topic", "__consumer_offsets", "internal topic"),
        ("target_topic", "mm2-offset-syncs.target2.internal", "internal topic"),
        ("target_topic", "internal", "source1.internal counts as an internal topic"),
        ("target_topic", "target2.__x", "__x counts as an internal topic"),
        ("target_topic", "target2.source1.orders", "a copy of a topic of source1 itself"),
        ("source_topic", "source1.checkpoints.internal", "internal topic"),
        ("source_topic", "source1.__x", "__x counts as an internal topic"),
        ("source_topic", "source1.target2.orders", "came to source1 from target2 itself"),
    ],
)
def test_a_name_without_a_counterpart_says_why(way: str, topic: str, why: str) -> None:
    """It is not guessed."""
    mapped, reason = getattr(link(), way)(topic)
    assert mapped is None
    assert why in reason


def test_an_alias_with_the_separator_is_not_recognised_in_names() -> None:
    """MirrorMaker reads the text before the first separator, so it finds no cycle there, and nor do we. Names
    that begin with the known alias of the source still lead back."""
    from_dotted = link(source_alias="us.east")
    assert from_dotted.target_topic("orders").topic == "us.east.orders"
    assert from_dotted.source_topic("us.east.orders").topic == "orders"
    assert from_dotted.alias_in("us.east.orders") == "us"
    to_dotted = link(target_alias="us.east")
    assert to_dotted.target_topic("us.east.orders").topic == "source1.us.east.orders"
    mapped, reason = to_dotted.source_topic("orders")
    assert mapped is None
    assert "us.east.orders on source1 does not say that it comes from us.east" in reason
    assert link(target_alias="us.east", separator="_").source_topic("orders").topic == "us.east_orders"


@pytest.mark.parametrize(
    ("source", "target"),
    [("orders", "source1.orders"), ("target2.orders", "orders"), ("target2.eu.orders", "orders"),
     ("eu.orders", "source1.eu.orders"), ("target2.eu.asia.orders", "orders"), ("__x", None)],
)  # fmt: skip
def test_mirrormaker_removes_every_alias_of_a_topic_that_the_target_had(
    source: str, target: str | None
) -> None:
    """Its checkpoints name another topic than ours where the target has it from a third cluster."""
    assert link().mirrormaker_topic(source).topic == target


@pytest.mark.parametrize(
    ("topic", "alias"),
    [("orders", ""), ("eu.orders", "eu"), ("target2.orders", "target2"), ("eu.target2.orders", "eu"),
     ("source1.orders", "source1"), ("orders.", ""), ("orders...", ""), ("target2.", "")],
)  # fmt: skip
def test_default_policy_reads_the_alias_before_the_first_separator(topic: str, alias: str) -> None:
    """A topic of your own with a dot counts as a copy."""
    assert link().alias_in(topic) == alias


ALIASES = st.text("ab.-", min_size=1, max_size=4).filter(lambda alias: alias[0] != ".")
NAMES = st.lists(st.sampled_from(["a", "b", "ab", ".", "-", "__", "x", "heartbeats", "internal"]), min_size=1)


@given(
    kind=st.sampled_from([DEFAULT, IDENTITY, LinkKind.NONE]),
    aliases=st.tuples(ALIASES, ALIASES).filter(lambda pair: pair[0] != pair[1]),
    separator=st.sampled_from([".", "-", "--"]),
    parts=NAMES,
)
@example(kind=DEFAULT, aliases=("a", "b"), separator=".", parts=["b", ".", "a", ".", "x"])
@example(kind=DEFAULT, aliases=("a", "b"), separator="-", parts=["-"])
@example(kind=DEFAULT, aliases=("a.b", "a"), separator=".", parts=["a", ".", "b", ".", "x"])
def test_both_ways_agree_and_no_two_topics_have_one_counterpart(
    kind: LinkKind, aliases: tuple[str, str], separator: str, parts: list[str]
) -> None:
    """Whatever is mapped one way is mapped back to the same name."""
    separator = "." if kind is LinkKind.NONE else separator
    some = link(kind, source_alias=aliases[0], target_alias=aliases[1], separator=separator)
    name = "".join(parts)
    for there, back in ((some.target_topic, some.source_topic), (some.source_topic, some.target_topic)):
        mapped, reason = there(name)
        assert (mapped is None) == bool(reason)
        if mapped is not None:
            assert back(mapped) == (name, "")
