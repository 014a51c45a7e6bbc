"""What stands where a kubeconfig or the Kubernetes API should be: one sentence, and no token in it."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from groupshift.adapters.drivers.kubernetes import KubernetesApi, _configuration
from groupshift.errors import Rejected
from groupshift.settings import KubernetesSettings

pytestmark = pytest.mark.timeout(20)
TOKEN = "t0ken-that-nobody-sees"
KUBECONFIG = f"""apiVersion: v1
kind: Config
current-context: c
clusters: [{{name: c, cluster: {{server: "https://h:1"}}}}]
contexts: [{{name: c, context: {{cluster: c, user: u}}}}]
users: [{{name: u, user: {{token: {TOKEN}}}}}]
"""
SERVER = '{server: "https://h:1"}'
ODD: dict[str, bytes] = {
    "two colons": KUBECONFIG.replace(TOKEN, f"{TOKEN}: x").encode(),
    "a tab": f"users:\n\ttoken: {TOKEN}".encode(),
    "deep": b"a: " + b"[" * 5_000,
    "no UTF-8": b"\xff\xfe\xff",
    "zero bytes": b"\0\0",
    "a list": b"[1]",
    "a text": b"x",
    "clusters that are none": KUBECONFIG.replace(f"[{{name: c, cluster: {SERVER}}}]", "3").encode(),
    "a server that is a number": KUBECONFIG.replace('"https://h:1"', "5").encode(),
    "an object of Python": b"a: !!python/object/apply:os.getcwd []",
}


def test_a_kubeconfig_is_read(tmp_path: Path) -> None:
    """The one that the others are made of; several in a row, too, of which one is not there."""
    path = tmp_path / "config"
    path.write_text(KUBECONFIG)
    for named in (str(path), f"{path}:{tmp_path / 'nowhere'}"):
        assert _configuration(KubernetesSettings(kubeconfig=named)).host == "https://h:1"


@pytest.mark.parametrize("what", ODD)
def test_s13_a_kubeconfig_that_is_none_is_one_sentence(what: str, tmp_path: Path) -> None:
    """Without anything of what it holds, also in the causes."""
    path = tmp_path / "config"
    path.write_bytes(ODD[what])
    with pytest.raises(Rejected, match=r"kubeconfig .* is none") as refused:
        _configuration(KubernetesSettings(kubeconfig=str(path)))
    assert (TOKEN in str(refused.value), refused.value.__cause__) == (False, None)


@pytest.mark.parametrize("what", ["kubeconfig", "ca", "zero byte"])
def test_s13_nobody_waits_for_a_pipe_of_kubernetes(what: str, tmp_path: Path) -> None:
    """The file of the cluster, and that of its certificates; nor is a name without a file a trace."""
    pipe = str(tmp_path / "pipe")
    os.mkfifo(pipe)
    settings = {
        "kubeconfig": KubernetesSettings(kubeconfig=pipe),
        "ca": KubernetesSettings(server="https://h:1", ca=pipe),
        "zero byte": KubernetesSettings(kubeconfig="a\0b"),
    }[what]
    with pytest.raises(Rejected, match="is none" if what == "zero byte" else "named pipe"):
        _configuration(settings)


@pytest.mark.parametrize(
    "body",
    [
        "<html>log in</html>", "null", "[]", "{}", '{"items": null}', '{"items": [null]}', '{"items": [{}]}',
        '{"items": [{"metadata": []}]}', "1e999", "[" * 100_000, '{"items": [], "x": ' + "9" * 5_000 + "}",
    ],
)  # fmt: skip
def test_s13_what_is_no_answer_of_kubernetes_is_one_sentence(body: str) -> None:
    """A page to log in, or whatever stands before the API."""
    api = KubernetesApi(KubernetesSettings(server="https://h:1", token=TOKEN))
    answer = SimpleNamespace(data=body, status=200, getheader=lambda *_: None, getheaders=dict)
    client: Any = api._client
    client.request = lambda *_, **__: answer
    with pytest.raises(Rejected, match="is no Kubernetes API") as refused:
        api.find("pods", "a=b")
    assert (TOKEN in str(refused.value), len(str(refused.value)) < 400) == (False, True)


@pytest.mark.parametrize(
    "token", [f"{TOKEN}\nX-Other: 1", f"{TOKEN}\0", f"{TOKEN}\u00e9", f"{TOKEN}\r\n\r\nx"]
)
def test_s14_a_token_that_cannot_be_sent_is_not_repeated(token: str, tmp_path: Path) -> None:
    """The library that sends it would quote it, in the middle of a stack trace."""
    path = tmp_path / "config"
    path.write_text(KUBECONFIG.replace(TOKEN, ascii(token).replace("'", '"')))
    for settings in (
        KubernetesSettings(server="https://h:1", token=token),
        KubernetesSettings(kubeconfig=str(path)),
    ):
        with pytest.raises(Rejected, match="holds a character that no token has") as refused:
            _configuration(settings)
        assert (TOKEN in str(refused.value), refused.value.__cause__) == (False, None)


def test_s14_a_line_end_behind_a_token_is_not_sent() -> None:
    """As every file has one."""
    made = _configuration(KubernetesSettings(server="https://h:1", token=f"{TOKEN}\n"))
    assert made.api_key == {"authorization": f"Bearer {TOKEN}"}
