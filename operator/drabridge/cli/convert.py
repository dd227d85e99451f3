"""`drabridge convert`: manifests with extended resources -> manifests with claims, and back."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from drabridge.api.policy import ExtendedResourcePolicy
from drabridge.cli.manifests import Manifest, Unread, read, write
from drabridge.cli.options import Context, Kubeconfig
from drabridge.cli.sources import STDIN
from drabridge.cli.terminal import complain, in_words, one_line
from drabridge.cli.unified import unified
from drabridge.cli.yamltree import parse
from drabridge.core.classmap import ClassMap, ClassView
from drabridge.core.convert import emit, file
from drabridge.core.convert.documents import Object
from drabridge.core.convert.file import Converted
from drabridge.core.convert.findings import Finding, Outcome
from drabridge.core.convert.piece import TEMPLATE_KIND, Conversion, Direction
from drabridge.core.convert.serving import Serving
from drabridge.core.convert.shape import Template
from drabridge.core.errors import DrabridgeError, InvalidInput, Missing, Refused
from drabridge.core.names import explicit_name_problems, implicit_class, is_dns_subdomain
from drabridge.core.policy import Delivery, PolicyView, effective
from drabridge.core.reasons import Reason
from drabridge.kube.client import Client
from drabridge.kube.resources import DEVICE_CLASSES, EXTENDED_RESOURCE_POLICIES, Resource

HELP = """Turn extended resources in manifests into claims, or claims back into extended resources.

Shows the changes as a diff; --write makes them, --stdout prints the result.
Only the lines concerned change. Pods are found in every kind that has a
list of containers. What cannot be converted is named with the reason.

PATHS are files, directories (with those below), or - for standard input.
What serves a name is read from DeviceClasses and ExtendedResourcePolicies
among them, from --from, from --from-cluster and from --map, the last of
which goes first. Objects of resource.k8s.io/v1beta1 and v1beta2 become v1.

Exit code 0: done, or nothing to do. 1: with --check, something would
change. 2: a file or document could not be read or written.

\b
Examples:
  See what would change in a directory:
    drabridge convert manifests/ --map example.com/gpu=gpu.example.com
  Change the files, with the mappings of the cluster:
    drabridge convert manifests/ --from-cluster --write
  In a pipe:
    helm template chart | drabridge convert - --from classes.yaml --stdout
  In CI, fail if there is something to convert:
    drabridge convert manifests/ --from classes.yaml --check
  Back again:
    drabridge convert manifests/ --reverse --write
"""

CHANGES: Final = 1
BAD_INPUT: Final = 2

_USEFUL: Final = ("resource.k8s.io", "drabridge.io")
"""What stands in every text that says something about other files."""


class Output(StrEnum):
    """How the report looks."""

    TEXT = "text"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class Options:
    """What is to be done with the results."""

    write: bool
    stdout: bool
    check: bool
    output: Output
    templates: Path | None


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a file; `manifest` is None for one that could not be read."""

    name: str
    manifest: Manifest | None
    text: str
    findings: tuple[Finding, ...]

    @property
    def changed(self) -> bool:
        """Whether the text is another one now."""
        return self.manifest is not None and self.manifest.text != self.text


def convert(  # noqa: PLR0913, PLR0917 - an option each; typer passes them by keyword
    paths: Annotated[list[str] | None, typer.Argument(metavar="PATHS", help="Files, directories, or -.")] = None,
    filename: Annotated[list[str] | None, typer.Option("--filename", "-f", help="The same as PATHS.")] = None,
    mappings: Annotated[
        list[str] | None,
        typer.Option("--map", metavar="NAME=CLASS", help="The DeviceClass that serves a resource name. Repeatable."),
    ] = None,
    sources: Annotated[
        list[str] | None,
        typer.Option("--from", metavar="PATH", help="Files with DeviceClasses and policies. Repeatable."),
    ] = None,
    from_cluster: Annotated[
        bool, typer.Option("--from-cluster", help="Read DeviceClasses and policies of the cluster.")
    ] = False,
    reverse: Annotated[bool, typer.Option("--reverse", help="Turn claims back into extended resources.")] = False,
    write_files: Annotated[bool, typer.Option("--write", help="Change the files.")] = False,
    stdout: Annotated[bool, typer.Option("--stdout", help="Print the converted manifests.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Exit code 1 if something would change.")] = False,
    templates: Annotated[
        Path | None,
        typer.Option(help="Gather the ResourceClaimTemplates there, instead of one with each file that uses it."),
    ] = None,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="Where the Pods of kinds that have no namespace run.")
    ] = "",
    runtime_class: Annotated[
        str,
        typer.Option("--drop-runtime-class", metavar="NAME", help="Remove this runtimeClassName from converted Pods."),
    ] = "",
    output: Annotated[
        Output, typer.Option("--output", "-o", metavar="FORMAT", help="The report: text or json.")
    ] = Output.TEXT,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Gather, convert, and show or write."""
    names = [*(paths or ()), *(filename or ())]
    options = Options(write_files, stdout, check, output, templates)
    _check(names, options)
    chosen = dict(_mapping(each) for each in mappings or ())
    try:
        cluster = asyncio.run(_cluster(kubeconfig, context)) if from_cluster else []
        found = [each for each in read(names) if templates is None or not _same(each.name, templates)]
        serving, keep, faults = _serving(found, [*read(sources or ())], cluster, chosen)
        conversion = Conversion(
            serving=serving,
            parse=parse,
            direction=Direction.REVERSE if reverse else Direction.FORWARD,
            templates=keep,
            collect=templates is not None,
            namespace=namespace,
            runtime_class=runtime_class,
        )
        results = [*faults, *_convert(found, conversion, templates)]
        results = _apply(results, options)
    except DrabridgeError as error:
        complain([in_words(error)])
        raise typer.Exit(BAD_INPUT) from error
    _report(results, options)
    if any(each.outcome is Outcome.BROKEN for result in results for each in result.findings):
        raise typer.Exit(BAD_INPUT)
    if check and any(result.changed for result in results):
        raise typer.Exit(CHANGES)


def _check(names: Sequence[str], options: Options) -> None:
    """Refuse options that contradict each other."""
    if not names:
        raise typer.BadParameter("name files or directories, or - for standard input", param_hint="PATHS")
    if options.write and (options.stdout or options.check):
        raise typer.BadParameter("it cannot be used with --stdout or --check", param_hint="--write")
    if options.write and STDIN in names:
        raise typer.BadParameter("standard input cannot be written to; use --stdout", param_hint="--write")
    if options.stdout and options.output is Output.JSON:
        raise typer.BadParameter("--stdout prints the manifests where the report would be", param_hint="--output")


def _mapping(text: str) -> tuple[str, str]:
    name, equals, device_class = text.partition("=")
    if not equals or (implicit_class(name) is None and (problems := explicit_name_problems(name))):
        why = "it has no =" if not equals else "; ".join(problems)
        raise typer.BadParameter(f"{text!r} is not NAME=CLASS: {why}", param_hint="--map")
    if not is_dns_subdomain(device_class):
        raise typer.BadParameter(f"{device_class!r} is no name of a DeviceClass", param_hint="--map")
    return name, device_class


def _same(name: str, path: Path) -> bool:
    return name != "standard input" and Path(name).resolve() == path.resolve()


# --- gather


async def _cluster(kubeconfig: Path | None, context: str | None) -> list[Object]:
    """Read classes and policies; policies may be missing, drabridge not being installed there."""
    async with await Client.connect(kubeconfig, context, user_agent=f"drabridge-cli/{version('drabridge')}") as client:
        found = [Object((), each) for each in await _listed(client, DEVICE_CLASSES)]
        try:
            found += [Object((), each) for each in await _listed(client, EXTENDED_RESOURCE_POLICIES)]
        except Missing:
            pass
        except Refused as error:
            typer.echo(f"drabridge: ExtendedResourcePolicies are not seen: {error}", err=True)
        return found


async def _listed(client: Client, resource: Resource) -> list[dict[str, Any]]:
    about = {"apiVersion": resource.api_version, "kind": resource.kind}  # items of a list carry neither
    return [{**about, **item} for item in await client.list_all(resource)]


def _serving(
    found: Iterable[Manifest | Unread],
    sources: Sequence[Manifest | Unread],
    cluster: Sequence[Object],
    chosen: dict[str, str],
) -> tuple[Serving, dict[tuple[str, str], dict[str, Any]], list[Result]]:
    """Put together what serves which name, and the templates of all files; and what of --from could not be read."""
    faults = [Result(each.name, None, "", (each.finding,)) for each in sources if isinstance(each, Unread)]
    classes: dict[str, ClassView] = {}
    policies: list[PolicyView] = []
    configured: set[str] = set()
    templates: dict[tuple[str, str], dict[str, Any]] = {}
    given = ((name, each) for manifest in (*found, *sources) for name, each in _inventory(manifest))
    for name, each in (*(("cluster", each) for each in cluster), *given):
        try:
            if each.kind == "DeviceClass":
                classes[each.name] = ClassView.of(each.value)
                spec = each.value.get("spec")
                configured |= {each.name} if isinstance(spec, dict) and spec.get("config") else set()
            elif each.kind == EXTENDED_RESOURCE_POLICIES.kind:
                policies.append(ExtendedResourcePolicy.parse(each.value).view())
            elif each.kind == TEMPLATE_KIND:
                templates[each.namespace, each.name] = each.value
        except InvalidInput as error:
            finding = Finding(Outcome.BROKEN, Reason.INVALID_YAML, 0, each.described, error.path, error.problem)
            faults.append(Result(name, None, "", (finding,)))
    served = {
        name: policy.device_class for name, policy in effective(policies).items() if policy.delivery is not Delivery.OFF
    }
    every = {**served, **chosen}
    return Serving(ClassMap.of(classes.values(), every), every, frozenset(configured)), templates, faults


def _inventory(manifest: Manifest | Unread) -> Iterator[tuple[str, Object]]:
    if isinstance(manifest, Manifest) and any(each in manifest.text for each in _USEFUL):
        documents, _, _ = file.read(manifest.text, parse)
        for each in file.inventory(documents):
            yield manifest.name, each


# --- convert


def _convert(found: Sequence[Manifest | Unread], conversion: Conversion, templates: Path | None) -> list[Result]:
    if conversion.direction is Direction.REVERSE:  # once to see what stays in use, then for good
        used: set[tuple[str, str]] = set()
        for manifest in found:
            if isinstance(manifest, Manifest):
                documents, _, _ = file.read(file.convert(manifest.text, conversion).text, parse)
                used |= set(file.references(documents))
        conversion = replace(conversion, used=frozenset(used))
    results: list[Result] = []
    collected: dict[tuple[str, str], Template] = {}
    for manifest in found:
        if isinstance(manifest, Unread):
            results.append(Result(manifest.name, None, "", (manifest.finding,)))
            continue
        converted = file.convert(manifest.text, conversion)
        for each in converted.templates:
            collected.setdefault((each.body["metadata"].get("namespace", ""), each.name), each)
        results.append(Result(manifest.name, manifest, converted.text, _severe(manifest, converted)))
    if templates and (collected or templates.exists()):
        results.append(_gathered(templates, collected, conversion))
    return results


def _severe(manifest: Manifest, converted: Converted) -> tuple[Finding, ...]:
    """A file that the user named is expected to have something in it."""
    return tuple(
        replace(each, outcome=Outcome.BROKEN) if each.reason is Reason.EMPTY and manifest.named else each
        for each in converted.findings
    )


def _gathered(path: Path, collected: dict[tuple[str, str], Template], conversion: Conversion) -> Result:
    """The file of the templates: what is in it stays, and what it has not is put behind."""
    manifest = Manifest(str(path), "", bom=False, named=True)
    if path.exists():
        [there] = read([str(path)])
        if isinstance(there, Unread):
            return Result(there.name, None, "", (there.finding,))
        manifest = there
    converted = file.convert(manifest.text, conversion)
    documents, _, _ = file.read(converted.text, parse)
    present = {(each.namespace, each.name) for each in file.inventory(documents) if each.kind == TEMPLATE_KIND}
    text = converted.text
    for key, each in collected.items():
        if key not in present:
            text += ("" if not text or text.endswith("\n") else "\n") + ("---\n" if text.strip() else "")
            text += "\n".join(emit.block(each.body, 0)) + "\n"
    findings = tuple(each for each in converted.findings if each.reason is not Reason.EMPTY)
    return Result(manifest.name, manifest, text, findings)


# --- apply


def _apply(results: Sequence[Result], options: Options) -> list[Result]:
    """Write, print or show; a file that cannot be written is found broken."""
    after = []
    printed: str | None = None
    for result in results:
        if options.stdout and result.manifest is not None:
            _print(result.text, printed)
            printed = result.text
        elif options.write and result.changed and result.manifest is not None:
            try:
                write(result.manifest, result.text)
            except OSError as error:
                detail = f"it cannot be written: {(error.strerror or str(error)).lower()}"
                finding = Finding(Outcome.BROKEN, Reason.NOT_READABLE, 0, "", "", detail)
                after.append(Result(result.name, None, "", (finding,)))
                continue
        elif result.changed and result.manifest is not None and options.output is Output.TEXT and not options.write:
            _show(result.manifest, result.text)
        after.append(result)
    return after


def _print(text: str, before: str | None) -> None:
    """Print a file's text behind that of the one before it, if there was one, as one stream of documents."""
    if before and not before.endswith("\n"):
        _out("\n")
    if before is not None and not text.startswith("---"):
        _out("---\n")
    _out(text)


def _out(text: str) -> None:
    """Line ends as they are, and UTF-8 whatever the locale: it is the content of a file."""
    sys.stdout.buffer.write(text.encode())


def _show(manifest: Manifest, text: str) -> None:
    colours = {"+": typer.colors.GREEN, "-": typer.colors.RED, "@": typer.colors.CYAN}
    coloured = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    new = not manifest.text and manifest.named
    for line in unified(manifest.name, manifest.text, text, new_file=new):
        if coloured and (colour := colours.get(line[0])):
            line = typer.style(line, fg=colour)  # noqa: PLW2901 - the same line, with its colour
        _out(line)


# --- report


def _report(results: Sequence[Result], options: Options) -> None:
    if options.output is Output.JSON:
        files = [
            {"path": each.name, "changed": each.changed, "findings": [_as_json(finding) for finding in each.findings]}
            for each in results
            if each.findings or each.changed
        ]
        counts = {"files": len(results), "changed": sum(each.changed for each in results)}
        counts |= {
            outcome.value: sum(each.outcome is outcome for result in results for each in result.findings)
            for outcome in (Outcome.LEFT, Outcome.SKIPPED, Outcome.BROKEN)
        }
        typer.echo(json.dumps({"summary": counts, "files": files}, indent=2))
        return
    for result in results:
        for finding in result.findings:
            typer.echo(_line(result.name, finding), err=True)
    if len(results) > 1:
        verb = "changed" if options.write else "to be changed"
        typer.echo(f"{len(results)} files, {sum(each.changed for each in results)} {verb}", err=True)


def _as_json(finding: Finding) -> dict[str, Any]:
    return {
        "outcome": finding.outcome.value,
        "reason": finding.reason.value,
        "line": finding.line or None,
        "object": finding.object,
        "path": finding.path,
        "detail": finding.detail,
        "cure": finding.cure,
    }


def _line(name: str, finding: Finding) -> str:
    """One line, whatever stood in the file."""
    where = " ".join(filter(None, (finding.object, finding.path)))
    place = f"{name}:{finding.line}" if finding.line else name
    text = f"{place}: {finding.outcome}: {where + ': ' if where else ''}{finding.detail}"
    if finding.outcome is not Outcome.CHANGED and finding.cure != "nothing is to be done":
        text += f"; {finding.cure}"
    text += f" ({finding.reason})"
    return one_line(text)
