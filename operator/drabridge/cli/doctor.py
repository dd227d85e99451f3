"""`drabridge doctor`: what is wrong with a cluster, as far as devices go."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.text import Text

from drabridge.cli import terminal
from drabridge.cli.gathering import NOT_IN_FILES, Gathered, gather
from drabridge.cli.options import AllNamespaces, Context, Filenames, Kubeconfig, check_namespaces
from drabridge.core.cluster import Gate
from drabridge.core.doctor.findings import Check, Finding, Severity, counted
from drabridge.core.doctor.registry import THEMES, Diagnosis, chosen, diagnose
from drabridge.core.errors import DrabridgeError
from drabridge.core.inventory.cluster import Kind

HELP = """Examine a cluster: what keeps Pods from their devices, or will.

Each finding says what was seen, what cures it, and where to read more.
docs/doctor.md describes all checks. Nothing is changed; one dry run asks the
API server for its feature gate. What may not be listed is left out, and
named.

Exit code 0: nothing, or only information. 1: warnings. 3: errors. 2: it
could not be done, or part of the input is broken and nothing graver was
found.

\b
Examples:
  The cluster of the kubeconfig:
    drabridge doctor
  Some themes or checks only, or all but some:
    drabridge doctor --only claims,quota --skip claim-idle
  A dump of a cluster; what is not in it is not judged:
    kubectl get nodes,pods,resourceclaims,resourceslices,deviceclasses \\
      -A -o json > dump.json
    drabridge doctor -f dump.json
  All findings, for a program:
    drabridge doctor -o json | jq '.findings[] | select(.severity=="error")'
  What there is to check:
    drabridge doctor --list
"""

HEALTHY: Final = 0
WARNED: Final = 1
UNDONE: Final = 2
ILL: Final = 3

_CODES: Final = {None: HEALTHY, Severity.INFO: HEALTHY, Severity.WARNING: WARNED, Severity.ERROR: ILL}
_STYLES: Final = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}
_SHOWN: Final = 5
"""Findings of one check that a table shows."""


class Output(StrEnum):
    """How the findings are written."""

    TABLE = "table"
    JSON = "json"


def doctor(  # noqa: PLR0913, PLR0917 - an option each; typer passes them by keyword
    filename: Filenames = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="Leave out what concerns objects of other namespaces.")
    ] = None,
    all_namespaces: AllNamespaces = False,
    only: Annotated[
        list[str] | None, typer.Option(help="Make these checks only; ids or themes, separated by commas.")
    ] = None,
    skip: Annotated[list[str] | None, typer.Option(help="Do not make these; ids or themes.")] = None,
    complete: Annotated[
        bool, typer.Option("--complete", help="The files hold the whole cluster: what is not there does not exist.")
    ] = False,
    listing: Annotated[bool, typer.Option("--list", help="List the checks, and make none.")] = False,
    output: Annotated[Output, typer.Option("--output", "-o", metavar="FORMAT", help="table or json.")] = Output.TABLE,
) -> None:
    """Examine, and say what was found."""
    check_namespaces(namespace, all_namespaces=all_namespaces)
    try:
        checks = chosen(_words(only), _words(skip))
        if listing:
            terminal.show(_listed(checks, output))
            raise typer.Exit(HEALTHY)
        gathered = gather(filename, kubeconfig, context, complete=complete)
    except DrabridgeError as error:
        terminal.complain([terminal.in_words(error)])
        raise typer.Exit(UNDONE) from None
    diagnosis = diagnose(gathered.cluster, checks)
    diagnosis = diagnosis.within(namespace) if namespace else diagnosis
    _complain(gathered.unread)
    if output is Output.JSON:
        terminal.show([json.dumps(_as_json(gathered, diagnosis), indent=2)])
    else:
        _show(gathered, diagnosis)
    code = _CODES[diagnosis.gravest]
    raise typer.Exit(UNDONE if code in (HEALTHY, WARNED) and gathered.faults else code)


def _words(values: Iterable[str] | None) -> list[str]:
    return [word for value in values or () for word in value.replace(" ", "").split(",") if word]


def _listed(checks: Iterable[Check], output: Output) -> Iterator[str]:
    known = list(checks)
    if output is Output.JSON:
        themes = {check.id: theme for theme, members in THEMES.items() for check in members}
        described = [_described(check) | {"theme": themes[check.id], "says": check.says} for check in known]
        yield json.dumps(described, indent=2)
    else:
        rows = [(check.id, check.severity.value, check.says) for check in known]
        yield from terminal.table(("CHECK", "SEVERITY", "FINDS"), rows, terminal.width())


def _described(check: Check) -> dict[str, Any]:
    return {
        "check": check.id,
        "severity": check.severity.value,
        "cure": check.cure,
        "documentation": check.link,
        "serves": check.serves,
    }


def _as_json(gathered: Gathered, diagnosis: Diagnosis) -> dict[str, Any]:
    cluster = gathered.cluster
    return {
        "server": ".".join(map(str, cluster.server)) if cluster.server else None,
        "gate": cluster.gate.value,
        "findings": [
            _described(check) | {"object": each.object, "evidence": each.evidence, "cure": each.cure or check.cure}
            for check, findings in diagnosis.found
            for each in findings
        ],
        "checksMade": diagnosis.made,
        "checksNotMade": [{"check": each.check.id, "unseen": list(each.unseen)} for each in diagnosis.unmade],
        "unseen": dict(cluster.unseen),
        "unreadable": [
            *map(str, gathered.faults),
            *(f"{odd.object}: {odd.problem}; {odd.cure}" for odd in cluster.odd),
        ],
    }


def _show(gathered: Gathered, diagnosis: Diagnosis) -> None:
    console = Console(highlight=False, markup=False, soft_wrap=True, emoji=False)
    for check, findings in diagnosis.found:
        head, *rest = terminal.wrapped(f"{check.severity.upper()} {check.id}: {check.says}")
        style = _STYLES[check.severity]
        word = len(check.severity)
        console.print(Text(head[:word], style=style) + Text(head[word:]))
        for line in rest:
            console.print(Text(line))
        for line in _details(check, findings):
            console.print(Text(line))
        console.print()
    for line in _summary(gathered, diagnosis):
        console.print(Text(line))


def _details(check: Check, findings: tuple[Finding, ...]) -> Iterator[str]:
    for each in findings[:_SHOWN]:
        yield from _indented(f"- {each.object}: {each.evidence}", "  ", "    ")
        if each.cure:
            yield from _indented(f"cure: {each.cure}", "    ", "      ")
    if len(findings) > _SHOWN:
        yield f"  - … and {len(findings) - _SHOWN} more (-o json has all)"
    if not all(each.cure for each in findings):
        yield from _indented(f"cure: {check.cure}", "  ", "    ")
    yield f"  see:  {check.link}"


def _indented(text: str, first: str, others: str) -> list[str]:
    return terminal.indented(terminal.one_line(text), terminal.width(), first, others)


def _summary(gathered: Gathered, diagnosis: Diagnosis) -> Iterator[str]:
    cluster = gathered.cluster
    numbers = dict.fromkeys(Severity, 0)
    for check, findings in diagnosis.found:
        numbers[check.severity] += len(findings)
    parts = [
        counted(numbers[Severity.ERROR], "error"),
        counted(numbers[Severity.WARNING], "warning"),
        f"{numbers[Severity.INFO]} for information",
    ]
    version = f"Kubernetes {'.'.join(map(str, cluster.server))}, " if cluster.server else ""
    gate = "" if cluster.gate is Gate.UNKNOWN else f", gate DRAExtendedResource {cluster.gate.lower()}"
    sizes = f"{counted(len(cluster.nodes), 'node')}, {counted(len(cluster.pods), 'Pod')}"
    yield from terminal.wrapped(f"{', '.join(parts)}, by {counted(diagnosis.made, 'check')}.")
    yield from terminal.wrapped(f"{version}{sizes}, {counted(len(cluster.devices), 'device')}{gate}.")
    if diagnosis.unmade:
        yield from _unmade(gathered, diagnosis)


def _unmade(gathered: Gathered, diagnosis: Diagnosis) -> Iterator[str]:
    unseen = gathered.cluster.unseen
    kinds: list[Kind] = sorted({kind for each in diagnosis.unmade for kind in each.unseen})
    yield from terminal.wrapped(f"{counted(len(diagnosis.unmade), 'check')} could not be made. Not seen:")
    absent = [kind for kind in kinds if unseen[kind] == NOT_IN_FILES]
    if absent:
        hint = "with --complete that means that there are none"
        yield from _indented(f"- {', '.join(absent)}: {NOT_IN_FILES}; {hint}", "  ", "    ")
    for kind in kinds:
        if kind not in absent:
            yield from _indented(f"- {kind}: {unseen[kind]}", "  ", "    ")


def _complain(messages: Sequence[str]) -> None:
    terminal.complain(messages[:_SHOWN])
    if len(messages) > _SHOWN:
        terminal.complain([f"… and {len(messages) - _SHOWN} more that could not be read"])
