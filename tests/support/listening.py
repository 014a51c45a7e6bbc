"""Which addresses processes listen at, from the kernel's own tables (proc_net_tcp(5))."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

_LISTEN = "0A"
_TABLES = ("tcp", "tcp6")
_IPV4 = IPv4Address(0).packed


@dataclass(frozen=True, slots=True, kw_only=True)
class ListeningSocket:
    """One TCP socket in state LISTEN."""

    pid: int
    address: str
    port: int

    @property
    def loopback_only(self) -> bool:
        """True when nobody outside this machine can reach it (IPv4-mapped addresses included)."""
        address = ip_address(self.address)
        mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
        return (mapped or address).is_loopback


def listening_sockets(pids: Iterable[int]) -> list[ListeningSocket]:
    """Every TCP socket at which one of these processes listens, sorted by port."""
    at = {inode: place for table in _TABLES for inode, place in _listening(Path("/proc/net") / table)}
    found = {
        ListeningSocket(pid=pid, address=at[inode][0], port=at[inode][1])
        for pid in pids
        for inode in _socket_inodes(pid)
        if inode in at
    }
    return sorted(found, key=lambda one: (one.port, one.pid))


def _listening(table: Path) -> Iterator[tuple[str, tuple[str, int]]]:
    for line in table.read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == _LISTEN:
            address, _, port = fields[1].partition(":")
            yield fields[9], (decode_address(address), int(port, 16))


def decode_address(text: str) -> str:
    """An address as the kernel prints it (32-bit words in host order, hexadecimal) in its usual form."""
    words = [bytes.fromhex(text[start : start + 8])[::-1] for start in range(0, len(text), 8)]
    packed = b"".join(words)
    return str(IPv4Address(packed) if len(packed) == len(_IPV4) else IPv6Address(packed))


def _socket_inodes(pid: int) -> Iterator[str]:
    folder = Path("/proc") / str(pid) / "fd"
    try:
        links = [folder / name for name in os.listdir(folder)]  # noqa: PTH208 - names vanish meanwhile
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return
    for link in links:
        try:
            target = str(link.readlink())
        except (FileNotFoundError, ProcessLookupError):
            continue
        if target.startswith("socket:["):
            yield target.removeprefix("socket:[").removesuffix("]")
