"""Options that several verbs have."""

from pathlib import Path
from typing import Annotated

import typer

Filenames = Annotated[
    list[str] | None,
    typer.Option("--filename", "-f", help="A file or directory with objects, or - for standard input."),
]
Kubeconfig = Annotated[Path | None, typer.Option(envvar="KUBECONFIG", help="Default: ~/.kube/config.")]
AllNamespaces = Annotated[bool, typer.Option("--all-namespaces", "-A", help="All namespaces, which is the default.")]
Context = Annotated[str | None, typer.Option("--context", help="Context of the kubeconfig.")]


def check_namespaces(namespace: str | None, *, all_namespaces: bool) -> None:
    """Refuse the two together. Raises BadParameter."""
    if namespace and all_namespaces:
        raise typer.BadParameter("choose one namespace or all", param_hint="--all-namespaces")
