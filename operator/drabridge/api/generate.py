"""Write `crds/` from the models: `python -m drabridge.api.generate [--check]`."""

import argparse
import difflib
import sys
from collections.abc import Sequence
from pathlib import Path

import yaml

from drabridge.api import policy
from drabridge.api.crd import Definition, custom_resource_definition

DEFINITIONS = (policy.DEFINITION,)

_HEADER = (
    "# Generated from operator/drabridge/api by `python -m drabridge.api.generate`: change the models, not this file.\n"
)


class _Dumper(yaml.SafeDumper):
    """Writes a value out wherever it stands: anchors and aliases are hard on those who read the file or its diff."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - the signature is PyYAML's
        return True


def rendered(definition: Definition) -> str:
    """Give the CustomResourceDefinition as the text of its YAML file."""
    body = yaml.dump(
        custom_resource_definition(definition), Dumper=_Dumper, sort_keys=False, width=110, allow_unicode=True
    )
    return _HEADER + body


def stale(directory: Path) -> list[str]:
    """Compare what is in the directory with the models: a unified diff, line by line; empty if nothing is stale."""
    diff: list[str] = []
    for definition in DEFINITIONS:
        path = directory / _file_name(definition)
        found = path.read_text() if path.exists() else ""
        wanted = rendered(definition)
        diff += difflib.unified_diff(
            found.splitlines(keepends=True),
            wanted.splitlines(keepends=True),
            path.name,
            f"{path.name} (from the models)",
        )
    return diff


def main(argv: Sequence[str] | None = None) -> int:
    """Write the files, or with --check print what is stale; gives the exit code."""
    parser = argparse.ArgumentParser(prog="python -m drabridge.api.generate", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; print what is stale and exit with 1")
    parser.add_argument("--directory", type=Path, default=Path("crds"), help="where the files are (default: crds)")
    arguments = parser.parse_args(argv)
    if not arguments.directory.is_dir():
        parser.error(f"{arguments.directory} is not a directory: run this in the root of the repository")
    if arguments.check:
        diff = stale(arguments.directory)
        sys.stdout.writelines(diff)
        return 1 if diff else 0
    for definition in DEFINITIONS:
        (arguments.directory / _file_name(definition)).write_text(rendered(definition))
    return 0


def _file_name(definition: Definition) -> str:
    return f"{definition.group}_{definition.plural}.yaml"


if __name__ == "__main__":
    sys.exit(main())
