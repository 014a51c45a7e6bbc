"""JAAS files: how the JVM of a server or an old member is told who it is."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from groupshift_sandbox.home import Home

Section = tuple[str, Mapping[str, str]]
"""A login module's class and its options."""


def write_jaas(home: Home, name: str, sections: Mapping[str, Section]) -> Path:
    """Write ``<name>.jaas``, readable by this user only, and return its path."""
    text = ""
    for title, (module, options) in sections.items():
        lines = "".join(f'\n    {key}="{value}"' for key, value in options.items())
        text += f"{title} {{\n  {module} required{lines};\n}};\n"
    path = home.configuration / f"{name}.jaas"
    path.touch(mode=0o600)
    path.write_text(text)
    return path


def client_section(username: str, password: str) -> Section:
    """The section ``Client`` with which a JVM logs in at ZooKeeper by DIGEST-MD5."""
    module = "org.apache.zookeeper.server.auth.DigestLoginModule"
    return module, {"username": username, "password": password}


def jaas_option(path: Path) -> str:
    """The JVM's option."""
    return f"-Djava.security.auth.login.config={os.fspath(path)}"
