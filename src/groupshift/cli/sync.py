"""``groupshift sync plan | apply | follow | status``: offsets of groups over a link, kept in step.

A plan says of each group and partition which offset it gets, or why none, and changes nothing. Only ``apply``
and ``follow`` write, with --execute, one process at a time for each link; groups with members on the target
are never written."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from groupshift.bootstrap.links import commit_tail, open_link
from groupshift.bootstrap.moves import journal
from groupshift.cli.options import Execute, Json, SettingsFile, option, run_name, settings, who
from groupshift.cli.output import Shown, again, next_command, number, tell, write_page
from groupshift.cli.requests import asked_again, parameters, values_of
from groupshift.cli.run_place import shaped
from groupshift.cli.terminal import Console, Table, styled
from groupshift.domain.foreign_json import FILE_BYTES
from groupshift.domain.foreign_text_quoting import command, json_text, visible
from groupshift.domain.partitions import grouped
from groupshift.domain.requests import request_of
from groupshift.domain.verdict import Verdict
from groupshift.engine.questions import utc
from groupshift.errors import Rejected, Transient
from groupshift.links import translate
from groupshift.links.sync import SyncPlanner
from groupshift.links.sync_apply import MOVE, apply_plan, lease, lease_of, positions_of
from groupshift.links.sync_follow import Follower, Step
from groupshift.links.sync_plan import SyncPlan, SyncRequest, SyncRow, plan_from
from groupshift.links.write_rules import Action

_SHOWN = 40
"""Rows of a table; a plan's file has all."""
_TELL_MS = 10_000
"""How often `follow` says what it did, and how long commits of each group have been waiting."""
_FORCE = (
    "rewind_policy is force: offsets of the target that are ahead are lowered, and those groups read again"
)
_FILE = "Write the plan here: JSON lines, which apply reads."
_GONE = "Write although another process holds the link: that process is gone."
_SECONDS = "Seconds after which it ends; 0: when it is interrupted."
Output = Annotated[Path | None, option("--output", _FILE)]
TakeOver = Annotated[bool, typer.Option("--take-over", help=_GONE)]
PlanFile = Annotated[Path, typer.Argument(metavar="PLAN", help="A file of groupshift sync plan --output.")]
LinkName = Annotated[str, option("--link", "Name of the link, as the settings have it.")]
GroupName = Annotated[str, option("--group", "Only this group, partition by partition.", "-g")]
Seconds = Annotated[float, option("--for", _SECONDS, min=0.0)]


class _Verbs(NamedTuple):
    """What asks for a sync, as the options of a request are made."""

    name: str = MOVE
    request: type = SyncRequest


SYNC = _Verbs()
app = typer.Typer(
    name=MOVE, help="Keep the offsets of groups in step over a link between clusters.", no_args_is_help=True
)


def _asked(verb: Callable[..., int]) -> Callable[..., int]:
    """Make a verb whose ``request`` is made of the options of `SyncRequest`, and add it to the verbs."""
    own = [
        each for each in inspect.signature(verb, eval_str=True).parameters.values() if each.name != "request"
    ]

    def called(**options: Any) -> int:
        shared = {each.name: options.pop(each.name) for each in own if each.name in options}
        return verb(request=request_of(SyncRequest, values_of(SYNC, options)), **shared)

    app.command(verb.__name__, help=inspect.getdoc(verb))(shaped(called, list(parameters(SYNC, own))))
    return verb


@_asked
def plan(
    *,
    request: SyncRequest,
    output: Output = None,
    settings_file: SettingsFile = None,
    as_json: Json = False,
) -> int:
    """Say of each group and partition which offset it gets on the target, or why none; nothing is changed.

    Exit code 1: offsets are skipped or clamped, or records are lost."""
    parsed = settings(settings_file)
    with open_link(parsed, request.link) as at, journal(parsed) as runs:
        planned = SyncPlanner(at, request).plan(positions=positions_of(at, runs))
    if output is not None:
        write_page(output, "\n".join([*planned.lines(), ""]))
    _tell(planned, _after_plan(planned, output), as_json=as_json)
    return 0 if planned.is_clean else 1


@app.command("apply")
def apply(
    plan_file: PlanFile,
    *,
    execute: Execute = False,
    take_over: TakeOver = False,
    settings_file: SettingsFile = None,
    as_json: Json = False,
) -> int:
    """Write what a plan says, with --execute: each group is looked at again right before, and read back.

    Without --execute the plan is shown. Exit code 1: offsets were skipped, clamped or raced, or records are
    lost."""
    planned = _read(plan_file)
    if not execute:
        following = command("groupshift", MOVE, "apply", str(plan_file), "--execute")
        _tell(planned, following, as_json=as_json)
        return 0 if planned.is_clean else 1
    parsed = settings(settings_file)
    with (
        open_link(parsed, planned.request.link) as at,
        journal(parsed) as runs,
        lease(at, runs, run_name(MOVE), requester=who(), take_over=take_over) as held,
    ):
        applied = apply_plan(at, planned, held)
    following = command("groupshift", MOVE, "status", "--link", applied.request.link)
    if not applied.is_clean:
        following = f"do what is said of each, then: {asked_again(SYNC, 'plan', applied.request)}"
    _tell(applied, following, as_json=as_json)
    return 0 if applied.is_clean else 1


@_asked
def follow(
    *,
    request: SyncRequest,
    execute: Execute = False,
    take_over: TakeOver = False,
    seconds: Seconds = 0.0,
    settings_file: SettingsFile = None,
    as_json: Json = False,
) -> int:
    """Sync groups as they commit, with --execute, until it is interrupted; without it show one plan.

    Exit code 1: offsets of the last look at a group were skipped or clamped, or records are lost."""
    if not execute:
        planned_code = plan(request=request, settings_file=settings_file, as_json=as_json)
        Console(stderr=True).line("nothing was changed: with --execute commits are followed")
        return planned_code
    parsed = settings(settings_file)
    with (
        open_link(parsed, request.link) as at,
        journal(parsed) as runs,
        lease(at, runs, run_name(MOVE), requester=who(), take_over=take_over) as held,
        commit_tail(parsed, request.link) as tail,
    ):
        said = Console(stderr=True)
        follower = Follower(at, request, held, tail, tell=said.line)
        ends_ms = at.clock.now_ms() + seconds * 1000 if seconds else None
        followed = _Followed(follower=follower, as_json=as_json)
        try:
            while ends_ms is None or at.clock.now_ms() < ends_ms:
                try:
                    followed.take(follower.step(), at.clock.now_ms())
                except Transient as why:  # what was due stays due
                    said.line(f"transient: {why}")
                    at.clock.sleep(1.0)
        except KeyboardInterrupt:
            said.line("interrupted: the link is let go")
        finally:
            follower.close()
        held.said, held.verdict = followed.said, Verdict.PASS if followed.is_clean else Verdict.INCONCLUSIVE
    following = command("groupshift", MOVE, "status", "--link", request.link)
    document = {"writes": follower.writes, "counts": followed.counts, "clean": followed.is_clean}
    tell(document, [followed.said], following, as_json=as_json)
    return 0 if followed.is_clean else 1


@dataclass(slots=True)
class _Followed:
    """What `follow` did so far; ``unclean`` are the groups whose last look was not clean."""

    follower: Follower
    as_json: bool
    unclean: set[str]
    counts: dict[str, int]
    told_ms: int

    def __init__(self, follower: Follower, *, as_json: bool) -> None:
        self.follower, self.as_json = follower, as_json
        self.unclean, self.counts, self.told_ms = set(), {}, 0

    @property
    def is_clean(self) -> bool:
        """Whether the last look at every group was clean."""
        return not self.unclean

    @property
    def said(self) -> str:
        """What was done, in words."""
        left = f"{len(self.unclean):,} groups need a look" if self.unclean else "every group is in step"
        return f"{self.follower.writes:,} offsets were written, {left}"

    def take(self, step: Step, now_ms: int) -> None:
        """Count what one step came to; say it now and then."""
        self.unclean -= step.plain.groups
        counts: dict[str, int] = {"OK": step.plain.writes} if step.plain.writes else {}
        if step.plan is not None:
            for group, rows in grouped((row.group, row) for row in step.plan.rows).items():
                (self.unclean.discard if all(row.is_clean for row in rows) else self.unclean.add)(group)
        for reason, many in (*counts.items(), *(step.plan.counts.items() if step.plan else ())):
            self.counts[reason] = self.counts.get(reason, 0) + many
        if now_ms - self.told_ms < _TELL_MS:
            return
        self.told_ms, stale = now_ms, self.follower.stale()
        if self.as_json:
            written = {"writes": self.follower.writes, "counts": self.counts}
            print(json_text(json.dumps({"at_ms": now_ms, **written, "stale_ms": stale}, ensure_ascii=False)))
            return
        oldest = max(stale, key=stale.__getitem__, default="")
        waits = f"; {visible(oldest)} waits since {stale[oldest] / 1000:.1f} s" if oldest else ""
        Console().line(f"{utc(now_ms)}: {self.said}{waits}")


@app.command("status")
def status(
    *,
    link: LinkName,
    group: GroupName = "",
    settings_file: SettingsFile = None,
    as_json: Json = False,
) -> int:
    """Say how far each group is on the target, who writes the link, and since when each group is in step.

    Exit code 1: a group is not in step."""
    parsed = settings(settings_file)
    with open_link(parsed, link) as at, journal(parsed) as runs:
        positions = positions_of(at, runs)
        if group:
            rows: Sequence[SyncRow] = translate(at, group)
        else:
            rows = SyncPlanner(at, SyncRequest(link=link)).plan(positions=positions).rows
        holder = lease_of(at, runs)
    groups = [_GroupStatus.of(name, each) for name, each in grouped((row.group, row) for row in rows).items()]
    at_ms = {
        name: max(times) for name, times in grouped((p.group, p.at_ms) for p in positions.values()).items()
    }
    data = {
        "link": link,
        "held_by": holder,
        "groups": [{**each.data, "last_write_ms": at_ms.get(each.group)} for each in groups],
        "rows": [json.loads(row.line()) for row in rows] if group else [],
    }
    parts: list[Shown] = [
        f"link {link} is {'written by ' + holder if holder else 'free: no process writes it'}"
    ]
    parts.append(_rows_table(rows) if group else _groups_table(groups, at_ms))
    behind = [each for each in groups if each.behind]
    following = asked_again(SYNC, "plan", SyncRequest(link=link))
    if not behind:
        following = asked_again(SYNC, "follow", SyncRequest(link=link))
    tell(data, parts, following, as_json=as_json)
    return 0 if all(row.is_clean and not _is_behind(row) for row in rows) else 1


class _GroupStatus(NamedTuple):
    """How far a group is: partitions, those whose offset on the target is not the translated one, by how many
    target offsets these are behind, and the worst that is said of any of them."""

    group: str
    partitions: int
    behind: int
    offsets: int
    reason: str
    said: str

    @classmethod
    def of(cls, group: str, rows: Sequence[SyncRow]) -> _GroupStatus:
        """The rows of one group together."""
        behind = [row for row in rows if _is_behind(row)]
        worst = next((row for row in rows if not row.is_clean), behind[0] if behind else rows[0])
        offsets = sum((row.x or 0) - (row.t_current or 0) for row in behind)
        return cls(group, len(rows), len(behind), offsets, worst.reason.value, worst.said)

    @property
    def data(self) -> Mapping[str, Any]:
        """The same for a program."""
        return self._asdict()


def _is_behind(row: SyncRow) -> bool:
    return row.x is not None and (row.t_current is None or row.t_current < row.x)


def _read(path: Path) -> SyncPlan:
    """Return the plan in a file. Raises `Rejected` for one that cannot be read, or is none."""
    try:
        if path.stat().st_size > FILE_BYTES:
            raise Rejected(f"{path}: is larger than {FILE_BYTES} bytes; give a plan of groupshift")
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeError, ValueError) as error:
        raise Rejected(f"{path} cannot be read ({error}); name a file of groupshift sync plan") from error
    return plan_from(text.splitlines(), str(path))


def _after_plan(planned: SyncPlan, output: Path | None) -> str:
    if not planned.writes:
        return command("groupshift", MOVE, "status", "--link", planned.request.link)
    if output is None:
        file = f"sync-{planned.request.link}.jsonl"
        return f"{asked_again(SYNC, 'plan', planned.request)} --output {file}"
    return command("groupshift", MOVE, "apply", str(output), "--execute")


def _tell(planned: SyncPlan, following: str, *, as_json: bool) -> None:
    """Print a plan as JSON lines, or as a table with what needs a look first."""
    if as_json:
        for line in planned.lines(again(following)):
            print(json_text(line))
        return
    console = Console()
    for part in _parts(planned):
        if part or not isinstance(part, Table):
            console.print(part)
    next_command(console, following)


def _parts(planned: SyncPlan) -> Iterator[Shown]:
    yield _rows_table(planned.rows)
    yield from planned.notes
    if planned.request.rewind_policy == "force":
        yield styled(_FORCE, "yellow")
    for row in [row for row in planned.rows if not row.is_clean][:_SHOWN]:
        yield styled(row.said, "yellow")
    again_, lost = (sum(getattr(row, name) for row in planned.rows) for name in ("est_again", "est_lost"))
    theirs = sum(row.mm2_again or 0 for row in planned.rows)
    yield f"read again at most: {again_:,} records ({theirs + again_:,} with MirrorMaker); lost: {lost:,}"
    did = "were written" if planned.is_applied else "to write"
    yield f"{planned.writes:,} offsets {did}: {planned.counts_text}"


def _rows_table(rows: Sequence[SyncRow]) -> Table:
    more = f", the first {_SHOWN} of {len(rows):,} (--output has all)" if len(rows) > _SHOWN else ""
    numbers = ("commit", "on target", "offset", "again", "MirrorMaker")
    columns = ("group", "topic-partition", *numbers, "certainty", "action", "reason")
    table = Table(f"offsets{more}", columns, numbers=numbers)
    for row in sorted(rows, key=lambda each: each.is_clean)[:_SHOWN]:
        offsets = (row.c, row.t_current, row.x, row.est_again, row.mm2_x)
        colour = "green" if row.is_clean else "yellow"
        action = "write" if row.action is Action.WRITE else ""
        certainty, reason = row.certainty or "-", styled(row.reason, colour)
        table.add_row(row.group, row.target_tp or "-", *map(number, offsets), certainty, action, reason)
    return table


def _groups_table(groups: Sequence[_GroupStatus], at_ms: Mapping[str, int]) -> Table:
    numbers = ("partitions", "behind", "offsets behind")
    more = f", the first {_SHOWN} of {len(groups):,} (--json has all)" if len(groups) > _SHOWN else ""
    table = Table(f"groups{more}", ("group", *numbers, "last write", "reason"), numbers=numbers)
    for each in sorted(groups, key=lambda one: -one.offsets)[:_SHOWN]:
        counts = (each.partitions, each.behind, each.offsets)
        written = utc(at_ms[each.group]) if each.group in at_ms else "-"
        table.add_row(each.group, *map(number, counts), written, each.reason)
    return table
