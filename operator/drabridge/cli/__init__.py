"""The command line, a module a verb."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from drabridge.cli import capacity, convert, doctor, drain, explain, operator, select, simulate
from drabridge.core.errors import DrabridgeError

app = typer.Typer(
    name="drabridge",
    help="Unmodified Pods that ask for extended resources, served by Dynamic Resource Allocation.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"drabridge {version('drabridge')}")
        raise typer.Exit


@app.callback()
def drabridge(
    *,
    show_version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Take the options that stand before a verb."""


app.command("operator", help=operator.HELP)(operator.operator)
app.command("capacity", help=capacity.HELP)(capacity.capacity)
app.command("convert", help=convert.HELP)(convert.convert)
app.command("doctor", help=doctor.HELP)(doctor.doctor)
app.command("drain", help=drain.HELP)(drain.drain)
app.command("explain", help=explain.HELP)(explain.explain)
app.command("select", help=select.HELP)(select.select)
app.command("simulate", help=simulate.HELP)(simulate.simulate)


def main() -> None:
    """The console script: errors of ours are one line and exit code 1, everything else is a bug with its traceback."""
    console = Console(stderr=True, soft_wrap=True)
    failed = False
    try:
        app(prog_name="kubectl drabridge" if Path(sys.argv[0]).name == "kubectl-drabridge" else "drabridge")
    except* DrabridgeError as group:  # the parts of the operator run in groups of tasks
        failed = True
        for error in _leaves(group):
            console.print(f"drabridge: {error}", markup=False, highlight=False)
    if failed:  # an exit out of the clause above would become a group itself
        sys.exit(1)


def _leaves(group: BaseExceptionGroup[DrabridgeError]) -> Iterator[DrabridgeError]:
    for each in group.exceptions:
        if isinstance(each, BaseExceptionGroup):
            yield from _leaves(each)
        else:
            yield each
