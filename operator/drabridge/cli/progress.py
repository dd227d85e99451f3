"""How far a long piece of work is, on a terminal; nothing at all when it is not one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress


@contextmanager
def bar(what: str, total: int, *, worth: int) -> Iterator[Callable[[int], None]]:
    """Show how much of `total` is done, if that is `worth` it. Gives a function to be told what was done since."""
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=total < worth or not console.is_terminal) as progress:
        task = progress.add_task(what, total=total)
        yield lambda step: progress.advance(task, step)


@contextmanager
def ticker() -> Iterator[Callable[[str], None]]:
    """Show a line that changes, while nobody knows how much there is to do. Gives a function to be told the line."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status("") as status:
        yield status.update
