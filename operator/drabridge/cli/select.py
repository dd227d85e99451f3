"""`drabridge select`: which devices a CEL selector selects, and why the others not."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.progress import Progress

from drabridge.cli import answers, jsonlines, sources, terminal, verdicts
from drabridge.cli.options import Context, Kubeconfig
from drabridge.cli.terminal import printable
from drabridge.cli.verdicts import Output
from drabridge.core import resourceslice, selection
from drabridge.core.cel.explain import instrument
from drabridge.core.cel.selector import CompileError, Selector, compile_selector
from drabridge.core.errors import DrabridgeError, InvalidInput
from drabridge.core.resourceslice import PublishedDevice, ReadSlice
from drabridge.core.selection import Verdict
from drabridge.kube.resources import RESOURCE_SLICES, Resource

HELP = """Say which devices a CEL selector selects, which not, and on which it fails, with the reason.

EXPRESSION is what a DeviceClass or a request has in
selectors[].cel.expression. It is evaluated as kube-scheduler does it, on
the devices of ResourceSlices: the cluster's, or those of the files of -f.

Exit code 0: some device matches. 1: none does. 2: something failed. The
expression or an object is broken, the cluster does not answer, or the
expression fails on a device, which would fail a claim's allocation.

With --jsonl each line of the input is a JSON object {"name", "expression",
"driver", "device"} and is answered by a line: "match", or "error" and
"stage" (compile, runtime, input), and "cost". Exit code 2 if a line was no
such object, had another field, or one twice, else 0.

\b
Examples:
  On the devices of the cluster:
    drabridge select "device.driver == 'gpu.example.com'"
  On those of files, directories or standard input:
    kubectl get resourceslices -o yaml | drabridge select EXPRESSION -f -
  Why a device matches or not, part by part:
    drabridge select EXPRESSION -f slices.yaml --explain node-1/gpu-0
  The names of those that match, for a script:
    drabridge select EXPRESSION -o name
"""

MATCHED: Final = 0
NONE_MATCHED: Final = 1
BAD_INPUT: Final = 2

_MOST_FAULTS: Final = 20
"""Faults that are printed; the rest is counted."""

_MANY: Final = 1000
"""Devices from which on a bar shows how far it is."""

_SERVED: Final = tuple(
    Resource(resourceslice.GROUP, version, RESOURCE_SLICES.plural, RESOURCE_SLICES.kind, namespaced=False)
    for version in resourceslice.VERSIONS
)


@dataclass(frozen=True, slots=True)
class Gathered:
    """The devices to look at, and what could not be read."""

    devices: list[PublishedDevice]
    faults: list[InvalidInput]


def select(  # noqa: PLR0913, PLR0917 - an option each; typer passes them by keyword
    context: typer.Context,
    expression: Annotated[str | None, typer.Argument(metavar="EXPRESSION", help="The selector.")] = None,
    filename: Annotated[
        list[str] | None,
        typer.Option("--filename", "-f", help="A file or directory with ResourceSlices, or - for standard input."),
    ] = None,
    kubeconfig: Kubeconfig = None,
    context_name: Context = None,
    explain: Annotated[
        str | None,
        typer.Option(
            metavar="DEVICE", help="Explain one device: driver/pool/device, pool/device or device; -o wide adds costs."
        ),
    ] = None,
    output: Annotated[
        Output, typer.Option("--output", "-o", metavar="FORMAT", help="table, wide, json, yaml or name.")
    ] = Output.TABLE,
    jsonl: Annotated[bool, typer.Option("--jsonl", help="Answer one JSON object a line.")] = False,
) -> None:
    """Select, explain, or answer lines."""
    _check_options(context, expression, explain, output, jsonl=jsonl)
    if jsonl:
        raise typer.Exit(jsonlines.run(filename or [sources.STDIN], sys.stdout, answers.answer))
    try:
        selector = compile_selector(expression or "")
        gathered = _gather(filename, kubeconfig, context_name)
        code = _select(selector, gathered, explain, output)
    except CompileError as error:
        _complain([selection.compile_failure(verdicts.OWNER, 0, str(error))])
        code = BAD_INPUT
    except DrabridgeError as error:
        _complain([terminal.in_words(error)])
        code = BAD_INPUT
    raise typer.Exit(code)


def _check_options(
    context: typer.Context, expression: str | None, explain: str | None, output: Output, *, jsonl: bool
) -> None:
    """Refuse options that contradict each other."""

    def given(name: str) -> bool:
        source = context.get_parameter_source(name)
        return source is not None and source.name == "COMMANDLINE"

    if jsonl and (expression is not None or explain is not None or given("output")):
        raise typer.BadParameter(
            "each line has its own EXPRESSION; --explain and -o do not apply", param_hint="--jsonl"
        )
    if not jsonl and expression is None:
        raise typer.BadParameter(
            "say what to select, as in \"device.driver == 'gpu.example.com'\"", param_hint="EXPRESSION"
        )
    if given("filename") or jsonl:
        for name, option in (("kubeconfig", "--kubeconfig"), ("context_name", "--context")):
            if given(name):
                raise typer.BadParameter("choose files or a cluster, not both", param_hint=option)
    if explain is not None and output is Output.NAME:
        raise typer.BadParameter("an explanation is no name: use -o table, json or yaml", param_hint="--explain")


# Gather


def _gather(paths: list[str] | None, kubeconfig: Path | None, context: str | None) -> Gathered:
    found: Iterable[sources.Found]
    if paths:
        with _bar("reading", sources.characters(paths), worth=1_000_000) as advance:
            found = list(sources.read(paths, advance))
    else:
        found = asyncio.run(sources.list_cluster(_SERVED, kubeconfig, context))
    slices, faults = _slices(found, from_files=bool(paths))
    devices, again = selection.without_duplicates(resourceslice.newest(slices))
    return Gathered(devices, faults + again)


def _slices(found: Iterable[sources.Found], *, from_files: bool) -> tuple[list[ReadSlice], list[InvalidInput]]:
    slices: list[ReadSlice] = []
    faults: list[InvalidInput] = []
    read: dict[str, str] = {}
    others: set[str] = set()
    for each in found:
        if isinstance(each, InvalidInput):
            faults.append(each)
        elif each.kind != resourceslice.KIND:
            others.add(each.kind or "objects without a kind")
        elif each.name in read:
            problem = f"this slice was read before, from {read[each.name]}"
            cure = "name each file once, and give each slice a name of its own"
            faults.append(InvalidInput(str(each), "metadata.name", problem, cure))
        else:
            if each.name != "?":
                read[each.name] = str(each.origin)
            try:
                slices.append(resourceslice.read_slice(each.body, str(each), strict=from_files))
            except InvalidInput as error:
                faults.append(error)
            else:
                faults += slices[-1].faults
    if from_files and not slices and not faults:
        what = f"only {', '.join(sorted(others))}" if others else "nothing"
        cure = "`kubectl get resourceslices -o yaml` writes some"
        faults.append(InvalidInput("the input", "", f"there is {what} in it, and no {resourceslice.KIND}", cure))
    return slices, faults


@contextmanager
def _bar(what: str, total: int, *, worth: int) -> Iterator[sources.Progress]:
    """Show on a terminal how far it is, if there is enough to do for that."""
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=total < worth or not console.is_terminal) as progress:
        task = progress.add_task(what, total=total)
        yield lambda step: progress.advance(task, step)


# Decide and print


def _select(selector: Selector, gathered: Gathered, explain: str | None, output: Output) -> int:
    _complain(map(str, gathered.faults))
    instrumented = instrument(selector)
    if explain is not None:
        device = _the_one(explain, gathered.devices)
        explained = selection.explained(instrumented, device)
        terminal.show(verdicts.explanation(device, explained, output))
        return verdicts.explanation_code(explained)
    judged: list[tuple[PublishedDevice, Verdict]] = []
    with _bar("selecting", len(gathered.devices), worth=_MANY) as advance:
        for device in gathered.devices:
            judged.append((device, selection.judge(instrumented, device)))
            advance(1)
    terminal.show(verdicts.listing(selector.expression, judged, gathered.faults, output))
    if output is not Output.JSON and output is not Output.YAML:
        _say(verdicts.summary(judged))
    return _code(judged, gathered.faults)


def _code(judged: list[tuple[PublishedDevice, Verdict]], faults: list[InvalidInput]) -> int:
    kinds = {verdict.__class__ for _, verdict in judged}
    if faults or selection.Failed in kinds or selection.Broken in kinds:
        return BAD_INPUT
    return MATCHED if selection.Matched in kinds else NONE_MATCHED


def _the_one(wanted: str, devices: list[PublishedDevice]) -> PublishedDevice:
    """Find the device to be explained. Raises InvalidInput if there is none, or more than one."""
    found = selection.resolve(wanted, devices)
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(str(each.id) for each in found[:5])
        more = f" and {len(found) - 5} more" if len(found) > 5 else ""
        cure = "write more of it, from the end: pool/device or driver/pool/device"
        raise InvalidInput(f"--explain {wanted}", "", f"may be {names}{more}", cure)
    known = ", ".join(str(each.id) for each in devices[:3])
    cure = f"name one of {len(devices)}, such as {known}" if known else "name files or a cluster with devices"
    raise InvalidInput(f"--explain {wanted}", "", "there is no such device", cure)


def _complain(messages: Iterable[str]) -> None:
    """Print messages of what is wrong, each line of which is made harmless for a terminal."""
    shown = list(messages)
    for message in shown[:_MOST_FAULTS]:
        for number, line in enumerate(message.split("\n")):
            _say(line if number else f"drabridge: {line}")
    if len(shown) > _MOST_FAULTS:
        _say(f"drabridge: … and {len(shown) - _MOST_FAULTS} more faults")


def _say(line: str) -> None:
    sys.stderr.write(f"{printable(line)}\n")
