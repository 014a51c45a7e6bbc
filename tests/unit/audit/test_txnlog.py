"""ZooKeeper's transaction log, byte by byte."""

from __future__ import annotations

import pytest

from groupshift.audit import txnlog
from groupshift.audit.txnlog import Created, DataSet, Deleted, SessionClosed
from groupshift.errors import Broken
from support import jute

CREATE, DELETE, SET_DATA, SET_ACL, MULTI, CREATE2 = 1, 2, 5, 7, 14, 15
CONTAINER, DELETE_CONTAINER, TTL, SESSION, CLOSE, ERROR = 19, 20, 21, -10, -11, -1

BODIES = [
    (CREATE, jute.create("/a", b"x"), (Created(path="/a", data=b"x"),)),
    (CREATE2, jute.create("/a", b"x", ephemeral=True), (Created(path="/a", data=b"x"),)),
    (CREATE, jute.create("/a", None), (Created(path="/a", data=b""),)),
    (CONTAINER, jute.container("/c"), (Created(path="/c", data=b""),)),
    (TTL, jute.ttl("/t"), (Created(path="/t", data=b""),)),
    (DELETE, jute.delete("/a"), (Deleted(path="/a"),)),
    (DELETE_CONTAINER, jute.delete("/c"), (Deleted(path="/c"),)),
    (SET_DATA, jute.set_data("/a", b"12", 3), (DataSet(path="/a", data=b"12"),)),
    (SESSION, (6000).to_bytes(4, "big"), ()),
    (CLOSE, jute.paths("/e1", "/e2"), (SessionClosed(paths=("/e1", "/e2")),)),
    (CLOSE, b"", (SessionClosed(paths=()),)),
    (SET_ACL, jute.text("/a") + jute.ACL + bytes(4), ()),
    (ERROR, (-101).to_bytes(4, "big", signed=True), ()),
]


@pytest.mark.parametrize(("code", "body", "changes"), BODIES)
@pytest.mark.parametrize("digest", [b"", jute.DIGEST], ids=["3.4", "3.6+"])
def test_every_type_is_read(code: int, body: bytes, changes: tuple[object, ...], digest: bytes) -> None:
    """Each transaction type becomes its changes, with and without the digest of newer servers."""
    found = txnlog.parse(jute.log(jute.entry(5, code, body + digest, session=9, time_ms=42)))
    (one,) = found
    assert (one.zxid, one.session, one.time_ms, one.changes) == (5, 9, 42, changes)


def test_a_multi_is_all_its_parts() -> None:
    """A multi yields the changes of its parts in their order."""
    body = jute.multi(
        (CREATE, jute.create("/a")), (13, jute.text("/b") + bytes(4)), (DELETE, jute.delete("/c"))
    )
    (one,) = txnlog.parse(jute.log(jute.entry(1, MULTI, body)))
    assert [type(change) for change in one.changes] == [Created, Deleted]


def test_a_failed_multi_changes_nothing() -> None:
    """One part in error means that no part was applied, also those that were logged before it."""
    body = jute.multi((CREATE, jute.create("/a")), (ERROR, bytes(4)))
    (one,) = txnlog.parse(jute.log(jute.entry(1, MULTI, body)))
    assert one.changes == ()


def test_padding_ends_the_log() -> None:
    """The zeros of a file allocated ahead are its end, however many; an unused file is empty."""
    two = txnlog.parse(
        jute.log(jute.entry(1, DELETE, jute.delete("/a")), jute.entry(2, SESSION, bytes(4)), padding=4096)
    )
    assert [one.zxid for one in two] == [1, 2]
    assert txnlog.parse(bytes(1024)) == ()


@pytest.mark.parametrize(
    "kept", [6, 8, 12, 20, -1], ids=["checksum", "length", "no entry", "half", "no mark"]
)
@pytest.mark.parametrize("padding", [0, 64])
def test_a_torn_tail_is_left_out(kept: int, padding: int) -> None:
    """A last record cut anywhere is left out, what is before it is kept."""
    whole = jute.HEADER + jute.record(jute.entry(1, DELETE, jute.delete("/a")))
    last = jute.record(jute.entry(2, DELETE, jute.delete("/bb")))
    found = txnlog.parse(whole + last[:kept] + bytes(padding))
    assert [one.zxid for one in found] == [1]


def test_damage_before_the_end_is_refused() -> None:
    """A flipped byte in a record that others follow is no torn tail."""
    data = bytearray(jute.log(*(jute.entry(zxid, DELETE, jute.delete("/a")) for zxid in (1, 2, 3))))
    data[len(jute.HEADER) + 20] ^= 0xFF
    with pytest.raises(Broken, match=r"log\.1 has a damaged record at byte 16"):
        txnlog.parse(bytes(data), "log.1")


@pytest.mark.parametrize("data", [b"PK\3\4" + bytes(20), b"ZKLG" + (3).to_bytes(4, "big") + bytes(8)])
def test_other_files_are_refused(data: bytes) -> None:
    """A file of another kind or version is named, not guessed at."""
    with pytest.raises(Broken, match="is no ZooKeeper transaction log"):
        txnlog.parse(data, "snapshot.0")


def test_an_unknown_type_is_refused() -> None:
    """A type that this reader does not know could change ownership: it is not passed over."""
    with pytest.raises(Broken, match="cannot be understood"):
        txnlog.parse(jute.log(jute.entry(1, 99)))


def test_files_are_merged_by_zxid() -> None:
    """Files in any order, and a transaction in two of them, become one sequence."""
    first = txnlog.parse(jute.log(*(jute.entry(zxid, ERROR, bytes(4)) for zxid in (1, 2))))
    second = txnlog.parse(jute.log(*(jute.entry(zxid, ERROR, bytes(4)) for zxid in (2, 3))))
    assert [one.zxid for one in txnlog.merge([second, first])] == [1, 2, 3]


def test_holes_are_found_within_an_epoch() -> None:
    """A jump within an epoch is a missing file; the first zxid of a new epoch is not."""
    epoch = 1 << 32
    numbers = (1, 2, 5, epoch + 1, epoch + 2)
    found = txnlog.parse(jute.log(*(jute.entry(zxid, ERROR, bytes(4)) for zxid in numbers)))
    assert txnlog.missing(found) == ((2, 5),)


def test_a_log_cut_at_any_byte_is_a_prefix() -> None:
    """Wherever a crash cut the file, what is read is the transactions before the cut, in order."""
    entries = [jute.entry(zxid, CREATE, jute.create(f"/n{zxid}", b"x" * zxid)) for zxid in range(1, 6)]
    data = jute.log(*entries, padding=0)
    ends = [len(jute.log(*entries[:count], padding=0)) for count in range(6)]
    for cut in range(len(data) + 1):
        found = txnlog.parse(data[:cut] + bytes(32))
        whole = sum(1 for end in ends[1:] if end <= cut)
        assert [one.zxid for one in found] == list(range(1, whole + 1))


def test_s03_multis_within_multis_are_refused_at_any_depth() -> None:
    """No server writes one; a thousand of them would end the reader with a RecursionError."""
    body = jute.create("/a")
    code = CREATE
    for _ in range(1500):
        code, body = MULTI, jute.multi((code, body))
    with pytest.raises(Broken, match="a multi within a multi"):
        txnlog.parse(jute.log(jute.entry(1, MULTI, body)))
