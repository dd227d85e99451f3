"""`drabridge capacity`: which devices are free, which are used, by whom, and how many more Pods fit."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from drabridge.cli import sources, terminal
from drabridge.cli.gathering import DEVICES, NOT_IN_FILES, Gathered, gather
from drabridge.cli.options import AllNamespaces, Context, Filenames, Kubeconfig, check_namespaces
from drabridge.core import capacity as counting
from drabridge.core.capacity import Grouping, Row, Shared, State, Use
from drabridge.core.errors import DrabridgeError, InvalidInput
from drabridge.core.fitting import BODIES, Fitting, Room, shape_of
from drabridge.core.inventory.cluster import Inventory, Kind
from drabridge.core.inventory.pods import PodRecord
from drabridge.core.names import is_extended

HELP = """Show which devices are free, and who uses the others.

A device is used (a claim has it), blocked (nobody has it and nobody can get
it: its pool is incomplete, or other partitions have its share), tainted
(free for those who tolerate that), or free. Shared counters of partitionable
devices and the capacity of devices that claims share are shown as bars.

\b
Examples:
  By DeviceClass, by node, by pool, by model:
    drabridge capacity
    drabridge capacity --by node
  Who uses what: device, claim, Pod, containers:
    drabridge capacity --users
  How many more Pods of a shape fit, and what is in the way of more:
    drabridge capacity --fit example.com/gpu=2
    drabridge capacity --fit pod.yaml
  Keep looking:
    drabridge capacity --by node --watch
  A dump of a cluster:
    kubectl get nodes,pods,resourceclaims,resourceslices,deviceclasses \\
      -A -o json | drabridge capacity -f -

--fit looks at devices, taints, node selectors and required node affinity; it
does not look at CPU, memory and the like.

Exit code 0: it is shown, also where a cluster has no devices. 1: with --fit,
not one more Pod fits. 2: it cannot be told, since slices, classes or claims
could not be seen, or an object or a file could not be read.
"""

DONE: Final = 0
FULL: Final = 1
UNDONE: Final = 2

COUNTED: Final = (Kind.SLICES, Kind.CLASSES, Kind.CLAIMS)
"""What devices are counted by."""

_BAR: Final = 20
"""Characters of a full bar."""

_NODES_SHOWN: Final = 20


class Output(StrEnum):
    """How it is written."""

    TABLE = "table"
    JSON = "json"


def capacity(  # noqa: PLR0913, PLR0917 - an option each; typer passes them by keyword
    filename: Filenames = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="With --users: only claims of this namespace.")
    ] = None,
    all_namespaces: AllNamespaces = False,
    by: Annotated[Grouping, typer.Option(metavar="WHAT", help="class, node, pool or model.")] = Grouping.CLASS,
    users: Annotated[bool, typer.Option("--users", help="Show who uses each device.")] = False,
    fit: Annotated[
        str | None,
        typer.Option(metavar="SHAPE", help="A file with a Pod, or NAME=COUNT,…: how many more of that fit."),
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Show it again and again until interrupted.")] = False,
    every: Annotated[float, typer.Option(min=0.2, help="Seconds between two looks of --watch.")] = 5.0,
    output: Annotated[Output, typer.Option("--output", "-o", metavar="FORMAT", help="table or json.")] = Output.TABLE,
) -> None:
    """Show it, once or again and again."""
    check_namespaces(namespace, all_namespaces=all_namespaces)
    if namespace and not users:
        raise typer.BadParameter("devices are of no namespace; it is for --users", param_hint="--namespace")
    if watch and filename:
        raise typer.BadParameter("files do not change by themselves; watch a cluster", param_hint="--watch")
    if fit and users:
        raise typer.BadParameter("ask for one of the two: --users or --fit", param_hint="--fit")
    console = Console()
    try:
        while True:
            gathered = gather(
                filename, kubeconfig, context, kinds=(*DEVICES, Kind.TEMPLATES), keep=BODIES if fit else ()
            )
            code = DONE
            if console.is_terminal and watch:
                console.clear()
            if fit:
                code = _fit(fit, gathered, output)
            else:
                _show(gathered, by, output, namespace, users=users)
            terminal.complain([*gathered.unread, *gathered.unseen(COUNTED)])
            if not watch:
                raise typer.Exit(UNDONE if gathered.unread or _blind(gathered.cluster) else code)
            sys.stdout.flush()
            time.sleep(every)
    except KeyboardInterrupt:
        raise typer.Exit(DONE) from None
    except DrabridgeError as error:
        terminal.complain([terminal.in_words(error)])
        raise typer.Exit(UNDONE) from None


def _blind(cluster: Inventory) -> bool:
    """Whether what is shown may be wrong, for want of a kind that it counts by; files need not have all of them."""
    unseen = [cluster.unseen[kind] for kind in COUNTED if kind in cluster.unseen]
    return any(why != NOT_IN_FILES for why in unseen) or len(unseen) == len(COUNTED)


# What there is


def _show(gathered: Gathered, by: Grouping, output: Output, namespace: str | None, *, users: bool) -> None:
    cluster = gathered.cluster
    rows, shares = counting.count(cluster, by), counting.shared(cluster)
    held = [each for each in counting.uses(cluster) if not namespace or each.claim.startswith(f"{namespace}/")]
    if output is Output.JSON:
        terminal.show([json.dumps(_as_json(by, rows, shares, held if users else None), indent=2)])
    elif not (held if users else rows):
        terminal.show(terminal.wrapped(terminal.one_line(_nothing(gathered, by, users=users))))
    elif users:
        terminal.show(_users_table(held))
    else:
        terminal.show(_counts_table(by, rows))
        if shares:
            terminal.show(["", *_bars(shares)])


def _nothing(gathered: Gathered, by: Grouping, *, users: bool) -> str:
    """What there is instead of what was asked for, where that was looked for, and what to do."""
    cluster = gathered.cluster
    counts = {Kind.SLICES: cluster.slices, Kind.CLASSES: cluster.classes, Kind.CLAIMS: cluster.claims}
    seen = [_counted(len(found), kind) for kind, found in counts.items() if kind not in cluster.unseen]
    seen.append(_counted(len(cluster.devices), "device"))
    what = "device in use" if users else "DeviceClass" if by is Grouping.CLASS else "device"
    if cluster.devices:
        cure = "drabridge capacity --by node counts them"
    else:
        cure = "install a DRA driver, which publishes devices, or name another cluster or a dump with ResourceSlices"
    return f"No {what}. Seen in {gathered.where}: {', '.join(seen)}; {cure}."


def _counted(count: int, what: str) -> str:
    if count == 1:
        return f"1 {what}"
    return f"{count} {what}{'es' if what.endswith('s') else 's'}"


def _counts_table(by: Grouping, rows: Iterable[Row]) -> Iterator[str]:
    heads = ("TOTAL", *(state.upper() for state in State))
    width = max(len(head) for head in heads)
    cells = [(row.name, *(f"{number:>{width}}" for number in (row.total, *row.states.values()))) for row in rows]
    yield from terminal.table((by.upper(), *(f"{head:>{width}}" for head in heads)), cells, terminal.width())


def _bars(shares: Iterable[Shared]) -> Iterator[str]:
    rows = [(each.owner, each.name, f"{bar(each.share)} {each.used} of {each.total}") for each in shares]
    yield from terminal.table(("SHARED BY", "WHAT", "TAKEN"), rows, terminal.width())


def bar(share: float) -> str:
    """A bar that is filled by a share from 0 to 1; anything above 0 shows, and only 1 and more is full."""
    filled = min(_BAR, int(share * _BAR))
    if share > 0 and filled == 0:
        filled = 1
    return "█" * filled + "░" * (_BAR - filled)


def _users_table(held: Iterable[Use]) -> Iterator[str]:
    rows = [
        (
            each.device,
            each.claim,
            f"Pod {each.pod}: {', '.join(each.containers) or 'no container'}" if each.pod else "-",
        )
        for each in held
    ]
    yield from terminal.table(("DEVICE", "CLAIM", "POD AND CONTAINERS"), rows, terminal.width())


def _as_json(by: Grouping, rows: Iterable[Row], shares: Iterable[Shared], held: Iterable[Use] | None) -> dict[str, Any]:
    found: dict[str, Any] = {
        "by": by.value,
        "devices": [
            {"name": row.name, "total": row.total, **{state.value: count for state, count in row.states.items()}}
            for row in rows
        ],
        "shared": [
            {"owner": each.owner, "name": each.name, "used": str(each.used), "total": str(each.total)}
            for each in shares
        ],
    }
    if held is not None:
        found["users"] = [
            {
                "device": each.device,
                "node": each.node,
                "claim": each.claim,
                "request": each.request,
                "pod": each.pod,
                "containers": list(each.containers),
            }
            for each in held
        ]
    return found


# How many more fit


def _fit(wanted: str, gathered: Gathered, output: Output) -> int:
    cluster, pod = _shape(wanted, gathered.cluster)
    _check_served(wanted, pod, cluster)
    room = Fitting(cluster).room(shape_of(pod, cluster))
    if output is Output.JSON:
        barred = [{"reason": each.reason, "nodes": list(each.nodes), "cures": list(each.cures)} for each in room.barred]
        terminal.show([json.dumps({"fits": room.total, "nodes": room.nodes, "barred": barred}, indent=2)])
    else:
        terminal.show(_room(room))
    return DONE if room.total else FULL


def _room(room: Room) -> Iterator[str]:
    nodes = f" on {len(room.nodes)} nodes" if len(room.nodes) != 1 else " on 1 node"
    yield f"{room.total} more Pods of this shape fit{nodes if room.total else ''}."
    if room.nodes:
        rows = [(name, str(count)) for name, count in sorted(room.nodes.items())[:_NODES_SHOWN]]
        yield from terminal.table(("NODE", "PODS"), rows, terminal.width())
        if len(room.nodes) > _NODES_SHOWN:
            yield f"… and {len(room.nodes) - _NODES_SHOWN} more nodes"
    for each in room.barred:
        count = f"{len(each.nodes)} nodes" if len(each.nodes) != 1 else each.nodes[0]
        yield from terminal.wrapped(terminal.one_line(f"Not on {count}: {each.reason}"))
        for cure in each.cures[:3]:
            yield from terminal.indented(terminal.one_line(f"would help: {cure}"), terminal.width(), "  ", "    ")


def _shape(wanted: str, cluster: Inventory) -> tuple[Inventory, PodRecord]:
    """The Pod that is meant, and the cluster with the templates that came with it."""
    if "=" in wanted:
        return cluster, PodRecord.of(_asking(wanted))
    if is_extended(wanted) and not Path(wanted).exists():
        raise InvalidInput(f"--fit {wanted}", "", "is neither a file nor NAME=COUNT", f"write {wanted}=COUNT")
    pods, templates = [], []
    for each in sources.read([wanted]):
        if isinstance(each, InvalidInput):
            raise each
        if each.kind == "ResourceClaimTemplate":
            templates.append(_placed(each.body))
        elif (body := _pod_of(each.body)) is not None:
            pods.append(body)
    if not pods:
        raise InvalidInput(wanted, "", "there is no Pod in it", "name a file with a Pod, or write NAME=COUNT")
    known = (*cluster.bodies.get(Kind.TEMPLATES, ()), *templates)
    return replace(cluster, bodies={**cluster.bodies, Kind.TEMPLATES: known}), PodRecord.of(_placed(pods[0]))


def _check_served(wanted: str, pod: PodRecord, cluster: Inventory) -> None:
    """Raise InvalidInput for a name of the shape behind which neither a DeviceClass nor a device plugin stands."""
    for name in sorted({ask.resource for ask in pod.view.extended()} - cluster.plugin_nodes.keys()):
        if cluster.class_map.resolve(name) is None:
            unseen = Kind.CLASSES in cluster.unseen
            problem = (
                f"who serves {name} cannot be told: no DeviceClass was seen" if unseen else f"nobody serves {name}"
            )
            raise InvalidInput(f"--fit {wanted}", "", problem, f"drabridge explain {name}")


def _asking(wanted: str) -> dict[str, Any]:
    asked = {}
    for pair in wanted.split(","):
        name, _, count = pair.partition("=")
        if not name.strip() or not count.strip().isdecimal():
            raise InvalidInput(f"--fit {wanted}", "", f"{pair} is not NAME=COUNT", "write example.com/gpu=2")
        if not int(count):
            raise InvalidInput(f"--fit {wanted}", "", f"{pair} asks for nothing", "write example.com/gpu=2")
        asked[name.strip()] = count.strip()
    container = {"name": "main", "resources": {"requests": asked, "limits": dict(asked)}}
    return {"metadata": {"namespace": "default", "name": "shape"}, "spec": {"containers": [container]}}


def _pod_of(body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """A Pod, or the Pods that a workload would make."""
    if body.get("kind") == "Pod":
        return body
    spec = body.get("spec")
    template = spec.get("template") if isinstance(spec, Mapping) else None
    if isinstance(template, Mapping) and isinstance(template.get("spec"), Mapping):
        return {"metadata": body.get("metadata"), "spec": template["spec"]}
    return None


def _placed(body: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = body.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    return {**body, "metadata": {"namespace": "default", "name": "shape", **metadata}}
