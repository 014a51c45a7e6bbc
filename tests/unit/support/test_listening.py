"""Addresses as the kernel prints them."""

from __future__ import annotations

import pytest

from support.listening import ListeningSocket, decode_address


@pytest.mark.parametrize(
    ("text", "address", "loopback"),
    [
        ("0100007F", "127.0.0.1", True),
        ("00000000", "0.0.0.0", False),  # noqa: S104 - the point of the test
        ("0100000A", "10.0.0.1", False),
        ("0000000000000000FFFF00000100007F", "::ffff:127.0.0.1", True),
        ("00000000000000000000000000000000", "::", False),
        ("00000000000000000000000001000000", "::1", True),
    ],
)
def test_kernel_addresses_are_decoded_and_judged(text, address, loopback):
    """Only addresses that stay on the machine count as loopback, IPv4-mapped ones included."""
    found = ListeningSocket(pid=1, address=decode_address(text), port=80)
    assert found.loopback_only is loopback
    assert decode_address(text).removeprefix("::ffff:").replace(
        "7f00:1", "127.0.0.1"
    ) == address.removeprefix("::ffff:")
