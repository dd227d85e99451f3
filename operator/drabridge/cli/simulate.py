"""`drabridge simulate`: which Pods would get which devices on which nodes, and why the others none."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final

import typer

from drabridge.cli import jsonlines, placements, scenarios, sources, terminal
from drabridge.cli.gathering import DEVICES, Gathered, gather, manifests
from drabridge.cli.options import AllNamespaces, Context, Filenames, Kubeconfig, check_namespaces
from drabridge.cli.placements import Output
from drabridge.cli.progress import bar
from drabridge.core.allocation.features import JSON_NAMES, Features
from drabridge.core.allocation.settings import Settings
from drabridge.core.allocation.strategy import Strategy
from drabridge.core.allocation.upstream_faults import UpstreamFaults
from drabridge.core.errors import DrabridgeError, InvalidInput
from drabridge.core.fitting import BODIES
from drabridge.core.inventory.cluster import Kind
from drabridge.core.simulation import Broken, Outcome, Placed, Simulation, overlaid, turns

HELP = """Say which Pods would get which devices on which nodes, and why the others none.

Waiting Pods are scheduled one after the other, by priority, then by age, then
in the order in which they are read; each sees what those before it took.
Manifests of workloads (Deployment, StatefulSet, ReplicaSet, DaemonSet, Job,
CronJob) stand for their Pods. Extended resources become claims as drabridge or
kube-scheduler would make them. Nothing is changed anywhere.

Devices, taints, node selectors and required node affinity are looked at, and on
the way in ExtendedResourcePolicies, LimitRanges, and ResourceQuotas on
requests.NAME. CPU, memory, how much device plugins have left, quotas on claims
and quotas with scopes are not.

\b
Examples:
  What is in files: Pods, claims, templates, DeviceClasses, ResourceSlices,
  Nodes, ExtendedResourcePolicies:
    drabridge simulate -f examples -f examples/cluster
  The Pods that wait in a cluster, or those of manifests on that cluster:
    drabridge simulate --from-cluster -n research
    drabridge simulate --from-cluster -f deployment.yaml -o wide
  Another order of devices and nodes, another feature gate:
    drabridge simulate -f dump.json --strategy Pack
    drabridge simulate -f dump.json --features derivedAttributes=true

The features are those of a stock Kubernetes 1.37, whose kube-scheduler then
takes its "incubating" allocator; --features switches single ones, "all" or
"none". A Pod that fits nowhere is told which of them would change that.

With --jsonl each line of the input is an allocation scenario (features,
classes, slices, node, claims, what is allocated) and is answered by a line:
id, results, error. The faults of upstream's allocator that this program
otherwise repairs are reproduced there, unless --no-upstream-faults says
otherwise. A line that is no scenario is answered by an error.

Exit code 0: all Pods fit. 1: some do not. 2: some object or line is broken,
or the cluster does not show what is needed.
"""

ALL_FIT: Final = 0
SOME_DO_NOT: Final = 1
BAD_INPUT: Final = 2

_MANY: Final = 200
"""Pods from which on a bar shows how far it is."""

_KINDS: Final = (*DEVICES, Kind.TEMPLATES, Kind.NAMESPACES, Kind.LIMIT_RANGES, Kind.QUOTAS)

_NEEDED: Final = frozenset({Kind.NODES, Kind.CLASSES, Kind.SLICES, Kind.CLAIMS, Kind.PODS})
"""Kinds without which the answer may be wrong."""


def simulate(  # noqa: PLR0913, PLR0917 - an option each; typer passes them by keyword
    call: typer.Context,
    filename: Filenames = None,
    from_cluster: Annotated[bool, typer.Option("--from-cluster", help="Begin with what the cluster has.")] = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Annotated[str | None, typer.Option("--namespace", "-n", help="Only Pods of this namespace.")] = None,
    all_namespaces: AllNamespaces = False,
    strategy: Annotated[
        Strategy, typer.Option(metavar="NAME", help="FirstFit (as kube-scheduler), Pack or Spread.")
    ] = Strategy.FIRST_FIT,
    features: Annotated[
        str, typer.Option(metavar="NAME=BOOL,…", help="Differences from a stock 1.37; all and none are names, too.")
    ] = "",
    upstream_faults: Annotated[
        bool | None,
        typer.Option("--upstream-faults/--no-upstream-faults", help="Reproduce them. Default: with --jsonl only."),
    ] = None,
    output: Annotated[
        Output, typer.Option("--output", "-o", metavar="FORMAT", help="table, wide, json or yaml.")
    ] = Output.TABLE,
    jsonl: Annotated[bool, typer.Option("--jsonl", help="Answer one scenario a line.")] = False,
) -> None:
    """Simulate, or answer lines."""
    _check_options(call, from_cluster=from_cluster, jsonl=jsonl)
    check_namespaces(namespace, all_namespaces=all_namespaces)
    faults = UpstreamFaults.all() if (jsonl if upstream_faults is None else upstream_faults) else UpstreamFaults()
    if jsonl:
        raise typer.Exit(jsonlines.run(filename or [sources.STDIN], sys.stdout, scenarios.answers(faults, strategy)))
    settings = Settings(features_of(features), faults, strategy=strategy)
    try:
        gathered = _gather(filename, kubeconfig, context, from_cluster=from_cluster)
        outcomes = _simulate(gathered, settings, namespace)
    except DrabridgeError as error:
        terminal.complain([terminal.in_words(error)])
        raise typer.Exit(BAD_INPUT) from None
    terminal.complain([*gathered.unread, *gathered.unseen(_KINDS)])
    for line in placements.shown(outcomes, settings, output):
        sys.stdout.write(f"{line}\n")
    raise typer.Exit(_code(gathered, outcomes))


def _check_options(call: typer.Context, *, from_cluster: bool, jsonl: bool) -> None:
    """Refuse options that contradict each other."""

    def given(name: str) -> bool:
        source = call.get_parameter_source(name)
        return source is not None and source.name == "COMMANDLINE"

    if jsonl:
        for name in ("output", "features", "namespace", "all_namespaces", "from_cluster"):
            if given(name):
                raise typer.BadParameter("each line has all that it needs", param_hint=f"--{name.replace('_', '-')}")
    if not (jsonl or from_cluster or given("filename")):
        raise typer.BadParameter("say where the objects are: -f or --from-cluster", param_hint="--filename")
    for name in ("kubeconfig", "context"):
        if given(name) and not from_cluster:
            raise typer.BadParameter("only --from-cluster looks at a cluster", param_hint=f"--{name}")


def features_of(text: str) -> Features:
    """Read --features: what differs from the defaults of Kubernetes 1.37. Raises BadParameter."""
    found = Features()
    fields = {name: field for field, name in JSON_NAMES.items()}
    for word in filter(None, (each.strip() for each in text.split(","))):
        name, equals, value = word.partition("=")
        if word in ("all", "none"):
            found = Features.all() if word == "all" else Features.none()
        elif name not in fields or (equals and value.lower() not in ("true", "false")):
            cure = f"{word} is not NAME=true or NAME=false; the names are {', '.join(fields)}"
            raise typer.BadParameter(cure, param_hint="--features")
        else:
            found = replace(found, **{fields[name]: value.lower() != "false"})
    return found


# Gather


def _gather(paths: list[str] | None, kubeconfig: Path | None, context: str | None, *, from_cluster: bool) -> Gathered:
    if not from_cluster:
        return manifests(paths or (), _KINDS, BODIES)
    live = gather(None, kubeconfig, context, kinds=_KINDS, keep=BODIES)
    if not paths:
        return live
    applied = manifests(paths, _KINDS, BODIES)
    return Gathered(overlaid(live.cluster, applied.cluster), applied.faults, live.where)


# Decide and print


def _simulate(gathered: Gathered, settings: Settings, namespace: str | None) -> list[Outcome]:
    todo = turns(gathered.cluster, namespace)
    outcomes = []
    with bar("simulating", len(todo), worth=_MANY) as advance:
        for outcome in Simulation(gathered.cluster, settings).run(todo):
            outcomes.append(outcome)
            advance(1)
    if not outcomes:
        cure = "name files with Pods or workloads that ask for an extended resource or bring a claim"
        raise InvalidInput("the input", "", "no Pod in it waits for devices", cure)
    return outcomes


def _code(gathered: Gathered, outcomes: list[Outcome]) -> int:
    unseen = _NEEDED & gathered.cluster.unseen.keys()
    if gathered.faults or gathered.cluster.odd or unseen or any(isinstance(each, Broken) for each in outcomes):
        return BAD_INPUT
    return ALL_FIT if all(isinstance(each, Placed) for each in outcomes) else SOME_DO_NOT
