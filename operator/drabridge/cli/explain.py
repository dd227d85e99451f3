"""`drabridge explain`: one page about a Pod, a claim, a resource name or a DeviceClass."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from enum import StrEnum
from typing import Annotated, Any, Final, TypeVar

import typer
from rich.console import Console
from rich.text import Text

from drabridge.cli import terminal
from drabridge.cli.gathering import Gathered, gather
from drabridge.cli.options import Context, Filenames, Kubeconfig
from drabridge.core.errors import DrabridgeError, InvalidInput, quoted
from drabridge.core.explanation.claims import explain_claim
from drabridge.core.explanation.classes import explain_class
from drabridge.core.explanation.names import explain_name
from drabridge.core.explanation.page import Page
from drabridge.core.explanation.pods import explain_pod
from drabridge.core.fitting import BODIES
from drabridge.core.inventory.cluster import Inventory, Kind, Odd

HELP = """Explain one object: what it asks, who serves it, what it got.

TARGET is pod/NAME, claim/NAME, deviceclass/NAME, or a resource name such as
example.com/gpu. If something holds it up, the first such thing is shown with
what was seen and what cures it; for a Pod whose claims fit on no node, the
reasons of all nodes, in groups. What doctor finds about it stands below.

\b
Examples:
  Why is my Pod pending, which devices did it get:
    drabridge explain pod/training-0 -n research
  Who serves a name, and why not natively:
    drabridge explain example.com/gpu
  The same for a dump of a cluster:
    drabridge explain pod/training-0 -n research -f dump.json
  For a program:
    drabridge explain claim/training-0-gpu -n research -o json

Exit code 0: nothing holds it up. 1: something does, or nobody can tell since it
was not seen. 2: it could not be done.
"""

FINE: Final = 0
HELD_UP: Final = 1
UNDONE: Final = 2

_KINDS: Final = {
    **dict.fromkeys(("pod", "pods", "po"), "pod"),
    **dict.fromkeys(("claim", "claims", "resourceclaim", "resourceclaims"), "claim"),
    **dict.fromkeys(("deviceclass", "deviceclasses", "class"), "deviceclass"),
}

NEEDED: Final = (
    Kind.PODS,
    Kind.CLAIMS,
    Kind.TEMPLATES,
    Kind.CLASSES,
    Kind.SLICES,
    Kind.NODES,
    Kind.POLICIES,
    Kind.NAMESPACES,
    Kind.QUOTAS,
    Kind.LIMIT_RANGES,
)
"""What the answer itself goes by; the rest is for what doctor finds."""

T = TypeVar("T")


class Output(StrEnum):
    """How it is written."""

    TEXT = "text"
    JSON = "json"


def explain(
    target: Annotated[str, typer.Argument(metavar="TARGET", help="What to explain.")],
    filename: Filenames = None,
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="Default: default, or the only one with such an object.")
    ] = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    output: Annotated[Output, typer.Option("--output", "-o", metavar="FORMAT", help="text or json.")] = Output.TEXT,
) -> None:
    """Explain it."""
    try:
        kind, name = _parsed(target)
        about = name if kind == "pod" else ""
        gathered = gather(filename, kubeconfig, context, keep=BODIES, events_of=about)
        _complain(gathered)
        page = _page(kind, name, namespace, gathered.cluster)
    except DrabridgeError as error:
        terminal.complain([terminal.in_words(error)])
        raise typer.Exit(UNDONE) from None
    if output is Output.JSON:
        sys.stdout.write(json.dumps(_as_json(page), indent=2) + "\n")
    else:
        _show(page)
    raise typer.Exit(HELD_UP if page.held_up else FINE)


def _parsed(target: str) -> tuple[str, str]:
    """(kind, name); the kind of a resource name is "name". Raises InvalidInput."""
    kind, slash, name = target.partition("/")
    if slash and name and kind.lower() in _KINDS:
        return _KINDS[kind.lower()], name
    if slash and name and "." in kind:
        return "name", target
    cure = "write pod/NAME, claim/NAME, deviceclass/NAME, or a resource name such as example.com/gpu"
    raise InvalidInput(f"target {quoted(target)}", "", "is nothing that can be explained", cure)


def _page(kind: str, name: str, namespace: str | None, cluster: Inventory) -> Page:
    if kind == "pod":
        return explain_pod(_the_one(Kind.PODS, name, namespace, cluster.pods_by_key, cluster.odd), cluster)
    if kind == "claim":
        return explain_claim(_the_one(Kind.CLAIMS, name, namespace, cluster.claims_by_key, cluster.odd), cluster)
    if kind == "name":
        return explain_name(name, cluster)
    if name not in cluster.classes_by_name:
        raise _missing(f"DeviceClass {name}", cluster.classes_by_name, cluster.odd)
    return explain_class(cluster.classes_by_name[name], cluster)


def _the_one(kind: Kind, name: str, namespace: str | None, known: Mapping[str, T], odd: Iterable[Odd]) -> T:
    """The object of that name. Raises InvalidInput where there is none, or the namespace is in doubt."""
    key = f"{namespace or 'default'}/{name}"
    if key in known:
        return known[key]
    elsewhere = sorted(each for each in known if each.endswith(f"/{name}"))
    if namespace is None and len(elsewhere) == 1:
        return known[elsewhere[0]]
    for each in odd if namespace is None else ():
        if each.object.startswith(f"{kind} ") and each.object.endswith(f"/{name}"):
            raise _missing(each.object, known, odd)
    raise _missing(f"{kind} {key}", elsewhere or known, odd)


def _missing(described: str, known: Iterable[str], odd: Iterable[Odd]) -> InvalidInput:
    for each in odd:
        if each.object == described:
            return InvalidInput(described, "", f"it is there, but cannot be read: {each.problem}", each.cure)
    some = ", ".join(sorted(known)[:3])
    cure = f"name one that is there (with its namespace: -n), such as {some}" if some else "there is none at all"
    return InvalidInput(described, "", "it does not exist", cure)


def _complain(gathered: Gathered) -> None:
    terminal.complain(gathered.unread)
    if unseen := [kind for kind in NEEDED if kind in gathered.cluster.unseen]:
        terminal.complain([f"not seen, so that the answer may lack something: {', '.join(unseen)}"])


def _as_json(page: Page) -> dict[str, Any]:
    return {
        "object": page.title,
        "conclusion": page.conclusion,
        "heldUp": asdict(page.held_up) if page.held_up else None,
        "sections": {section.title: list(section.lines) for section in page.sections},
        "findings": [
            {
                "check": check.id,
                "severity": check.severity.value,
                "object": finding.object,
                "evidence": finding.evidence,
                "cure": finding.cure or check.cure,
                "documentation": check.link,
            }
            for check, finding in page.related
        ],
    }


def _show(page: Page) -> None:
    console = Console(highlight=False, markup=False, soft_wrap=True, emoji=False)
    console.print(Text(terminal.one_line(page.title), style="bold"))
    for line in terminal.wrapped(terminal.one_line(page.conclusion)):
        console.print(Text(line, style="red" if page.held_up else ""))
    for title, lines in _blocks(page):
        console.print()
        console.print(Text(title, style="bold"))
        for line in lines:
            console.print(Text(line))


def _blocks(page: Page) -> Iterator[tuple[str, list[str]]]:
    if held_up := page.held_up:
        lines = _indented(f"{held_up.reason}: {held_up.evidence}")
        for detail in held_up.details:
            lines += _indented(f"- {detail}")
        for cure in held_up.cures:
            lines += _indented(f"cure: {cure}")
        yield "Held up by", lines
    for section in page.sections:
        if section.lines:
            yield section.title, [line for each in section.lines for line in _indented(each)]
    if page.related:
        lines = []
        for check, finding in page.related:
            lines += _indented(f"{check.severity} {check.id}: {finding.object}: {finding.evidence}")
        yield "Doctor finds", lines


def _indented(text: str) -> list[str]:
    return terminal.indented(terminal.one_line(text), terminal.width(), "  ", "    ")
