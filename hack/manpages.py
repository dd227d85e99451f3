"""The pages of docs/cli, one a verb, in the order of a man page, made of what `--help` shows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from typer.main import get_command

from drabridge.cli import app

_MAN = ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT CODES", "EXAMPLES", "ENVIRONMENT", "SEE ALSO")
"""The sections, in this order; those without anything in them are left out."""

COMPLETION = """\
`drabridge` on PATH is `kubectl drabridge` as well. Shell completion: `drabridge --install-completion`; behind `kubectl`
the words are completed by kubectl's own (`kubectl completion --help`).
"""


def pages(note: str) -> Mapping[str, Callable[[], str]]:
    """Name in docs/ -> what makes the page."""
    for name in ("KUBECONFIG", "POD_NAME", "POD_NAMESPACE"):
        os.environ.pop(name, None)  # defaults of options are those of nobody's environment
    commands = _commands()

    def index() -> str:
        rows = [f"| [{verb}]({verb}.md) | {_first(command)} |\n" for verb, command in commands.items()]
        return f"{note}\n# Command line\n{COMPLETION}\n| verb | |\n| --- | --- |\n{''.join(rows)}"

    def of(verb: str) -> Callable[[], str]:
        return lambda: _page(note, verb, commands[verb])

    return {"cli/README.md": index, **{f"cli/{verb}.md": of(verb) for verb in commands}}


def _commands() -> dict[str, Any]:
    group: Any = get_command(app)
    return dict(group.commands)


def _first(command: Any) -> str:
    return " ".join(_paragraphs(command)[0].split())


def _paragraphs(command: Any) -> list[str]:
    text: str = command.help
    return [each.strip("\n") for each in text.replace("\b\n", "").split("\n\n") if each.strip()]


def _page(note: str, verb: str, command: Any) -> str:
    sections = dict.fromkeys(_MAN, "")
    sections["NAME"] = f"drabridge {verb}: {_first(command)}\n"
    arguments = [each.metavar or each.name.upper() for each in command.params if each.param_type_name == "argument"]
    sections["SYNOPSIS"] = f"`{' '.join(['drabridge', verb, '[OPTIONS]', *arguments])}`\n"
    for paragraph in _paragraphs(command)[1:]:
        if paragraph.startswith("Examples:"):
            sections["EXAMPLES"] += f"```\n{paragraph.removeprefix('Examples:').strip(chr(10))}\n```\n"
        elif paragraph.startswith("Exit code"):
            sections["EXIT CODES"] += f"{paragraph}\n"
        else:
            sections["DESCRIPTION"] += f"{paragraph}\n\n"
    options = [each for each in command.params if each.param_type_name == "option"]
    sections["OPTIONS"] = "".join(f"{line}\n" for each in options for line in _option(each))
    sections["ENVIRONMENT"] = "".join(f"- `{each.envvar}`: as `{each.opts[0]}`\n" for each in options if each.envvar)
    sections["SEE ALSO"] = ", ".join(f"[{each}]({each}.md)" for each in _commands() if each != verb) + "\n"
    body = "".join(f"## {name}\n{text.strip(chr(10))}\n\n" for name, text in sections.items() if text)
    return f"{note}\n# drabridge {verb}\n{body.rstrip()}\n"


def _option(option: Any) -> Iterator[str]:
    names = ", ".join(f"`{each}`" for each in (*option.opts, *option.secondary_opts))
    value = "" if option.is_flag else f" `{option.metavar or option.name.upper()}`"
    default = option.default
    shown = "" if option.is_flag or default in (None, "", ()) else f" Default: {getattr(default, 'value', default)}."
    yield f"- {names}{value}: {' '.join((option.help or '').split())}{shown}"
