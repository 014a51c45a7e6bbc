"""A throw-away certificate authority with one server's and one client's certificate, for 127.0.0.1."""

from __future__ import annotations

import datetime as dt
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAY = dt.timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificates:
    """Paths of PEM files; ``server`` holds key and certificate, as Java's PEM key stores want it."""

    authority: Path
    server: Path
    client: Path
    client_key: Path


def make_certificates(folder: Path) -> Certificates:
    """Make all files in ``folder``; valid for a day from yesterday's point of view."""
    folder.mkdir(parents=True, exist_ok=True)
    root_key = ec.generate_private_key(ec.SECP256R1())
    root = _certificate("groupshift sandbox", root_key, None)
    certificates = Certificates(
        authority=folder / "authority.pem",
        server=folder / "server.pem",
        client=folder / "client.pem",
        client_key=folder / "client-key.pem",
    )
    certificates.authority.write_bytes(root.public_bytes(serialization.Encoding.PEM))
    server_key, client_key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    server = _certificate("localhost", server_key, (root, root_key))
    client = _certificate("client", client_key, (root, root_key))
    certificates.server.write_bytes(_key(server_key) + server.public_bytes(serialization.Encoding.PEM))
    certificates.client.write_bytes(client.public_bytes(serialization.Encoding.PEM))
    certificates.client_key.write_bytes(_key(client_key))
    return certificates


def _key(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _certificate(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: tuple[x509.Certificate, ec.EllipticCurvePrivateKey] | None,
) -> x509.Certificate:
    """Signed by ``issuer``, by itself without one: then it is an authority."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer[0].subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)
        .not_valid_after(now + _DAY)
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
    )
    return builder.sign(issuer[1] if issuer else key, hashes.SHA256())
