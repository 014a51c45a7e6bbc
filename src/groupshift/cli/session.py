"""From command line options to an open App."""

from __future__ import annotations

import getpass
import os
import pwd
from pathlib import Path
from typing import Annotated

import typer

from groupshift.bootstrap import App, build
from groupshift.errors import Rejected
from groupshift.settings import Settings, load

SETTINGS_VARIABLE = "GROUPSHIFT_SETTINGS"
HOME_VARIABLE = "GROUPSHIFT_HOME"
DEFAULT_HOME = ".groupshift/sandbox"

SettingsFile = Annotated[
    Path | None,
    typer.Option(
        "--settings",
        envvar=SETTINGS_VARIABLE,
        help="Settings file (TOML). Default: the sandbox's, when it is up.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]


def settings(path: Path | None) -> Settings:
    """The settings of that file, or of the sandbox. Raises `Rejected` when there are none."""
    chosen = path or _of_sandbox()
    if not has_settings(path):
        raise Rejected(
            f"no settings: name a file with --settings or {SETTINGS_VARIABLE}, "
            "or bring a sandbox up with: groupshift sandbox up"
        )
    return load(chosen)


def has_settings(path: Path | None) -> bool:
    """Whether a file was named, or a sandbox has one."""
    return path is not None or _of_sandbox().exists()


def _of_sandbox() -> Path:
    return Path(os.environ.get(HOME_VARIABLE) or DEFAULT_HOME) / "settings.toml"


def open_app(path: Path | None) -> tuple[App, Settings]:
    """A ready App; use it in a ``with`` statement."""
    parsed = settings(path)
    return build(parsed), parsed


def account() -> str:
    """The account that this process runs as, whatever the environment claims."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid {os.getuid()}"


def who() -> str:
    """The person at the keyboard: the name that the environment tells, and beside it the account that the
    operating system does (`groupshift.application.approval.identity` reads it)."""
    real = account()
    try:
        claimed = getpass.getuser()
    except (OSError, KeyError):
        claimed = real
    beside = "" if claimed == real else f", {real}"
    return f"{claimed} (uid {os.getuid()}{beside})"
