"""Show 7: what somebody does to evidence, before it is sealed first and after, is named in every form."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from groupshift.errors import GroupshiftError
from support.tampering import DEEDS, FORMS, KINDS, MANIFESTS, Sealable, done, sealed, unsealed

pytestmark = pytest.mark.timeout(60)
OWN = ("pack.sig", "journal.json", "report.html")
REPLACED = frozenset(
    [f"{deed} canary/after/manifest.json" for deed in ("flip", "halve", "empty", "lengthen", "exchange")]
    + [f"manifest with {what}" for what in MANIFESTS]
)
"""Kinds that the SHA-256 of a manifest in the journal tells."""


@pytest.fixture(scope="module")
def loose(tmp_path_factory: pytest.TempPathFactory) -> Sealable:
    """A real pack that nobody has sealed."""
    return unsealed(tmp_path_factory.mktemp("loose") / "evidence")


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory, loose: Sealable) -> Sealable:
    """The same, sealed and signed with its report."""
    return sealed(tmp_path_factory.mktemp("sealed") / "evidence", loose)


def unsound(found: Sealable, form: str) -> str:
    """What is said of it in this form; fails where nothing is."""
    try:
        said = found.verified(form)
    except GroupshiftError as refused:
        return str(refused)
    assert said.troubles, f"{form}: sound"
    return "\n".join(f"{check.path} {check.state} {check.reason}" for check in said.troubles)


def test_an_untouched_pack_is_sound_in_every_form(loose: Sealable, pack: Sealable, tmp_path: Path) -> None:
    """Nothing is said of what nobody touched, also when it is sealed again."""
    late = loose.copied(tmp_path / "evidence")
    late.seal()
    late.seal()
    for found in (pack, late):
        assert [found.verified(form).troubles for form in FORMS] == [(), (), ()]
        assert len(found.verified("folder").checks) > 25
    assert len(KINDS) >= 60


@pytest.mark.parametrize("kind", KINDS)
def test_tampering_after_the_sealing_is_named_in_every_form(
    pack: Sealable, kind: str, tmp_path: Path
) -> None:
    """By its path, or its folder's, and not only once: sealing again does not make it sound."""
    found = pack.copied(tmp_path / "evidence")
    path = done(found, kind)
    for form in FORMS:
        assert path.rpartition("/")[2].lower() in unsound(found, form).lower() or "added" in kind
    seal_again(found)
    unsound(found, FORMS[0])


NAMED_BEFORE = frozenset({*REPLACED, "added a name with a backslash"})
"""What was named before issue "The field", too."""


@pytest.mark.parametrize("kind", sorted(NAMED_BEFORE))
def test_what_was_named_at_the_first_sealing_still_is(loose: Sealable, kind: str, tmp_path: Path) -> None:
    """A manifest that was replaced, which the journal knows from the moment the snapshot was taken; and a
    name that no evidence has."""
    doubted_for_ever(loose, kind, tmp_path)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in NAMED_BEFORE])
def test_s01_tampering_before_the_first_sealing_is_doubted_for_ever_after(
    loose: Sealable, kind: str, tmp_path: Path
) -> None:
    """What is found at sealing is signed as doubt; another sealing changes nothing of that."""
    doubted_for_ever(loose, kind, tmp_path)


def doubted_for_ever(loose: Sealable, kind: str, tmp_path: Path) -> None:
    """Done before the first sealing, it is named after each."""
    found = loose.copied(tmp_path / "evidence")
    path = done(found, kind)
    seal_again(found)
    for form in FORMS:
        assert path.rpartition("/")[2].lower() in unsound(found, form).lower() or "added" in kind
    seal_again(found)
    unsound(found, FORMS[0])


@pytest.mark.parametrize("deed", [deed for deed in DEEDS if deed != "exchange"])
@pytest.mark.parametrize("name", OWN)
def test_s07_no_doubt_about_what_sealing_writes_disappears_by_sealing(
    pack: Sealable, name: str, deed: str, tmp_path: Path
) -> None:
    """Signature, journal and report are written again, and what was done to them is still said."""
    own_file(pack, name, deed, tmp_path)


@pytest.mark.parametrize("deed", [deed for deed in DEEDS if deed != "exchange"])
def test_no_doubt_about_the_manifest_disappears_by_sealing(pack: Sealable, deed: str, tmp_path: Path) -> None:
    """The manifest is written again, and what was done to it is still said."""
    own_file(pack, "pack.json", deed, tmp_path)


def own_file(pack: Sealable, name: str, deed: str, tmp_path: Path) -> None:
    """Done to what sealing writes, it is named before and after the next sealing."""
    found = pack.copied(tmp_path / "evidence")
    DEEDS[deed](found.folder / name)
    blind = name == "pack.sig" and deed == "flip"  # without a key nobody can tell one signature from another
    for form in FORMS[:2] if blind else FORMS:
        assert name in unsound(found, form).lower()
    seal_again(found)
    assert name in unsound(found, FORMS[0]).lower()


def seal_again(found: Sealable) -> None:
    """Where it can be sealed at all: nothing is written over a folder that lies in a file's place."""
    with suppress(GroupshiftError):
        found.seal()
