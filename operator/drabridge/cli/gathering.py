"""The whole cluster for a verb: from files, or live, page by page."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from drabridge.api.policy import ExtendedResourcePolicy
from drabridge.cli import sources
from drabridge.cli.progress import bar, ticker
from drabridge.core.cluster import Gate
from drabridge.core.errors import DrabridgeError, InvalidInput, Missing, Refused
from drabridge.core.inventory.cluster import Inventory, Kind
from drabridge.core.inventory.gathering import Gathering
from drabridge.core.inventory.pods import version_of
from drabridge.core.inventory.replicas import is_workload, pods_of
from drabridge.core.policy import PolicyView
from drabridge.delivery.native import SINCE_KEY, STATE, gate_of, since_of
from drabridge.kube import resources
from drabridge.kube.client import Client
from drabridge.kube.resources import Resource

SETTLE_SECONDS: Final = 600.0
"""The default of `drabridge operator --native-after`."""

HOME: Final = "drabridge-system"
NOT_IN_FILES: Final = "the files hold none"

LISTS: Final[Mapping[Kind, tuple[Resource, ...]]] = {
    Kind.NAMESPACES: (resources.NAMESPACES,),
    Kind.NODES: (resources.NODES,),
    Kind.CLASSES: (resources.DEVICE_CLASSES,),
    Kind.POLICIES: (resources.EXTENDED_RESOURCE_POLICIES,),
    Kind.SLICES: (resources.RESOURCE_SLICES,),
    Kind.TAINT_RULES: resources.DEVICE_TAINT_RULE_VERSIONS,
    Kind.LIMIT_RANGES: (resources.LIMIT_RANGES,),
    Kind.QUOTAS: (resources.RESOURCE_QUOTAS,),
    Kind.DEPLOYMENTS: (resources.DEPLOYMENTS,),
    Kind.DAEMON_SETS: (resources.DAEMON_SETS,),
    Kind.MUTATING: (resources.MUTATING_WEBHOOK_CONFIGURATIONS,),
    Kind.VALIDATING: (resources.VALIDATING_WEBHOOK_CONFIGURATIONS,),
    Kind.ROLES: (resources.CLUSTER_ROLES,),
    Kind.NAMESPACED_ROLES: (resources.ROLES,),
    Kind.BINDINGS: (resources.CLUSTER_ROLE_BINDINGS,),
    Kind.NAMESPACED_BINDINGS: (resources.ROLE_BINDINGS,),
    Kind.TEMPLATES: (resources.RESOURCE_CLAIM_TEMPLATES,),
    Kind.CLAIMS: (resources.RESOURCE_CLAIMS,),
    Kind.PODS: (resources.PODS,),
}
"""Where each kind is listed, in this order: claims before Pods, so that no claim seems to have lost its Pod."""

OPTIONAL: Final = frozenset({Kind.POLICIES, Kind.TAINT_RULES})
"""Kinds that a cluster may not know; then it has none, and a dump of it holds none."""

DEVICES: Final = (Kind.NODES, Kind.CLASSES, Kind.SLICES, Kind.TAINT_RULES, Kind.CLAIMS, Kind.PODS, Kind.POLICIES)
"""What one must see to speak of devices and who has them."""


@dataclass(frozen=True, slots=True)
class Gathered:
    """A cluster, what of the files could not be read, and where was looked, in words."""

    cluster: Inventory
    faults: tuple[InvalidInput, ...] = ()
    where: str = ""

    @property
    def unread(self) -> list[str]:
        """What could not be read, in words."""
        odd = (f"{each.object} is left out: {each.problem}; {each.cure}" for each in self.cluster.odd)
        return [*map(str, self.faults), *odd]

    def unseen(self, kinds: Iterable[Kind]) -> list[str]:
        """Which of these kinds were not seen, and why, in words."""
        return [f"{kind} not seen: {self.cluster.unseen[kind]}" for kind in kinds if kind in self.cluster.unseen]


def gather(
    paths: Iterable[str] | None,
    kubeconfig: Path | None,
    context: str | None,
    *,
    kinds: Iterable[Kind] = LISTS,
    complete: bool = False,
    keep: Collection[Kind] = (),
    events_of: str = "",
) -> Gathered:
    """The cluster of the files, or of the kubeconfig where there are none.

    A kind without an object in the files counts as not seen, unless they are `complete`. Raises DrabridgeError where
    nothing at all can be said. `keep` are kinds whose bodies are kept, `events_of` names a Pod whose Events are read.
    """
    wanted = tuple(kinds)
    gc.disable()  # nearly all that is read stays: to look for garbage again and again takes as long as to read
    try:
        if paths:
            return _from_files(tuple(paths), wanted, keep, complete=complete)
        return asyncio.run(_from_cluster(kubeconfig, context, wanted, keep, events_of))
    finally:
        gc.enable()


def manifests(paths: Iterable[str], kinds: Iterable[Kind], keep: Collection[Kind]) -> Gathered:
    """All that there is, as files say, with the Pods that their workloads would make.

    Raises InvalidInput where the files have nothing of it.
    """
    gc.disable()
    try:
        return _from_files(tuple(paths), tuple(kinds), keep, complete=True, workloads=True)
    finally:
        gc.enable()


def _from_files(
    paths: tuple[str, ...],
    kinds: tuple[Kind, ...],
    keep: Collection[Kind],
    *,
    complete: bool,
    workloads: bool = False,
) -> Gathered:
    gathering = Gathering(_policy, keep)
    faults = []
    with bar("reading", sources.characters(paths), worth=1_000_000) as advance:
        for each in sources.read(paths, advance):
            if isinstance(each, InvalidInput):
                faults.append(each)
            else:
                gathering.take(each.body)
                if workloads and is_workload(each.body):
                    faults += _made(each.body, gathering)
    if not gathering.kinds and gathering.odd:
        odd = gathering.odd[0]
        raise InvalidInput(odd.object, "", f"it cannot be read: {odd.problem}", odd.cure)
    if not gathering.kinds:
        problem = f"there is no {', '.join(kinds[:3])} or the like in it"
        raise faults[0] if faults else InvalidInput("the input", "", problem, "see --help for how to write a dump")
    unseen = {} if complete else dict.fromkeys(frozenset(kinds) - gathering.kinds - OPTIONAL, NOT_IN_FILES)
    return Gathered(gathering.inventory(datetime.now(UTC), unseen=unseen), tuple(faults), ", ".join(paths))


def _made(workload: Mapping[str, Any], gathering: Gathering) -> list[InvalidInput]:
    """Take in the Pods that a workload would make; what is wrong with it."""
    try:
        for pod in pods_of(workload):
            gathering.take(pod)
    except InvalidInput as error:
        return [error]
    return []


def _policy(raw: Mapping[str, Any]) -> PolicyView:
    return ExtendedResourcePolicy.parse(raw).view()


async def _from_cluster(
    kubeconfig: Path | None, context: str | None, kinds: tuple[Kind, ...], keep: Collection[Kind], events_of: str
) -> Gathered:
    agent = f"drabridge-cli/{version('drabridge')}"
    async with await Client.connect(kubeconfig, context, user_agent=agent) as client:
        seen = await from_cluster(client, kinds, keep, events_of)
        return Gathered(seen, where=f"cluster {client.credentials.host}")


async def from_cluster(
    client: Client, kinds: tuple[Kind, ...] = tuple(LISTS), keep: Collection[Kind] = (), events_of: str = ""
) -> Inventory:
    """List what the cluster has of these kinds. What may not be listed counts as not seen.

    Raises InvalidInput where the cluster has no resource.k8s.io/v1, Unavailable where it does not answer.
    """
    gathering = Gathering(_policy, keep)
    unseen: dict[Kind, str] = {}
    said = await client.version()
    server = version_of(f"{said.get('emulationMajor', '')}.{said.get('emulationMinor', '')}") or version_of(
        str(said.get("gitVersion", ""))
    )
    with ticker() as say:
        for kind in (each for each in LISTS if each in kinds):
            try:
                await _list(client, kind, gathering, say)
            except Refused as error:
                unseen[kind] = str(error)
            except Missing as error:
                if kind is Kind.CLASSES:
                    problem = "it does not serve resource.k8s.io/v1"
                    cure = "upgrade the cluster to Kubernetes 1.34 or newer"
                    raise InvalidInput(f"cluster {client.credentials.host}", "", problem, cure) from error
                if kind not in OPTIONAL:
                    unseen[kind] = str(error)
        if events_of:
            await _events(client, events_of, gathering, unseen)
    now = datetime.now(UTC)
    settled = await _settled(client, now)
    return gathering.inventory(now, server=server, gate=await _gate(client), settled=settled, unseen=unseen)


async def _list(client: Client, kind: Kind, gathering: Gathering, say: Callable[[str], None]) -> None:
    missing: Missing | None = None
    for resource in LISTS[kind]:
        about = {"apiVersion": resource.api_version, "kind": resource.kind}  # items of a list carry neither
        count = 0
        try:
            async for page in client.list_pages(resource):
                for item in page["items"]:
                    gathering.take({**about, **item})
                count += len(page["items"])
                say(f"{resource.plural}: {count}")
        except Missing as error:
            missing = missing or error
        else:
            return
    if missing:
        raise missing


async def _events(client: Client, pod: str, gathering: Gathering, unseen: dict[Kind, str]) -> None:
    about = {"apiVersion": resources.CORE_EVENTS.api_version, "kind": resources.CORE_EVENTS.kind}
    selector = f"involvedObject.kind=Pod,involvedObject.name={pod}"
    try:
        async for page in client.list_pages(resources.CORE_EVENTS, field_selector=selector):
            for item in page["items"]:
                gathering.take({**about, **item})
    except (Refused, Missing) as error:
        unseen[Kind.EVENTS] = str(error)


async def _gate(client: Client) -> Gate:
    """Ask the API server; it may not be ours to ask, and then the objects have to tell."""
    try:
        return await gate_of(client)
    except (Refused, Missing):
        return Gate.UNKNOWN


async def _settled(client: Client, now: datetime) -> frozenset[str] | None:
    """The names that native delivery could serve for long enough, as the operator counts; None if it keeps no count."""
    try:
        state = await client.get(resources.CONFIGMAPS, HOME, STATE)
    except DrabridgeError:
        return None
    since = since_of((state.get("data") or {}).get(SINCE_KEY, "{}"))
    if since is None:
        return None
    return frozenset(name for name, start in since.items() if (now - start).total_seconds() >= SETTLE_SECONDS)
