"""One real ZooKeeper server as a child process."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from groupshift_sandbox.artifacts import BROKER, LOGGING, class_path
from groupshift_sandbox.home import Home
from groupshift_sandbox.jaas import jaas_option, write_jaas
from groupshift_sandbox.jvm import java_argv
from groupshift_sandbox.processes import Command, Running, await_start, free_port, start
from groupshift_sandbox.state import SandboxState

if TYPE_CHECKING:  # its import needs a library that only a secured sandbox needs
    from groupshift_sandbox.certificates import Certificates

NAME = "zookeeper"
_READY_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ZookeeperOptions:
    """``tick_ms`` is the granularity with which sessions expire; sessions may last 2 ticks to 2 minutes.

    ``users`` (name → password) may log in by SASL DIGEST-MD5, as everybody else may without. With ``tls`` the
    server also listens on ``tls_port`` and asks for a client's certificate there."""

    tick_ms: int = 500
    heap: str = "256m"
    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    tls: Certificates | None = None
    tls_port: int = 0


def start_zookeeper(home: Home, options: ZookeeperOptions = ZookeeperOptions()) -> str:
    """Start ZooKeeper and wait until it serves; returns ``127.0.0.1:<port>``.

    Snapshots are put off and transaction logs are kept, so that the log tells everything that happened.
    Raises `Transient` when it does not answer in time."""
    port = free_port()
    configuration = home.configuration / "zookeeper.cfg"
    configuration.write_text(
        f"dataDir={home.zookeeper}\n"
        f"clientPort={port}\nclientPortAddress=127.0.0.1\n"
        f"tickTime={options.tick_ms}\n"
        f"minSessionTimeout={2 * options.tick_ms}\nmaxSessionTimeout=120000\n"
        "maxClientCnxns=0\nadmin.enableServer=false\n4lw.commands.whitelist=*\n" + _secured(options)
    )
    own = [
        "-Dzookeeper.forceSync=no", "-Dzookeeper.preAllocSize=1024", "-Dzookeeper.snapCount=10000000",
        "-Dzookeeper.jmx.log4j.disable=true", *_java_options(home, options),
    ]  # fmt: skip
    main, classes = "org.apache.zookeeper.server.ZooKeeperServerMain", class_path(LOGGING, BROKER)
    argv = java_argv(
        home,
        main,
        str(configuration),
        classes=classes,
        heap=options.heap,
        options=own,
        release=BROKER.version,
    )
    process = start(home, Command(name=NAME, argv=argv))
    address = f"127.0.0.1:{port}"
    SandboxState(home).put_address("zookeeper", address)
    await_zookeeper(home, process, address)
    return address


def _secured(options: ZookeeperOptions) -> str:
    lines = []
    if options.users:
        lines.append("authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider")
    if options.tls is not None:
        lines += [
            f"secureClientPort={options.tls_port}",
            "secureClientPortAddress=127.0.0.1",
            f"ssl.keyStore.location={options.tls.server}",
            f"ssl.trustStore.location={options.tls.authority}",
        ]
    return "".join(f"{line}\n" for line in lines)


def _java_options(home: Home, options: ZookeeperOptions) -> list[str]:
    """What ZooKeeper takes from the command line only; TLS needs Netty, on both ports."""
    options_of_java = []
    if options.users:
        module = "org.apache.zookeeper.server.auth.DigestLoginModule"
        entries = {f"user_{name}": password for name, password in options.users.items()}
        options_of_java.append(jaas_option(write_jaas(home, NAME, {"Server": (module, entries)})))
    if options.tls is not None:
        options_of_java.append(
            "-Dzookeeper.serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory"
        )
    return options_of_java


def await_zookeeper(home: Home, process: Running, address: str) -> None:
    """Wait until the server serves requests. Raises `Transient` when it died or is late."""
    await_start(home, process, lambda: serves(address), _READY_S)


def serves(address: str) -> bool:
    """True when the server at ``host:port`` answers the command ``srvr`` as a running server does."""
    return "Mode:" in four_letter(address, "srvr")


def four_letter(address: str, word: str) -> str:
    """The answer to one of ZooKeeper's four letter words, empty when nobody answers."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=2.0) as connection:
            connection.sendall(word.encode())
            parts = []
            while chunk := connection.recv(65_536):
                parts.append(chunk)
    except OSError:
        return ""
    return b"".join(parts).decode(errors="replace")
