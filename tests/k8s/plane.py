"""A real control plane on 127.0.0.1: etcd, kube-apiserver and its controllers, built from Go modules.

Every process is one we started and is ended by its process id. Nothing here is a container or a node.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from groupshift_sandbox.processes import free_port, wait_until
from k8s.requests import Server

CONTROLLERS = "deployment-controller,replicaset-controller,statefulset-controller"


@contextlib.contextmanager
def control_plane(binary: Path, folder: Path) -> Iterator[Server]:
    """A fresh, empty cluster below ``folder``; its administrator's token is made up for it."""
    token, started = secrets.token_hex(16), []
    try:
        etcd, peer, secure = (free_port() for _ in range(3))
        store = f"http://127.0.0.1:{etcd}"
        argv = ["etcd", str(folder / "etcd"), store, f"http://127.0.0.1:{peer}"]
        started.append(_start(binary, folder, argv))
        started.append(_start(binary, folder, _apiserver(folder, store, secure, token)))
        server = Server(
            url=f"https://127.0.0.1:{secure}", token=token, ca=str(folder / "certs" / "apiserver.crt")
        )
        wait_until(
            lambda: Path(server.ca).exists() and server.answers("/api/v1/namespaces/default"), 120, "API"
        )
        kubeconfig = _kubeconfig(folder, server)
        argv = ["kube-controller-manager", f"--kubeconfig={kubeconfig}", f"--controllers={CONTROLLERS}"]
        started.append(_start(binary, folder, [*argv, "--leader-elect=false", "--secure-port=0"]))
        yield server
    finally:
        for process in reversed(started):
            _end(process)


def _start(binary: Path, folder: Path, argv: Sequence[str]) -> subprocess.Popen[bytes]:
    with (folder / f"{argv[0]}.log").open("wb") as log:
        return subprocess.Popen([str(binary), *argv], stdout=log, stderr=log, start_new_session=True)


def _end(process: subprocess.Popen[bytes], patience_s: float = 15.0) -> None:
    process.send_signal(signal.SIGTERM)
    deadline = time.monotonic() + patience_s
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(max(0.0, deadline - time.monotonic()))
        return
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(10)


def _apiserver(folder: Path, store: str, port: int, token: str) -> list[str]:
    """Arguments of the API server: tokens from a file (the administrator's, and with ``-mover`` behind it
    that of a user who may do nothing yet), self-signed TLS, loopback only."""
    tokens, key = folder / "tokens.csv", folder / "accounts.pem"
    tokens.write_text(f'{token},admin,admin,"system:masters"\n{token}-mover,mover,mover\n')
    made = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    key.write_bytes(made.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()))
    for secret in (tokens, key):
        secret.chmod(0o600)
    return [
        "kube-apiserver",
        f"--etcd-servers={store}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        "--endpoint-reconciler-type=none",
        f"--secure-port={port}",
        f"--cert-dir={folder / 'certs'}",
        f"--token-auth-file={tokens}",
        "--authorization-mode=RBAC",
        "--disable-admission-plugins=ServiceAccount",
        "--service-account-issuer=https://127.0.0.1",
        f"--service-account-key-file={key}",
        f"--service-account-signing-key-file={key}",
        "--service-cluster-ip-range=10.96.0.0/16",
    ]


def _kubeconfig(folder: Path, server: Server) -> Path:
    """A login file as kubectl and the controllers read it (JSON is YAML)."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "it", "cluster": {"server": server.url, "certificate-authority": server.ca}}],
        "users": [{"name": "admin", "user": {"token": server.token}}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "admin"}}],
        "current-context": "it",
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(document))
    path.chmod(0o600)
    return path
