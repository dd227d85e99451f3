"""How `drabridge select` shows what became of devices, in each of its formats."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import typer
import yaml

from drabridge.cli import terminal
from drabridge.core.cel.explain import Explanation, Failure, Part, Round, Rounds, State
from drabridge.core.cel.selector import Match
from drabridge.core.errors import InvalidInput
from drabridge.core.resourceslice import PublishedDevice
from drabridge.core.selection import Broken, Failed, Matched, NotMatched, Verdict, runtime_failure, why_not

OWNER: Final = "expression"
"""What stands in front of messages where kube-scheduler names a claim or a class."""


DEEPEST: Final = 40
"""Levels of an explanation that are printed."""


class Output(StrEnum):
    """How the result is printed."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


_RESULTS: Final[Mapping[type[Verdict], tuple[str, str, str]]] = {
    Matched: ("match", "match", "green"),
    NotMatched: ("no match", "noMatch", "yellow"),
    Failed: ("failed", "failed", "red"),
    Broken: ("broken", "broken", "red"),
}
"""What a verdict is called in tables and in JSON, and its colour."""

Judged = Sequence[tuple[PublishedDevice, Verdict]]


def reason(device: PublishedDevice, verdict: Verdict) -> str:
    """Say why a device does not match; "" if it does."""
    match verdict:
        case NotMatched():
            return why_not(verdict.deciding)
        case Failed():
            return runtime_failure(OWNER, 0, device.id, verdict.message)
        case Broken():
            return "; also ".join(map(str, verdict.faults))
        case _:
            return ""


def listing(expression: str, judged: Judged, faults: Sequence[InvalidInput], output: Output) -> Iterator[str]:
    """Give the lines that tell what became of all devices."""
    match output:
        case Output.NAME:
            yield from (
                terminal.printable(str(device.id)) for device, verdict in judged if isinstance(verdict, Matched)
            )
        case Output.TABLE | Output.WIDE:
            yield from _table(judged, wide=output is Output.WIDE)
        case _:
            counts = Counter(_RESULTS[verdict.__class__][1] for _, verdict in judged)
            yield from _structured(
                {
                    "expression": expression,
                    "counts": {name: counts[name] for _, name, _ in _RESULTS.values()},
                    "devices": [_device(device, verdict) for device, verdict in judged],
                    "faults": [_fault(fault) for fault in faults],
                },
                output,
            )


def summary(judged: Judged) -> str:
    """Count the verdicts."""
    counts = Counter(verdict.__class__ for _, verdict in judged)
    parts = [f"{counts[kind]} {name}" for kind, (name, _, _) in _RESULTS.items() if counts[kind]]
    return f"{len(judged)} devices: {', '.join(parts)}" if parts else "no devices"


def _table(judged: Judged, *, wide: bool) -> Iterator[str]:
    if not judged:
        return
    headers = ("RESULT", "DEVICE", *(("NODE", "COST", "SLICE") if wide else ()), "REASON")
    rows = []
    for device, verdict in judged:
        more = (device.node, _cost(verdict), device.slice) if wide else ()
        rows.append((_RESULTS[verdict.__class__][0], str(device.id), *more, terminal.one_line(reason(device, verdict))))
    lines = terminal.table(headers, rows, terminal.width())
    colours = {name: colour for name, _, colour in _RESULTS.values()} if _coloured() else {}
    for line in lines:
        name = next((name for name in colours if line.startswith(f"{name}  ")), None)
        yield line if name is None else typer.style(name, fg=colours[name]) + line[len(name) :]


def _coloured() -> bool:
    return sys.stdout.isatty()


def _cost(verdict: Verdict) -> str:
    cost = None if isinstance(verdict, Broken) else verdict.cost
    return "" if cost is None else str(cost)


def _device(device: PublishedDevice, verdict: Verdict) -> dict[str, Any]:
    told: dict[str, Any] = {
        "driver": device.id.driver,
        "pool": device.id.pool,
        "device": device.id.device,
        "node": device.node,
        "slice": device.slice,
        "source": device.source,
        "result": _RESULTS[verdict.__class__][1],
    }
    if isinstance(verdict, Broken):
        told["faults"] = [_fault(fault) for fault in verdict.faults]
        return told
    if text := reason(device, verdict):
        told["reason"] = text
    if verdict.cost is not None:
        told["cost"] = verdict.cost
    return told


def _fault(fault: InvalidInput) -> dict[str, str]:
    return {"object": fault.object, "path": fault.path, "problem": fault.problem, "cure": fault.cure}


def _structured(body: Any, output: Output) -> Iterator[str]:
    if output is Output.YAML:
        yield yaml.safe_dump(body, sort_keys=False, allow_unicode=True).rstrip("\n")
    else:
        yield json.dumps(body, indent=2)


# Explanations

Explained = Explanation | Failed | Broken


def explanation_code(explained: Explained) -> int:
    """Give the exit code: 0 for a match, 1 for none, 2 for a failure."""
    if isinstance(explained, Explanation) and isinstance(explained.outcome, Match):
        return 0 if explained.outcome.matched else 1
    return 2


def explanation(device: PublishedDevice, explained: Explained, output: Output) -> Iterator[str]:
    """Give the lines that tell why a device matches or not."""
    if output in (Output.JSON, Output.YAML):
        yield from _structured(_explained(device, explained), output)
        return
    if not isinstance(explained, Explanation):
        said = f"{device.id}: {_RESULTS[explained.__class__][0]}: {reason(device, explained)}"
        yield from terminal.wrapped(terminal.printable(said))
        return
    yield from terminal.wrapped(terminal.printable(f"{device.id}: {_outcome(device, explained)}"))
    yield ""
    yield from _Tree(terminal.width(), output is Output.WIDE).part(explained.root)
    if not explained.whole:
        yield "(The expression is nested too deeply to be told in parts.)"


def _outcome(device: PublishedDevice, explained: Explanation) -> str:
    match explained.outcome:
        case Match(matched, cost):
            return f"{'match' if matched else 'no match'}, cost {cost}"
        case Failure(message, cost):
            return f"failed, cost {cost}: {runtime_failure(OWNER, 0, device.id, message)}"


_SIGNS: Final = {
    State.TRUE: "true ",
    State.FALSE: "false",
    State.VALUE: "     ",
    State.FAILED: "error",
    State.NOT_EVALUATED: "-    ",
}


@dataclass(frozen=True, slots=True)
class _Tree:
    """Draws an explanation. `branch` stands before a line, `below` before those of what is below it."""

    columns: int | None
    costs: bool

    def part(self, part: Part, branch: str = "", below: str = "", depth: int = 0) -> Iterator[str]:
        """Give the lines of a part and of all in it."""
        text = terminal.one_line(part.text)
        yield _fitted(f"{_SIGNS[part.state]} {branch}", text, self._suffix(part), self.columns)
        if depth == DEEPEST:
            if part.parts or part.rounds:
                yield f"      {below}└─ …"
            return
        inside = len(part.parts) + (part.rounds is not None)
        for position, each in enumerate(part.parts, 1):
            yield from self.part(each, *_branches(below, last=position == inside), depth + 1)
        if part.rounds is not None:
            yield from self._rounds(part.rounds, *_branches(below, last=True), depth + 1)

    def _suffix(self, part: Part) -> str:
        cost = f"  [cost {part.cost}]" if self.costs and part.cost else ""
        match part.state:
            case State.VALUE:
                return f" = {terminal.one_line(part.shown)}{cost}"
            case State.FAILED:
                return f": {terminal.one_line(part.shown)}{cost}"
            case State.NOT_EVALUATED:
                return "  (not evaluated)"
            case _:
                return cost

    def _rounds(self, rounds: Rounds, branch: str, below: str, depth: int) -> Iterator[str]:
        yield _fitted(f"      {branch}", _counted(rounds), "", self.columns)
        for position, each in enumerate(rounds.shown, 1):
            inner, under = _branches(below, last=position == len(rounds.shown))
            names = ", ".join(f"{name} = {value}" for name, value in each.variables)
            yield _fitted(f"      {inner}", f"#{each.position}: {names}", "", self.columns)
            for number, part in enumerate(each.parts, 1):
                yield from self.part(part, *_branches(under, last=number == len(each.parts)), depth + 1)


def _branches(below: str, *, last: bool) -> tuple[str, str]:
    return (f"{below}└─ ", f"{below}   ") if last else (f"{below}├─ ", f"{below}│  ")


def _counted(rounds: Rounds) -> str:
    count = f"{rounds.count} element{'s' if rounds.count > 1 else ''} looked at"
    if rounds.decided:
        return f"{count}; this one decided:"
    if rounds.count == len(rounds.shown):
        return f"{count}:"
    return f"{count}; the last one:" if rounds.shown[0].position else f"{count}; the first {len(rounds.shown)}:"


_LEAST_TEXT: Final = 20


def _fitted(head: str, text: str, suffix: str, columns: int | None) -> str:
    """Put a line together; what is too long for the terminal loses its middle."""
    if columns is None or len(head) + len(text) + len(suffix) <= columns:
        return f"{head}{text}{suffix}".rstrip()
    room = max(columns - len(head), _LEAST_TEXT)
    suffix = terminal.shortened(suffix, max(room - len(text), room // 2))
    return f"{head}{terminal.shortened(text, room - len(suffix))}{suffix}".rstrip()


def _explained(device: PublishedDevice, explained: Explained) -> dict[str, Any]:
    if not isinstance(explained, Explanation):
        return _device(device, explained)
    told: dict[str, Any] = {
        "driver": device.id.driver,
        "pool": device.id.pool,
        "device": device.id.device,
        "node": device.node,
        "slice": device.slice,
        "source": device.source,
        "expression": explained.expression,
    }
    match explained.outcome:
        case Match(matched, _):
            told["result"] = _RESULTS[Matched if matched else NotMatched][1]
        case Failure(message, _):
            told["result"] = _RESULTS[Failed][1]
            told["reason"] = runtime_failure(OWNER, 0, device.id, message)
    return {**told, "cost": explained.outcome.cost, "whole": explained.whole, "explanation": _part(explained.root)}


def _part(part: Part, depth: int = 0) -> dict[str, Any]:
    told: dict[str, Any] = {"start": part.start, "end": part.end, "text": part.text, "state": part.state.value}
    if part.shown:
        told["error" if part.state is State.FAILED else "value"] = part.shown
    if part.state is not State.NOT_EVALUATED:
        told["cost"] = part.cost
    if depth == DEEPEST:
        return told
    if part.parts:
        told["parts"] = [_part(each, depth + 1) for each in part.parts]
    if part.rounds is not None:
        rounds = part.rounds
        shown = [_round(each, depth + 1) for each in rounds.shown]
        told["rounds"] = {"count": rounds.count, "decided": rounds.decided, "shown": shown}
    return told


def _round(each: Round, depth: int) -> dict[str, Any]:
    return {
        "position": each.position,
        "variables": dict(each.variables),
        "parts": [_part(part, depth) for part in each.parts],
    }
