"""A deployer's program for the driver `command`: one request to the supervisor of the sandbox each.

``deployer.py SOCKET start|undo CHANGE GROUP TO FENCE TOKEN [SLOT...]``,
``deployer.py SOCKET observe GROUP [CHANGE]``; docs/reference/fleet-drivers.md says what such a program
prints and with what it exits.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from groupshift.adapters.drivers.process import ask
from groupshift.errors import GroupshiftError

KEPT = ("name", "kind", "state", "member_id", "change_id")


def main(arguments: list[str]) -> dict[str, object]:
    """Carry out one call and say what it came to."""
    path, verb, *rest = arguments
    fleet = ask(Path(path), {"verb": "slots"})
    if verb == "observe":
        mine = fleet["slots"] if fleet["group"] == rest[0] else []
        known = ask(Path(path), {"verb": "changes"})["changes"]
        taken = {"taken_up": rest[1] in known} if len(rest) > 1 else {}
        return {"slots": [{key: slot[key] for key in KEPT} for slot in mine], **taken}
    change_id, _group, to, fence, token, *slots = rest
    request = {"verb": "change", "change_id": change_id, "to": to, "slots": slots}
    done = ask(Path(path), {**request, "fence": fence, "token": int(token)})
    return {"change_id": done["change_id"]}


if __name__ == "__main__":
    try:
        sys.stdout.write(json.dumps(main(sys.argv[1:])) + "\n")
    except GroupshiftError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(error.exit_code)
