"""A command line that is typed again while a server does not answer, as the sentence of exit code 4 says."""

from __future__ import annotations

import os
import subprocess
import sys

from groupshift.errors import Transient
from groupshift_sandbox.home import Home
from groupshift_sandbox.processes import wait_until


def typed_again(home: Home, *arguments: str, patience_s: float = 1700.0) -> None:
    """``groupshift`` with these arguments, in a process of its own with the settings of ``home``, until it
    ends with 0 or for another reason, which fails with what it said."""
    said = home.logs / "typed.log"

    def ended() -> bool:
        with said.open("ab") as log:
            code = subprocess.run(
                [sys.executable, "-m", "groupshift.cli.main", *arguments],
                env={**os.environ, "GROUPSHIFT_SETTINGS": str(home.settings_file)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                timeout=patience_s,
                check=False,
            ).returncode
        assert code in {0, Transient.exit_code}, said.read_text()[-4000:]
        return code == 0

    wait_until(ended, patience_s, f"{arguments} is answered", every_s=0.5)
