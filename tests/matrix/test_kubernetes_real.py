"""The driver `kubernetes` against a real API server with its real controllers (`make matrix`).

etcd, kube-apiserver and the workload controllers of Kubernetes are built from Go modules by the main module
beside this file; only the node is played (`k8s.node`): it says that pods run.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet_suite import *  # noqa: F403 - the suite's tests are this module's tests
from fleet_suite import Fleet
from k8s.fleet import kubernetes_fleet
from k8s.plane import control_plane
from k8s.requests import Server


@pytest.fixture(scope="module")
def binary() -> Path:
    """The control plane's program, which `make matrix` builds."""
    named = os.environ.get("GROUPSHIFT_CONTROL_PLANE", "")
    if not Path(named).is_file():
        pytest.fail("GROUPSHIFT_CONTROL_PLANE names no control plane: run make matrix, which builds one")
    return Path(named)


@pytest.fixture
def server(binary: Path, tmp_path: Path) -> Iterator[Server]:
    """An empty cluster of this test's own; it is up within two seconds."""
    with control_plane(binary, tmp_path) as up:
        yield up


@pytest.fixture(params=["statefulset", "deployments"])
def fleet(server: Server, request: pytest.FixtureRequest) -> Iterator[Fleet]:
    """Three old members."""
    with kubernetes_fleet(server, request.param) as (made, _node):
        yield made
