"""``groupshift``: the entry point. Verbs are loaded when they are called.

``consume`` needs the base dependencies only; every other verb needs the extra ``tool``.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence

from groupshift import __version__
from groupshift.domain.foreign_text_quoting import visible
from groupshift.domain.versions import version_text
from groupshift.errors import Broken, GroupshiftError

NEEDS_TOOL = "this verb needs the extra 'tool': pip install 'kafka-groupshift[tool]'"
"""What is said where the base dependencies only are installed."""

UNREAD = 141
"""Exit code where nobody reads what is printed, as a shell gives it (128 and SIGPIPE)."""
_UNFORESEEN = (
    "an error that groupshift does not foresee; no verdict was reached; report it with the lines above"
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code (docs/reference/exit-codes.md).

    What a verb raises is one sentence on standard error. An error that groupshift does not foresee is told
    with its trace and ends with 5: exit code 1 would say that a verdict failed."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        return _called(arguments)
    except GroupshiftError as error:
        return _failed(error, str(error))
    except BrokenPipeError:  # whoever read standard output is gone: let the rest of it go nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return UNREAD
    except KeyboardInterrupt:
        print("interrupted; every verb is safe to repeat", file=sys.stderr)
        return 130
    except Exception as error:  # noqa: BLE001 - whatever it is
        for line in traceback.format_exc().splitlines():
            print(visible(line) if line else "", file=sys.stderr)
        print(f"broken: {_UNFORESEEN} ({type(error).__name__})", file=sys.stderr)
        return Broken.exit_code


def _failed(error: GroupshiftError, said: str) -> int:
    """Print one line that begins with the family of the error; return its exit code."""
    print(f"{type(error).__name__.lower()}: {visible(said)}", file=sys.stderr)
    return error.exit_code


def _called(arguments: list[str]) -> int:
    """Load what the verb needs, and call it."""
    if arguments[:1] == ["consume"]:
        from groupshift.cli.consume import main as consume

        return consume(arguments[1:])
    if arguments == ["--version"]:
        print(version_text(__version__))
        return 0
    try:
        from groupshift.cli.output_and_next_command import again, repeating
        from groupshift.cli.verbs import app
    except ModuleNotFoundError as missing:
        if (missing.name or "").startswith("groupshift"):
            raise
        print(f"{NEEDS_TOOL} ({missing.name} is missing)", file=sys.stderr)
        return 2
    with repeating(arguments, app):
        try:
            app(arguments, prog_name="groupshift")
        except SystemExit as ended:
            return ended.code if isinstance(ended.code, int) else 0
        except GroupshiftError as error:
            return _failed(error, again(str(error)))
        finally:
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
