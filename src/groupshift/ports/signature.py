"""Signing an evidence pack, and checking who signed it."""

from __future__ import annotations

from typing import Protocol


class Signer(Protocol):
    """Holds a private key; neither it nor anything derived but signatures leaves it."""

    def sign(self, data: bytes) -> str:
        """The text of ``pack.sig``. Raises `Rejected` for a key that cannot be used."""
        ...


class Verifier(Protocol):
    """Holds a public key."""

    def holds(self, data: bytes, signature: str) -> bool:
        """Whether ``signature`` was made of exactly these bytes with the key's private half.

        Raises `Rejected` for a key that cannot be used."""
        ...
