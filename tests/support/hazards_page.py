"""The hazard book as ``docs/reference/hazards.md``; `COMMAND` writes the page."""

from __future__ import annotations

from collections.abc import Sequence

from groupshift.domain.equality_rules import Comparison
from groupshift.domain.hazards import BOOK, CHAPTERS, MEANS, Hazard, Role
from groupshift.domain.versions import Span

COMMAND = "PYTHONPATH=tests python -m support.hazards_page > docs/reference/hazards.md"

_HEAD = f"""# Which known bugs make a move unsafe?

The hazard book: known bugs and incompatibilities of brokers and clients, by the versions that have them.
`groupshift hazards` reads it:

    groupshift hazards --move protocol --broker 4.2.0 --client confluent-kafka=2.16.1
    groupshift hazards --move downgrade --broker 4.3.1 --target 3.9.2 --with group-version --json

- Name each version that runs with `--broker`; `--target` is the release that a downgrade goes to.
- `--client` is `confluent-kafka` (its minor version is its librdkafka's), `librdkafka`, `kafka-clients`
  (Java) or `mirror-maker`. Where you name one, the book takes no other to be there. `--client none` says that
  it knows none of them.
- A line such as `4.2`, and `unknown`, are answers too. A broker does not report its version. In KRaft mode
  the newest `metadata.version` that it supports shows its line.
- `--with` and `--without` say whether a [condition](#conditions) holds.
- The book asks for what it does not know (H00 for versions), and never assumes that it is fine.
- Exit code 1: something is refused; 0: nothing is ([exit codes](exit-codes.md)).

*refuse* ends the move before it begins. *ask* leaves it to a person at a gate. *warn* is a message, and the
move goes on. *Affected* names half-open ranges: the upper end is the first version without the bug. A range
says so where the fix came to a branch after the last release that we know. It also says so where no source
names the first release with the fix.

How sure a line is: *verified* was seen on real servers. *read* comes from the classes of the releases on both
sides of the border. *reported* is what the project or its users say.

This page is made from `src/groupshift/domain/hazards.toml` ({COMMAND})."""

_WHO = {
    Role.BROKER: "brokers that run",
    Role.TARGET: "the release that is gone to",
    Role.LOADER: "any broker that loads the groups, of those that run and that are gone to",
}
_FIXES = {
    "released": "",
    "merged": " (merged to the branch; that release was not seen)",
    "not confirmed": " (an older release may have the fix: not confirmed)",
    "line": " (no fix: the line ends)",
}


def markdown() -> str:
    """The whole page; ends with a line feed."""
    chapters = [f"## {each.title}\n\n" + "\n\n".join(map(_entry, each.hazards)) for each in CHAPTERS]
    return "\n\n".join([_HEAD, "## At a glance", _glance(), *chapters, "## Conditions", _conditions()]) + "\n"


def ranges(spans: Sequence[Span]) -> str:
    """Some ranges in words, with the newest release that is known to be affected."""
    return "; ".join(
        f"{span}{_FIXES[span.fix]}"
        + (f", seen up to {span.last}" if span.before is None and span.last else "")
        for span in spans
    )


def _glance() -> str:
    rows = ["| | hazard | moves | what groupshift does |", "|---|---|---|---|"]
    rows += [
        f"| [{each.number}](#{each.number.lower()}) | {each.title} | {_moves(each)} | {each.action} |"
        for each in BOOK
    ]
    return "\n".join(rows)


def _moves(hazard: Hazard) -> str:
    return ", ".join(move for move in Comparison if move in hazard.moves)


def _entry(hazard: Hazard) -> str:
    lines = [f"### {hazard.number}", "", f"**[{hazard.bug}]({hazard.source})**: {hazard.title}.", ""]
    lines.append(f"- What happens: {hazard.happens}.")
    lines += [
        f"- Affected, {_WHO.get(role, role)}: {ranges(spans)}." for role, spans in hazard.affected.items()
    ]
    if hazard.traits:
        lines.append(f"- Only if {', and '.join(MEANS[trait] for trait in sorted(hazard.traits))}.")
    lines.append(f"- Moves: {_moves(hazard)}. groupshift: {hazard.action}.")
    lines.append(f"- Remedy: {hazard.remedy}.")
    lines.append(f"- How it is known: {hazard.sure}; {hazard.basis}.")
    return "\n".join(lines)


def _conditions() -> str:
    rows = ["| `--with`, `--without` | it means |", "|---|---|"]
    return "\n".join([*rows, *(f"| `{trait}` | {means} |" for trait, means in MEANS.items())])


if __name__ == "__main__":
    print(markdown(), end="")
