"""`make demo`: workloads that know nothing of DRA get their devices, on a real control plane.

Without KUBECONFIG a control plane of our own is started (Kubernetes 1.35, where the native feature is off), drabridge
is installed from its manifests and runs as its ServiceAccount. There are no kubelets; what they would report is
reported for them. With REAL=1 there is a real node instead, with kubelet, containerd and DRA drivers, and every
container says which devices it sees; that needs root on Linux, and runc. With KUBECONFIG the examples run on that
cluster, where drabridge and DRA drivers must be installed; what the demo makes there carries its label and goes at the
end, and what is there without that label is not touched.

With BIND=1 (`make demo-bind`) the same workloads are served by delivery Bind, on Kubernetes 1.37: unchanged, and bound
through a stock kube-scheduler that calls drabridge as its extender.

KEEP=1 leaves everything for a look, YES=1 asks no questions.

Exit code 0 means that the API server, asked afresh, shows what it should; see `checked`.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

REPOSITORY = Path(__file__).parents[1]
sys.path.insert(0, str(REPOSITORY / "tests"))

from upstream.api import APPLY_PATCH, Object, Refused, wait_for  # noqa: E402 - the path to it is known only now
from upstream.build import BuildFailed, binary  # noqa: E402
from upstream.cluster import Cluster  # noqa: E402
from upstream.controlplane import ComponentDied, ControlPlane  # noqa: E402
from upstream.installation import CONFIGURATION, Installation  # noqa: E402
from upstream.processes import free_port  # noqa: E402
from upstream.realnode import Hardware, RealNode, missing  # noqa: E402
from upstream.scheduler import BindScheduler  # noqa: E402

EXAMPLES = REPOSITORY / "examples"
NAMESPACE = "drabridge-demo"
NAMESPACE_PATH = f"/api/v1/namespaces/{NAMESPACE}"
LABEL = "app.kubernetes.io/part-of"
"""With the value `drabridge-demo` it is on all that the demo makes, and says what may be changed and removed."""

KUBERNETES = "1.35"
DEADLINE = 60.0
JOB_SECONDS = 3.0
"""How long the Job's Pod runs where its kubelet is played."""

EXPECTED = {"inference": 2, "training": 3, "two-resources": 4, "own-claim": 1}
"""Workload -> devices that each of its Pods gets for its extended resources (KEP-5004: init containers reuse)."""

TOO_BIG = "too-big"
REPLICAS = 3
COLLECTIONS = {
    "DeviceClass": "/apis/resource.k8s.io/v1/deviceclasses",
    "ExtendedResourcePolicy": "/apis/drabridge.io/v1alpha1/extendedresourcepolicies",
    "Deployment": f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments",
    "Job": f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs",
    "Pod": f"/api/v1/namespaces/{NAMESPACE}/pods",
    "ResourceClaim": f"/apis/resource.k8s.io/v1/namespaces/{NAMESPACE}/resourceclaims",
}
CLUSTER_SCOPED = ("ExtendedResourcePolicy", "DeviceClass")
NAMES = {"gpu.example.com": "example.com/gpu", "nic.example.com": "example.com/nic"}
"""DeviceClass of the examples -> the name it serves."""

DRIVERS = {"gpu.example.com", "nic.example.com"}
HARDWARE = {"gpu.example.com": 16, "nic.example.com": 4}
"""What a real node has; those that are played have 8 and 2, and there are three of them."""

console = Console(highlight=False)


FAILURES = (AssertionError, BuildFailed, ComponentDied, Refused, aiohttp.ClientError, TimeoutError)


class Told(Exception):
    """The demo ends without success, and has said why."""


@dataclass
class Picture:
    """What the API server shows of the demo's namespace at one moment."""

    pods: list[Object] = field(default_factory=list)
    claims: dict[str, Object] = field(default_factory=dict)
    events: list[Object] = field(default_factory=list)

    @classmethod
    async def take(cls, cluster: Cluster) -> Picture:
        pods, claims, events = await asyncio.gather(
            cluster.api.call("GET", COLLECTIONS["Pod"]),
            cluster.api.call("GET", COLLECTIONS["ResourceClaim"]),
            cluster.api.call("GET", f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"),
        )
        by_name = {claim["metadata"]["name"]: claim for claim in claims["items"]}
        return cls(sorted(pods["items"], key=_name), by_name, events["items"])

    def of(self, workload: str) -> list[Object]:
        return [pod for pod in self.pods if _name(pod).startswith(workload)]

    def claim_of(self, pod: Object) -> Object | None:
        return self.claims.get(_claim_name(pod))

    def reason_of(self, pod: Object) -> str:
        """What drabridge says about a Pod that it left alone, or that its kube-scheduler found no node for."""
        for condition in pod["status"].get("conditions", ()):
            if condition["type"] == "PodScheduled" and condition["status"] == "False" and said("BIND"):
                found = re.search(r"[0-9]+ ([A-Z][A-Za-z]+): ", condition.get("message", ""))
                return found[1] if found else ""
        for event in self.events:
            about = event.get("regarding", {})
            ours = event.get("reportingController") == "drabridge.io/operator"
            if ours and about.get("uid") == pod["metadata"]["uid"] and event.get("action") == "LeaveAlone":
                return str(event["reason"])
        return ""

    def waits_for(self, pod: Object) -> str:
        """The first thing that the Pod still lacks; empty once it runs or has ended."""
        if pod["status"].get("phase") in ("Running", "Succeeded"):
            return ""
        if not _claim_name(pod):
            reason = self.reason_of(pod)
            reason = "" if reason == "NotEnoughDevices" else reason
            return f"its author: {reason}" if reason else "a node"
        claim = self.claim_of(pod)
        if claim is None:
            return "its ResourceClaim"
        if "allocation" not in claim.get("status", {}):
            return "kube-scheduler to allocate"
        if not pod["spec"].get("nodeName"):
            return "a node"
        return "" if _allocation(pod) else "the allocation to be bound back"


def _name(obj: Object) -> str:
    return str(obj["metadata"]["name"])


def _claim_name(pod: Object) -> str:
    if special := pod["status"].get("extendedResourceClaimStatus"):
        return str(special["resourceClaimName"])
    names = [claim.get("resourceClaimName", "") for claim in pod["spec"].get("resourceClaims", ())]
    return next((name for name in names if name.startswith("drabridge-")), "")


def _allocation(pod: Object) -> list[Object]:
    text = pod["metadata"].get("annotations", {}).get("drabridge.io/allocation", "[]")
    return list(json.loads(text))


def _results(claim: Object) -> list[Object]:
    return list(claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ()))


def _devices(claim: Object) -> Iterator[tuple[str, str, str]]:
    return ((each["driver"], each["pool"], each["device"]) for each in _results(claim))


def live_table(picture: Picture) -> Table:
    table = Table(title="Pods", title_justify="left", expand=False)
    for column in ("Pod", "phase", "node", "waits for"):
        table.add_column(column, overflow="fold")
    for pod in picture.pods:
        phase, node = pod["status"].get("phase", ""), pod["spec"].get("nodeName", "")
        table.add_row(_name(pod), phase, node, picture.waits_for(pod))
    return table


def result_table(picture: Picture) -> Table:
    """Two lines of columns share three: long names of Pods and claims stand side by side, devices below them."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for headers in ("Pod\n  container", "node\n  resource", "claim\n  devices"):
        table.add_column(headers, overflow="fold")
    for pod in picture.pods:
        rows: dict[tuple[str, str], list[str]] = {}
        for entry in _allocation(pod):
            rows.setdefault((entry["container"], entry["resource"]), []).append(entry["device"])
        claim = _claim_name(pod) or f"none: {picture.reason_of(pod)}"
        table.add_row(_name(pod), pod["spec"].get("nodeName", "-"), claim, style="bold")
        for (container, resource), devices in rows.items():
            table.add_row(f"  {container}", f"  {resource}", f"  {' '.join(devices)}")
    return table


def manifests() -> Iterator[tuple[Path, Object]]:
    """The examples in the order to be applied: what serves the names before who asks for them."""
    first = ("deviceclasses.yaml", "policy.yaml")
    for path in sorted(EXAMPLES.glob("*.yaml"), key=lambda path: (path.name not in first, path.name)):
        for body in yaml.safe_load_all(path.read_text()):
            if said("BIND"):
                yield from ((path, more) for more in served_by_bind(body))
            body["metadata"].setdefault("labels", {})[LABEL] = NAMESPACE
            yield path, body


def served_by_bind(body: Object) -> Iterator[Object]:
    """Change what serves the names so that Bind does; give what that takes besides. Workloads stay as they are."""
    if body["kind"] == "ExtendedResourcePolicy":
        body["spec"]["delivery"] = "Bind"
    if body["kind"] == "DeviceClass":
        resource = NAMES[_name(body)]
        body["spec"]["extendedResourceName"] = resource
        if resource != "example.com/gpu":  # which has a policy in the examples
            spec = {"resourceName": resource, "delivery": "Bind", "devices": [{"deviceClassName": _name(body)}]}
            kind = {"apiVersion": "drabridge.io/v1alpha1", "kind": "ExtendedResourcePolicy"}
            metadata = {"name": resource.replace("/", "-"), "labels": {LABEL: NAMESPACE}}
            yield {**kind, "metadata": metadata, "spec": spec}


async def is_ours(cluster: Cluster, path: str) -> bool | None:
    """Whether the object at `path` is the demo's; None if there is none."""
    status, found = await cluster.api.request("GET", path)
    if status == 404:
        return None
    if status != 200:
        raise Refused(f"GET {path}", status, found)
    return bool(found["metadata"].get("labels", {}).get(LABEL) == NAMESPACE)


async def apply(cluster: Cluster, body: Object) -> bool:
    """Make an object, or not if somebody else's is there that serves the whole cluster; say whether."""
    collection = COLLECTIONS[body["kind"]]
    if body["kind"] not in CLUSTER_SCOPED:
        await cluster.api.call("POST", collection, body)
        return True
    path = f"{collection}/{_name(body)}"
    if await is_ours(cluster, path) is False:
        return False
    query = {"fieldManager": NAMESPACE, "force": "true"}
    await cluster.api.call("PATCH", path, body, APPLY_PATCH, query=query)
    return True


async def remove_namespace(cluster: Cluster) -> None:
    await cluster.api.request("DELETE", NAMESPACE_PATH)
    await wait_for(
        lambda: cluster.api.request("GET", NAMESPACE_PATH),
        f"namespace {NAMESPACE} to be gone",
        until=lambda answer: answer[0] == 404,
        deadline=DEADLINE,
    )


async def tidy(cluster: Cluster) -> None:
    """Remove all that the demo made, told by its label."""
    await remove_namespace(cluster)
    for kind in CLUSTER_SCOPED:
        await cluster.api.call("DELETE", COLLECTIONS[kind], query={"labelSelector": f"{LABEL}={NAMESPACE}"})


def settled(picture: Picture) -> bool:
    """Whether every Pod has come to its end of the way: bound back and running, or pending with its reason."""
    if len(picture.of("inference")) < REPLICAS or not picture.of("training"):
        return False
    done = [not picture.waits_for(pod) for pod in picture.pods if _name(pod) != TOO_BIG]
    return all(done) and all(picture.reason_of(pod) for pod in picture.of(TOO_BIG))


async def watch_until(cluster: Cluster, what: str, condition: Any, claims: dict[str, Object] | None = None) -> Picture:
    """Show the Pods until `condition` holds for what is seen. `claims` takes all claims that were seen allocated."""
    picture = await Picture.take(cluster)
    deadline = time.monotonic() + DEADLINE
    shown: dict[str, str] = {}
    with Live(live_table(picture), console=console, refresh_per_second=8, transient=True) as live:
        while not condition(picture):
            if time.monotonic() > deadline:
                live.update(live_table(picture))
                raise AssertionError(f"after {DEADLINE:g} s still not so: {what}")
            if console.is_terminal:
                live.update(live_table(picture))
            else:
                _tell(picture, shown)
            await asyncio.sleep(0.1)
            picture = await Picture.take(cluster)
            if claims is not None:
                claims.update((name, claim) for name, claim in picture.claims.items() if _results(claim))
    return picture


def _tell(picture: Picture, shown: dict[str, str]) -> None:
    """Where nobody watches a terminal, a line for each change."""
    for pod in picture.pods:
        text = picture.waits_for(pod)
        if text and shown.get(_name(pod)) != text:
            shown[_name(pod)] = text
            console.print(f"  {_name(pod)} waits for {text}")


def checked(before: Picture, after: Picture, training: list[Object]) -> list[str]:
    """Everything that is not as it should be, judged by what the API server shows."""
    faults: list[str] = []
    for workload, count in EXPECTED.items():
        for pod in before.of(workload):
            faults += _faults_of(pod, before.claim_of(pod), count)
    used = Counter(device for claim in before.claims.values() for device in _devices(claim))
    faults += [f"device {'/'.join(device)} is used {count} times" for device, count in used.items() if count > 1]
    left = {_claim_name(pod) for pod in training} & after.claims.keys()
    faults += [f"claim {name} of the finished Job is still there" for name in sorted(left)]
    for pod in after.of(TOO_BIG):
        if pod["spec"].get("nodeName") or after.reason_of(pod) != "TooManyDevices":
            faults.append(f"Pod {_name(pod)} is not pending with the reason TooManyDevices")
    if len(before.of("inference")) != REPLICAS:
        faults.append(f"{len(before.of('inference'))} inference Pods instead of {REPLICAS}")
    return faults


def _faults_of(pod: Object, claim: Object | None, count: int) -> Iterator[str]:
    name = _name(pod)
    if claim is None:
        yield f"Pod {name} has no claim"
        return
    owners = [(each["kind"], each["uid"], each.get("controller")) for each in claim["metadata"]["ownerReferences"]]
    if owners != [("Pod", pod["metadata"]["uid"], True)]:
        yield f"claim {_name(claim)} is owned by {owners}, not by Pod {name}"
    if len(_results(claim)) != count:
        yield f"Pod {name} has {len(_results(claim))} devices, not {count}"
    bound_back = {(each["driver"], each["pool"], each["device"]) for each in _allocation(pod)}
    if bound_back != set(_devices(claim)):
        yield f"Pod {name}'s annotation and the allocation of claim {_name(claim)} differ"


def _containers(pod: Object) -> list[str]:
    return [each["name"] for each in (*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"])]


async def views(node: RealNode, picture: Picture) -> dict[tuple[str, str], list[str]]:
    """(Pod, container) -> the devices that it found in its environment."""
    return {
        (_name(pod), name): sorted((await node.wait_seen(pod, name)).devices)
        for pod in picture.pods
        if _name(pod) != TOO_BIG
        for name in _containers(pod)
    }


def view_table(seen: dict[tuple[str, str], list[str]]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for header in ("Pod", "container", "sees, in its own environment"):
        table.add_column(header, overflow="fold")
    for (pod, name), devices in seen.items():
        table.add_row(pod, name, " ".join(devices) or "-")
    return table


def unseen(picture: Picture, seen: dict[tuple[str, str], list[str]]) -> Iterator[str]:
    """Every container that does not see what the API server says it has been given."""
    for pod in picture.pods:
        claims = {each["name"]: each["resourceClaimName"] for each in pod["spec"].get("resourceClaims", ())}
        specs = [*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]]
        for spec in specs if _name(pod) != TOO_BIG else ():
            given = {
                "/".join((result["driver"], result["pool"], result["device"]))
                for use in spec["resources"].get("claims", ())
                for result in _results(picture.claims[claims[use["name"]]])
                if use.get("request") in (None, result["request"])
            }
            found = seen[_name(pod), spec["name"]]
            if found != sorted(given):
                yield f"container {spec['name']} of Pod {_name(pod)} sees {found}, and was given {sorted(given)}"


def said(variable: str) -> bool:
    return os.environ.get(variable, "") not in ("", "0")


@asynccontextmanager
async def own_cluster() -> AsyncIterator[tuple[Cluster, RealNode | None]]:
    real = said("REAL") and not said("BIND")  # a real node's kubelet is of 1.35 here
    if real and (lacks := missing()):
        raise AssertionError(f"a real node cannot run here, it lacks: {', '.join(lacks)}. Without REAL=1 it is played")
    program = binary()
    started = time.monotonic()
    version, overlay = (None, "bind") if said("BIND") else (KUBERNETES, "default")
    port = free_port()
    extender = [f"--extender-address=127.0.0.1:{port}"] if said("BIND") else []
    async with (
        ControlPlane(program, version, real_nodes=real) as plane,  # its directory goes, unless this fails
        real_node(plane) if real else played_nodes(plane) as node,
        AsyncExitStack() as stack,
    ):
        took = time.monotonic() - started
        console.print(f"Kubernetes {version or '1.37'} with {_described(node)}: {took:.1f} s")
        started = time.monotonic()
        async with Installation(plane, options=("--pending-every=1", *extender), overlay=overlay):
            if said("BIND"):
                scheduler = BindScheduler(plane, port)
                stack.callback(scheduler.stop)
                await scheduler.start()
            console.print(f"drabridge installed and running: {time.monotonic() - started:.1f} s")
            yield plane, node
            if said("KEEP"):
                await _keep(plane)


def _described(node: RealNode | None) -> str:
    if node is None:
        return "3 nodes with 8 devices each"
    return f"a real node with {sum(HARDWARE.values())} devices (kubelet, containerd, runc, {len(HARDWARE)} DRA drivers)"


@asynccontextmanager
async def played_nodes(plane: ControlPlane) -> AsyncIterator[None]:
    for number in range(3):
        version = "v1.37.0" if said("BIND") else "v1.35.0"
        node = await plane.add_node(f"node-{number}", devices=8, kubelet_version=version)
        await plane.add_devices(node, driver="nic.example.com", devices=2)
    kubelets = asyncio.create_task(plane.play_kubelets(finish_after=JOB_SECONDS))
    try:
        yield
    finally:
        kubelets.cancel()


@asynccontextmanager
async def real_node(plane: ControlPlane) -> AsyncIterator[RealNode]:
    hardware = {driver: Hardware.of(driver, count) for driver, count in HARDWARE.items()}
    async with RealNode(plane, "node-0", version=KUBERNETES, hardware=hardware) as node:
        yield node


async def _keep(plane: ControlPlane) -> None:
    command = f"kubectl get pods,resourceclaims,erp -n {NAMESPACE}"
    lines = (
        "\nLeft running until Ctrl-C. In another terminal:\n",
        f"  export KUBECONFIG={plane.kubeconfig_admin()}",
        f"  {command}",
        "\nWhere there is no kubectl, this one will do:\n",
        f"  {plane.binary} {command}\n",
    )
    console.print("\n".join(lines), soft_wrap=True, markup=False)
    with suppress(asyncio.CancelledError):  # Ctrl-C is how this is meant to end
        await asyncio.Event().wait()


@asynccontextmanager
async def existing_cluster(kubeconfig: str) -> AsyncIterator[tuple[Cluster, None]]:
    """The cluster that $KUBECONFIG names; it must have what the demo cannot bring along."""
    cluster = Cluster(kubeconfig=Path(kubeconfig), kubectl=("kubectl",), directory=REPOSITORY / "build")
    try:
        server = cluster.api.server
    except (OSError, ValueError, LookupError, TypeError, yaml.YAMLError) as error:
        wanted = "It must name one file, a kubeconfig with a current context"
        raise AssertionError(f"KUBECONFIG={kubeconfig} cannot be used: {error!r}. {wanted}") from error
    try:
        console.print(f"The cluster at {server} (KUBECONFIG={kubeconfig})", soft_wrap=True, markup=False)
        await check_requirements(cluster)
        await announce(cluster)
        if sys.stdin.isatty() and not said("YES") and not await confirmed():
            console.print("Nothing was changed")
            raise Told
        try:
            yield cluster, None
        finally:
            if said("KEEP"):
                remove = f"kubectl delete namespaces,erp,deviceclasses -l {LABEL}={NAMESPACE}"
                console.print(f"\nLeft there. To remove it:\n\n  {remove}\n", soft_wrap=True)
            else:
                await tidy(cluster)
                console.print("What the demo made there is removed")
    finally:
        await cluster.close()


async def check_requirements(cluster: Cluster) -> None:
    status, configuration = await cluster.api.request("GET", CONFIGURATION)
    if status not in (200, 404):
        raise Refused(f"GET {CONFIGURATION}", status, configuration)
    if status == 404 or not configuration["webhooks"][0]["clientConfig"].get("caBundle"):
        raise AssertionError(
            "drabridge is not installed or not running there: kubectl apply --server-side -k manifests/overlays/default"
        )
    slices = await cluster.api.call("GET", "/apis/resource.k8s.io/v1/resourceslices")
    if missing := DRIVERS - {each["spec"]["driver"] for each in slices["items"]}:
        raise AssertionError(f"no DRA driver publishes devices there as {', '.join(sorted(missing))}")
    if await is_ours(cluster, NAMESPACE_PATH) is False:
        raise AssertionError(
            f"namespace {NAMESPACE} is there and not the demo's (it has no label {LABEL}={NAMESPACE}): "
            "the demo would delete it. Delete it yourself if nobody needs it"
        )


async def announce(cluster: Cluster) -> None:
    """Say what will be done, before it is."""
    console.print("will get, until the demo ends:" if not said("KEEP") else "will get:")
    again = " (the one of an earlier demo is deleted)" if await is_ours(cluster, NAMESPACE_PATH) else ""
    console.print(f"  Namespace {NAMESPACE} with the workloads of examples/{again}")
    for _, body in manifests():
        if (kind := body["kind"]) in CLUSTER_SCOPED:
            foreign = await is_ours(cluster, f"{COLLECTIONS[kind]}/{_name(body)}") is False
            console.print(f"  {kind} {_name(body)}{': there already, is used as it is' if foreign else ''}")


async def confirmed() -> bool:
    """Ask. Not by input(), which would keep Ctrl-C from this loop."""
    console.print("Go on? [y/N] ", end="", markup=False)
    typed = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin, typed.set)
    try:
        await typed.wait()
    finally:
        asyncio.get_running_loop().remove_reader(sys.stdin)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


async def show(cluster: Cluster, node: RealNode | None) -> None:
    """Apply the examples, watch them get their devices, let the Job finish. Raises AssertionError if it goes wrong."""
    began = time.monotonic()
    await remove_namespace(cluster)
    await cluster.add_namespace(NAMESPACE, labels={LABEL: NAMESPACE})
    for path, body in manifests():
        made = await apply(cluster, body)
        console.print(f"{'applied' if made else 'left as it is'}: {body['kind']} {_name(body)} (examples/{path.name})")
    started = time.monotonic()
    claims: dict[str, Object] = {}
    before = await watch_until(cluster, "every Pod has its devices, or its reason", settled, claims)
    before.claims = claims  # the Job may have finished before the last Pod ran
    console.print(f"\nAll Pods are served after {time.monotonic() - started:.1f} s\n")
    console.print(result_table(before))
    seen = await views(node, before) if node else {}
    if node:
        console.print(view_table(seen))
    training = before.of("training")
    names = {_claim_name(pod) for pod in training}
    after = await watch_until(cluster, "the Job's claims are gone", lambda picture: not names & picture.claims.keys())
    freed = sum(len(_results(claim)) for name, claim in before.claims.items() if name in names)
    console.print(f"\nThe Job has finished: {freed} devices are free again, its claims are gone")
    if faults := [*checked(before, after, training), *(unseen(before, seen) if node else ())]:
        raise AssertionError("\n  ".join(("what the API server shows is wrong:", *faults)))
    console.print(f"[green]All as it should be[/green] after {time.monotonic() - began:.1f} s")


def tell(error: Exception) -> None:
    console.print(f"[red]The demo failed:[/red] {escape(str(error) or repr(error))}", soft_wrap=True)


async def main() -> int:
    kubeconfig = os.environ.get("KUBECONFIG", "")
    try:
        async with existing_cluster(kubeconfig) if kubeconfig else own_cluster() as (cluster, node):
            try:
                await show(cluster, node)
            except FAILURES as error:  # said before it is tidied up, which may fail as well
                tell(error)
                raise Told from error
    except Told:
        return 1
    except FAILURES as error:
        tell(error)
        return 1
    return 0


if __name__ == "__main__":
    try:
        sys.exit(asyncio.run(main()))
    except KeyboardInterrupt:
        sys.exit(130)
