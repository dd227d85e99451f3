"""Options that several verbs have."""

from pathlib import Path
from typing import Annotated

import typer

Filenames = Annotated[
    list[str] | None,
    typer.Option("--filename", "-f", help="A file or directory with objects, or - for standard input."),
]
Kubeconfig = Annotated[Path | None, typer.Option(envvar="KUBECONFIG", help="Default: ~/.kube/config.")]
Context = Annotated[str | None, typer.Option("--context", help="Context of the kubeconfig.")]
