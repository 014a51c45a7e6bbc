"""kafka-python's broker connections with two corrections: no socket is left open, no answer is lost.

kafka-python 3.0.12 does not close the socket of a refused connection or failed TLS handshake (it waits
for the garbage collector), and throws away what it received together with the end of a connection. Brokers
before 2.1 close right after refusing a login, so the refusal would look like a lost connection.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Any

from kafka.errors import KafkaConnectionError
from kafka.net.inet import KafkaNetSocket, create_connection
from kafka.net.manager import KafkaConnectionManager
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport


class _Direct(KafkaNetSocket):  # type: ignore[misc]
    """Sockets of the "proxy" ``direct://``, which is none: they are closed when they do not connect."""

    SCHEMES = ("direct",)

    async def connect(
        self, net: Any, addrinfo: Any, socket_options: Sequence[Any] = (), timeout_at: float | None = None
    ) -> socket.socket:
        """Connect to one address; as the base class otherwise."""
        family, kind, protocol, _, address = addrinfo
        opened: socket.socket = self.socket(family, kind, protocol)
        connected = False
        try:
            opened.setblocking(False)
            for option in socket_options:
                opened.setsockopt(*option)
            await self.sock_connect(net, opened, address, timeout_at=timeout_at)
            connected = True
        finally:
            if not connected:
                opened.close()
        return opened


class BrokerConnections(KafkaConnectionManager):  # type: ignore[misc]
    """The connections to all brokers of one cluster."""

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        opened = await create_connection(
            self._net,
            node.host,
            node.port,
            self.config["socket_options"],
            proxy_url="direct://",
            timeout_at=timeout_at,
        )
        transport = self._over(opened, node.host)
        shaken = False
        try:
            await transport.handshake()
            shaken = True
        except OSError as failed:
            raise KafkaConnectionError(f"TLS handshake failed: {failed}") from None
        finally:
            if not shaken:
                transport.abort()
        return transport

    def _over(self, opened: socket.socket, host: str) -> Any:
        if self.ssl_enabled:
            context = self.config["ssl_context"]
            transport = KafkaSSLTransport(self._net, opened, host=host, ssl_context=context)
        else:
            transport = KafkaTCPTransport(self._net, opened, host=host)
        receive = transport._sock_recv  # noqa: SLF001 - the only place where it can be corrected

        def received() -> tuple[bytes, Exception | None]:
            data, ended = receive()
            return data, None if data else ended  # an end is found again by the next read

        transport._sock_recv = received  # noqa: SLF001
        return transport
