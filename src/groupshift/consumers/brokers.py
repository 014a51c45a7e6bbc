"""Where the brokers are, from ZooKeeper: for a consumer that was given no ``bootstrap.servers``."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from groupshift.adapters.zookeeper.login import ZookeeperLogin, make_client
from groupshift.domain.znodes import BROKER_IDS, Endpoint, parse_broker
from groupshift.errors import Rejected, Transient

_LOG = logging.getLogger(__name__)


def find_brokers(hosts: str, timeout: float, protocol: str, login: ZookeeperLogin) -> str:
    """``host:port,…`` of every broker's first endpoint that speaks ``protocol``; broker JSON 1 to 5 (§1.3).

    A broker whose node cannot be read is left out, with a warning. Raises `Transient` without an answer in
    ``timeout`` seconds or without any broker, `Rejected` when no broker has such an endpoint."""
    client = make_client(hosts, timeout, login)
    try:
        client.start(timeout=timeout)
        paths = [f"{BROKER_IDS}/{each}" for each in client.get_children(BROKER_IDS)]
        read = {path: client.get(path)[0] for path in paths}
    except NoNodeError as error:
        raise Transient(f"zookeeper.connect {hosts!r}: no broker is registered there; start them") from error
    except (KazooException, KazooTimeoutError, OSError) as error:
        raise Transient(f"zookeeper.connect {hosts!r}: no answer in {timeout:g} s ({error})") from error
    finally:
        client.stop()
        client.close()
    if not read:
        raise Transient(f"zookeeper.connect {hosts!r}: no broker is registered there; start them")
    endpoints = [each for each in endpoints_of(read) if each.protocol == protocol]
    if not endpoints:
        raise Rejected(f"no broker speaks security.protocol {protocol!r}; set bootstrap.servers")
    return ",".join(sorted({each.address for each in endpoints}))


def endpoints_of(nodes: Mapping[str, bytes | None]) -> list[Endpoint]:
    """The endpoints of all brokers (path → data of its node). Raises `Rejected` when not one can be read."""
    found: list[Endpoint] = []
    problems: list[str] = []
    for path, data in sorted(nodes.items()):
        try:
            found += parse_broker(data, path).endpoints
        except Rejected as wrong:
            _LOG.warning("%s: left out", wrong)
            problems.append(str(wrong))
    if len(problems) == len(nodes) and problems:
        raise Rejected(f"no broker can be read from ZooKeeper: {problems[0]}; or set bootstrap.servers")
    return found
