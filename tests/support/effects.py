"""What a move does to the outside world and what it decides by, recorded in neutral words.

Every port of a move is wrapped. A line is a call that changes something (with what it changes), an approval,
a judgement or the end. Beside it stand the reads since the line before, by what was read and not how often:
patience may look more than once. Goldens (``tests/goldens``) are made of these lines, so no line names a
class, a function, a file or a table of the product.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from groupshift.ports.clock import CrashPoint

GOLDENS = Path(__file__).parents[1] / "goldens"
KEPT = GOLDENS / "effects"
RENAMES: Mapping[str, str] = tomllib.loads((GOLDENS / "renames.toml").read_text())["effects"]
_RULE = re.compile(r"\b[A-Z]{1,2}\d{1,2}\b")
Line = dict[str, Any]
"""``do`` says what was done; ``reads`` what was read since the line before, sorted; ``rules`` (of a judgement
only) the verdict by rule id."""
Golden = Mapping[str, Any]
"""What is kept of a story: its ``lines``, and the ``crash_points`` that each act reached."""


@dataclass(slots=True)
class Recorder:
    """The lines so far, the crash points reached by act, and the one that was reached last."""

    lines: list[Line] = field(default_factory=list)
    crash_points: dict[str, list[str]] = field(default_factory=dict)
    last_crash: str = ""
    _reads: set[str] = field(default_factory=set)

    def read(self, what: str) -> None:
        """Something was read."""
        self._reads.add(what)

    def did(self, what: str, *, rules: Mapping[str, str] | None = None) -> None:
        """Something was changed, decided or judged."""
        line: Line = {"do": what, "reads": sorted(self._reads)}
        if rules is not None:
            line["rules"] = dict(sorted(rules.items()))
        self._reads.clear()
        self.lines.append(line)

    def refused(self, error: Exception) -> None:
        """A call was refused; the rules that its message names are the reason."""
        rules = dict.fromkeys(_RULE.findall(str(error)), "refused")
        self.did(f"refuse: {type(error).__name__}", rules=rules)

    def golden(self) -> Golden:
        """What is kept of a story that was recorded here."""
        return {"crash_points": self.crash_points, "lines": self.lines}

    def crash(self, act: str, point: CrashPoint) -> None:
        """A crash point of an act was reached."""
        self.last_crash = f"{act} {point.value}"
        met = self.crash_points.setdefault(act, [])
        if point.value not in met:
            met.append(point.value)


Told = Callable[..., str | None]
"""Makes a line of the arguments of a call, and of what it returned; None: the call changed nothing."""


class Recorded:
    """A port whose calls are recorded. ``reads`` maps a method to the name of what it reads, ``acts`` to what
    makes its line. A call that raises is recorded with the name of its error."""

    def __init__(
        self,
        target: object,
        recorder: Recorder,
        *,
        reads: Mapping[str, str] | None = None,
        acts: Mapping[str, Told] | None = None,
    ) -> None:
        self._target, self._recorder = target, recorder
        self._of_reads, self._of_acts = reads or {}, acts or {}

    def __getattr__(self, name: str) -> Any:
        return self._wrapped(name, getattr(self._target, name))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._wrapped("__call__", self._target)(*args, **kwargs)  # type: ignore[operator]

    def _wrapped(self, name: str, found: Any) -> Any:
        if name in self._of_reads:
            return self._reading(found, self._of_reads[name])
        return self._acting(found, self._of_acts[name]) if name in self._of_acts else found

    def _reading(self, call: Callable[..., Any], what: str) -> Callable[..., Any]:
        def read(*args: Any, **kwargs: Any) -> Any:
            self._recorder.read(what)
            return call(*args, **kwargs)

        return read

    def _acting(self, call: Callable[..., Any], told: Told) -> Callable[..., Any]:
        def act(*args: Any, **kwargs: Any) -> Any:
            try:
                result = call(*args, **kwargs)
            except Exception as error:
                line = told(None, *args, **kwargs)
                if line is not None:
                    self._recorder.did(f"{line} raises {type(error).__name__}")
                raise
            line = told(result, *args, **kwargs)
            if line is not None:
                self._recorder.did(line)
            return result

        return act


def names(values: Iterable[object]) -> str:
    """Values in their order, for a line."""
    return ", ".join(str(value) for value in values) or "nothing"


def settings(values: Mapping[str, str | None]) -> str:
    """Configuration, for a line; what is removed has no value."""
    return names(f"{name}={'' if value is None else value}" for name, value in sorted(values.items()))


def another(at: str, known: Collection[str]) -> str:
    """A name of a crash point that is reached once more than those that are known."""
    number = 1 + sum(each.split(" #")[0] == at for each in known)
    return at if number == 1 else f"{at} #{number}"


def kept(name: str) -> Golden:
    """The goldens of this name."""
    found: Golden = json.loads((KEPT / f"{name}.json").read_text())
    return found


def document(stories: Mapping[str, Golden]) -> str:
    """JSON of the goldens of stories: a row a line of a story, so that a difference can be read."""
    parts = []
    for name, golden in stories.items():
        lines = ",\n".join("   " + json.dumps(line, sort_keys=True) for line in golden["lines"])
        points = json.dumps(golden["crash_points"])
        parts.append(f' {json.dumps(name)}: {{\n  "crash_points": {points},\n  "lines": [\n{lines}\n  ]\n }}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


def deviations(golden: Golden, now: Recorder, renames: Mapping[str, str]) -> list[str]:
    """How a story differs from its golden, a sentence each: `differences` of its lines, and acts in which a
    process can be killed at fewer points."""
    found = differences(golden["lines"], now.lines, renames)
    for act, points in golden["crash_points"].items():
        gone = set(points) - set(now.crash_points.get(renamed(act, renames), ()))
        found += [f"{act} does not reach {names(sorted(gone))}"] if gone else []
    return found


def renamed(words: str, renames: Mapping[str, str]) -> str:
    """An old line, or the name of a crash point, in the new words."""
    return " ".join(renames.get(word, word) for word in words.split(" "))


def differences(kept: list[Line], now: list[Line], renames: Mapping[str, str]) -> list[str]:
    """How lines differ from the kept ones, a sentence each: none, when the same was done in the same order,
    by at least the same reads, with the same verdicts of at least the same rules. ``renames`` maps old words
    of a line and old rule ids to new ones."""
    found = []
    wanted = [_renamed(line, renames) for line in kept]
    for number, (old, new) in enumerate(zip(wanted, now, strict=False), 1):
        if old["do"] != new["do"]:
            found.append(f"line {number}: was {old['do']!r}, is {new['do']!r}")
            break
        gone = sorted(set(old["reads"]) - set(new["reads"]))
        if gone:
            found.append(f"line {number}, {old['do']}: is decided without reading {names(gone)}")
        rules, answers = old.get("rules", {}), new.get("rules", {})
        found += [
            f"line {number}, {old['do']}: rule {rule} said {verdict}, says {answers.get(rule, 'nothing')}"
            for rule, verdict in rules.items()
            if answers.get(rule) != verdict
        ]
    if len(wanted) != len(now) and not found:
        more = wanted[len(now) :] or now[len(wanted) :]
        counts = f"{len(wanted)} lines were kept, {len(now)} are there"
        found.append(f"{counts}; the first beyond: {more[0]['do']!r}")
    return found


def _renamed(line: Line, renames: Mapping[str, str]) -> Line:
    done = {**line, "do": renamed(line["do"], renames)}
    done["reads"] = [renames.get(each, each) for each in line["reads"]]
    if "rules" in line:
        done["rules"] = {renames.get(rule, rule): verdict for rule, verdict in line["rules"].items()}
    return done
