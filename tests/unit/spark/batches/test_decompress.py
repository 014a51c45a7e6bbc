"""Compressed batches of strangers: bounded in memory, named where they are too large (S6)."""

from __future__ import annotations

import os
import struct
import subprocess
import sys

import cramjam
import pytest

from groupshift.errors import Broken
from support.batch_encoder import CODECS, Record, batch

HUGE = 1536 * 1024 * 1024
"""What some 50 kB of zstd become."""
_READ = """
import resource, sys
import numpy as np
from groupshift.errors import Broken
from groupshift.spark.batches.headers import read_headers
from groupshift.spark.batches.decompress import Origin
from groupshift.spark.batches.records import read_records

def read(log):
    data = np.frombuffer(log, dtype=np.uint8)
    table = read_headers(data, check=False).table
    return sum(len(part) for part in read_records(data, table, Origin(name="x.log")))

read(open(sys.argv[1], "rb").read())
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    print("read", read(open(sys.argv[2], "rb").read()))
except Broken as wrong:
    print("broken", wrong)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""
SMALL = [Record(offset=0, timestamp_ms=0, key=b"k", value=b"v")]


def _zeros(codec: str, size: int) -> bytes:
    """``size`` zero bytes as a codec writes them, made by pieces."""
    if codec == "snappy":
        block = bytes(cramjam.snappy.compress_raw(bytes(2**26)))
        framed = struct.pack(">i", len(block)) + block
        return b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + framed * (size // 2**26)
    module = getattr(cramjam, codec)
    writing = module.Compressor()
    for _ in range(size // 2**26):
        writing.compress(bytes(2**26))
    return bytes(writing.finish())


def _with_payload(payload: bytes, codec: str, *, magic: int = 2, offset: int = 7) -> bytes:
    """A batch (or a wrapping message) that says it holds one record, with any bytes as its content."""
    if magic == 2:
        fields = struct.pack(">hiqqqhii", CODECS[codec], 0, 0, 0, -1, 0, 0, 1)
        sealed = struct.pack(">ibI", 0, 2, 0) + fields + payload
    else:
        body = struct.pack(">bbqii", magic, CODECS[codec], 0, -1, len(payload)) + payload
        sealed = struct.pack(">I", 0) + body
    return struct.pack(">qi", offset, len(sealed)) + sealed


def _said(tmp_path_factory: pytest.TempPathFactory, log: bytes) -> tuple[str, int]:
    """What a process of its own says of a log, and by how many MiB reading it made it grow."""
    folder = tmp_path_factory.mktemp("log")
    (folder / "small").write_bytes(batch(SMALL, "zstd"))
    (folder / "log").write_bytes(log)
    command = [sys.executable, "-c", _READ, str(folder / "small"), str(folder / "log")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert ended.returncode == 0, ended.stderr[-1000:]
    said, grown = ended.stdout.rsplit("\n", 2)[:2]
    return said, int(grown)


@pytest.mark.parametrize(
    ("codec", "magic"), [("gzip", 2), ("snappy", 2), ("lz4", 2), ("zstd", 2), ("gzip", 1), ("lz4", 1)]
)
def test_s06_a_batch_that_becomes_gigabytes_is_refused_in_little_memory(
    tmp_path_factory: pytest.TempPathFactory, codec: str, magic: int
) -> None:
    """The sentence names file, byte and offset of the batch."""
    good = batch(SMALL, "none")
    log = good + _with_payload(_zeros(codec, HUGE), codec, magic=magic)
    said, grown = _said(tmp_path_factory, log)
    assert said.startswith(f"broken x.log: byte {len(good)}, the batch at offset 7: ")
    assert "more than 104857600 bytes without compression" in said
    assert grown <= 256


def test_s06_a_block_of_snappy_that_claims_four_gigabytes_is_refused(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """The length before a block is a claim: nothing is reserved for it."""
    said, grown = _said(tmp_path_factory, _with_payload(b"\xff\xff\xff\xff\x0f" + b"abc", "snappy"))
    assert "more than 104857600 bytes without compression" in said
    assert grown <= 64


def test_s06_many_batches_that_fit_are_read_a_few_at_a_time(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Forty batches of 24 MiB, some 100 kB of file: all records come, never 960 MiB at once."""
    large = [Record(offset=0, timestamp_ms=0, key=b"k", value=bytes(24 * 1024 * 1024))]
    said, grown = _said(tmp_path_factory, batch(large, "zstd") * 40)
    assert said == "read 40"
    assert grown <= 256


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_what_inflates_far_beyond_the_first_guess_is_read_whole(codec: str) -> None:
    """A ratio of a thousand is no reason to refuse: the buffer grows."""
    from groupshift.spark.batches.decompress import inflate

    assert bytes(inflate(CODECS[codec], _zeros(codec, 2**26))) == bytes(2**26)


@pytest.mark.parametrize("sized", [False, True])
def test_a_frame_of_an_old_client_is_read_at_once_and_damage_is_said_in_the_codecs_words(
    monkeypatch: pytest.MonkeyPatch, *, sized: bool
) -> None:
    """Its checksum is wrong (KAFKA-3160), with and without the size of the content in the descriptor."""
    from groupshift.spark.batches import decompress

    data = os.urandom(100_000)
    frame = bytes(cramjam.lz4.compress(data))
    if sized:
        frame = frame[:4] + bytes([frame[4] | 0x08, frame[5]]) + struct.pack("<Q", len(data)) + frame[6:]
    times = []
    inflated = decompress._bounded
    monkeypatch.setattr(decompress, "_bounded", lambda *of: (times.append(1), inflated(*of))[1])
    for wrong in range(256):
        at = 14 if sized else 6
        old = frame[:at] + bytes([wrong]) + frame[at + 1 :]
        assert bytes(decompress.inflate(CODECS["lz4"], old, magic=0)) == data
    assert len(times) == 256, "once for each"
    with pytest.raises(Broken, match="lz4: ERROR_blockChecksum_invalid"):
        decompress.inflate(CODECS["lz4"], old[:500] + bytes([old[500] ^ 1]) + old[501:], magic=0)
