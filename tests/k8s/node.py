"""What a kubelet tells the API server about its pods, without containers: the one part that no process plays.

It binds pods, reports them running and ready, or broken where a test wants that, and confirms the end of
those that are deleted. It speaks the API only, so the fake server and a real control plane see the same node.
"""

from __future__ import annotations

import re
import threading
import urllib.error
from contextlib import suppress
from typing import Any

from k8s.requests import STRATEGIC, Server

TURN_S = 0.05


class Node:
    """A thread that serves every pod of one namespace until `close`."""

    def __init__(self, server: Server, namespace: str) -> None:
        self._server, self._path = server, f"/api/v1/namespaces/{namespace}/pods"
        self._broken: re.Pattern[str] | None = None
        self._before: set[str] = set()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="node", daemon=True)
        self._thread.start()

    def keep_broken(self, names: str) -> None:
        """Pods that are new from now on and whose name fits this pattern never become ready."""
        self._before = {pod["metadata"]["uid"] for pod in self._server.ask("GET", self._path)["items"]}
        self._broken = re.compile(names)

    def heal(self) -> None:
        """All pods can become ready again."""
        self._broken = None

    def _breaks(self, pod: dict[str, Any]) -> bool:
        meta, names = pod["metadata"], self._broken
        return names is not None and meta["uid"] not in self._before and bool(names.fullmatch(meta["name"]))

    def close(self) -> None:
        """End the thread."""
        self._ended.set()
        self._thread.join(20)

    def _serve(self) -> None:
        while not self._ended.wait(TURN_S):
            with suppress(OSError, urllib.error.HTTPError):  # asked again at the next turn
                for pod in self._server.ask("GET", self._path)["items"]:
                    with suppress(urllib.error.HTTPError):  # the pod was changed or removed since
                        self._attend(pod)

    def _attend(self, pod: dict[str, Any]) -> None:
        name = pod["metadata"]["name"]
        if pod["metadata"].get("deletionTimestamp"):
            options = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}
            self._server.ask("DELETE", f"{self._path}/{name}", options)
        elif not pod["spec"].get("nodeName"):
            self._bind(name)
        else:
            told = _status(pod, ready=not self._breaks(pod))
            if not _same(pod["status"], told):
                self._server.ask("PATCH", f"{self._path}/{name}/status", {"status": told}, STRATEGIC)

    def _bind(self, name: str) -> None:
        target = {"kind": "Node", "apiVersion": "v1", "name": "node-1"}
        body = {"kind": "Binding", "apiVersion": "v1", "metadata": {"name": name}, "target": target}
        self._server.ask("POST", f"{self._path}/{name}/binding", body)


def _status(pod: dict[str, Any], *, ready: bool) -> dict[str, Any]:
    container = pod["spec"]["containers"][0]
    waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off restarting failed container"}}
    running = {"running": {"startedAt": pod["metadata"]["creationTimestamp"]}}
    said = "True" if ready else "False"
    return {
        "phase": "Running",
        "conditions": [{"type": each, "status": said} for each in ("ContainersReady", "Ready")],
        "containerStatuses": [
            {
                "name": container["name"],
                "image": container["image"],
                "imageID": "",
                "ready": ready,
                "restartCount": 0 if ready else 1,
                "state": running if ready else waiting,
            }
        ],
    }


def _same(before: dict[str, Any], told: dict[str, Any]) -> bool:
    ready = [(each["name"], each["ready"]) for each in before.get("containerStatuses") or ()]
    return ready == [(each["name"], each["ready"]) for each in told["containerStatuses"]]
