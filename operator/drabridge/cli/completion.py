"""`kubectl_complete-drabridge`: what kubectl runs to complete the words behind `kubectl drabridge`."""

from __future__ import annotations

import io
import os
import shlex
import sys
from contextlib import redirect_stdout, suppress
from typing import Final

from drabridge.cli import app

_OTHER_FILES: Final = ":0"
_NO_FILES: Final = ":4"
"""What the last line tells kubectl (cobra's ShellCompDirective): whether the shell is to offer files."""


def main() -> None:
    """Print a completion a line, as bash gets them of `drabridge`, and whether files are meant, of which we know none.

    The arguments are the words so far; the last one, which may be empty, is to be completed.
    """
    given, last = sys.argv[1:-1], "".join(sys.argv[1:][-1:])
    words = ["drabridge", *given, *([last] if last else [])]
    os.environ["COMP_WORDS"] = shlex.join(words)
    os.environ["COMP_CWORD"] = str(len(given) + 1)
    os.environ["_DRABRIDGE_COMPLETE"] = "complete_bash"
    with redirect_stdout(io.StringIO()) as said, suppress(SystemExit):
        app(prog_name="drabridge")
    found = said.getvalue().split()
    for each in found:
        sys.stdout.write(f"{each}\n")
    sys.stdout.write(f"{_NO_FILES if found else _OTHER_FILES}\n")
