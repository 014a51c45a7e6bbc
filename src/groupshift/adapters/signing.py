"""Ed25519 signatures (RFC 8032) by the library cryptography, which is loaded when a key is used."""

from __future__ import annotations

import base64
import json
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from groupshift.errors import Rejected
from groupshift.foreign_files import read, text_of

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

_ALGORITHM = "Ed25519"
_SIGNING, _CHECKING = "evidence.signing_key", "evidence.public_key"
_KEY_LIMIT = 1 << 20
_LINE_ENDS = re.compile(r"\\+[rn]")
"""Line ends that are written as text: a form with one line, a secret store or JSON makes them so."""
_ARMOUR = re.compile(r"(-----BEGIN [A-Z ]+-----)([^-]*)(-----END [A-Z ]+-----)")


class Ed25519Signer:
    """`groupshift.ports.evidence.Signer`. ``key`` is a private key (PEM, PKCS #8, no password) or the path
    of a file that holds one; it is read at the first use and appears in no message."""

    def __init__(self, key: str) -> None:
        self._key = key

    def sign(self, data: bytes) -> str:
        """See the port; the text is JSON: algorithm, public key and signature (base64)."""
        private: Ed25519PrivateKey = _loaded(self._key, _SIGNING)
        return _written(private.public_key(), private.sign(data))


def _written(public: Ed25519PublicKey, made: bytes) -> str:
    document = {
        "algorithm": _ALGORITHM,
        "public_key": base64.b64encode(public.public_bytes_raw()).decode(),
        "signature": base64.b64encode(made).decode(),
    }
    return json.dumps(document, indent=1) + "\n"


class Ed25519Verifier:
    """`groupshift.ports.evidence.Verifier`. ``key`` is a public key (PEM) or the path of a file with one."""

    def __init__(self, key: str) -> None:
        self._key = key

    def holds(self, data: bytes, signature: str) -> bool:
        """See the port; only the key given counts, and the text has to be the one that it wrote, letter by
        letter: Base64 has more than one way to write the same bytes."""
        public: Ed25519PublicKey = _loaded(self._key, _CHECKING)
        from cryptography.exceptions import InvalidSignature

        try:
            made = base64.b64decode(json.loads(signature)["signature"], validate=True)
            public.verify(made, data)
        except (ValueError, KeyError, TypeError, RecursionError, InvalidSignature):
            return False
        return signature == _written(public, made)


def _loaded(key: str, setting: str) -> Any:
    """The private key of `_SIGNING`, the public one of `_CHECKING`. Raises `Rejected` for one of no use."""
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ModuleNotFoundError as missing:
        raise Rejected(
            f"{setting} needs a library that is not installed ({missing.name}): "
            "pip install 'kafka-groupshift[sign]'"
        ) from missing
    private = setting == _SIGNING
    kind, pem = "private" if private else "public", _pem(key, setting)
    loaded: Any = None
    with suppress(ValueError, TypeError, UnsupportedAlgorithm):
        loaded = (
            serialization.load_pem_private_key(pem, password=None)
            if private
            else serialization.load_pem_public_key(pem)
        )
    if not isinstance(loaded, ed25519.Ed25519PrivateKey if private else ed25519.Ed25519PublicKey):
        raise Rejected(
            f"{setting} is no {kind} Ed25519 key in PEM (PKCS #8, without a password): make one with: "
            "openssl genpkey -algorithm ed25519"
        )
    return loaded


def _pem(key: str, setting: str) -> bytes:
    """The PEM text, of a file too. Forms with one line (Airflow's) lose line ends or write them as text."""
    if armoured := _armoured(key):
        return armoured
    try:
        data = read(Path(key).expanduser(), _KEY_LIMIT)
        return _armoured(text_of(data)) or data
    except UnicodeDecodeError:
        return data
    except (OSError, ValueError, RuntimeError) as error:
        why = error.strerror if isinstance(error, OSError) else "no path"
        raise Rejected(
            f"{setting} names a file that cannot be read ({why}): give the PEM text or the path of its file"
        ) from None


def _armoured(text: str) -> bytes | None:
    """The PEM block of a text with line ends of any kind, also those that are written as text."""
    match = _ARMOUR.search(_LINE_ENDS.sub("\n", text))
    if match is None:
        return None
    first, body, last = match.groups()
    return "\n".join((first, *body.split(), last, "")).encode("ascii", "replace")
