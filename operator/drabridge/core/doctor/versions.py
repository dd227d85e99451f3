"""Feature gates and versions: of the control plane, of the kubelets, of the API that clients use."""

from __future__ import annotations

from collections.abc import Iterator

from drabridge.core.auto import kubelet_is_native
from drabridge.core.cluster import Gate
from drabridge.core.doctor import links
from drabridge.core.doctor.findings import Finding, Severity, check, counted, listed
from drabridge.core.inventory.cluster import Inventory, Kind
from drabridge.core.inventory.gathering import FEATURE, GATE_BETA
from drabridge.core.inventory.pods import Component, version_of

API_SINCE = (1, 34)
"""The first version that serves resource.k8s.io/v1."""

KUBELET_BEHIND = 3
"""Minor versions that a kubelet may be older than the API server."""


def _components(cluster: Inventory) -> list[tuple[str, Component]]:
    return [(each.view.name, each.component) for each in cluster.pods if each.component]


def _shown(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


@check(
    "server-too-old",
    Severity.ERROR,
    cure="upgrade the control plane to Kubernetes 1.34 or newer",
    serves="trap: resource.k8s.io/v1 is there from 1.34 on, and drabridge knows no other",
    link=links.DEPRECATIONS,
    needs=(),
)
def server_too_old(cluster: Inventory) -> Iterator[Finding]:
    """The API server does not serve resource.k8s.io/v1."""
    if cluster.server and cluster.server < API_SINCE:
        yield Finding("API server", f"its version is {_shown(cluster.server)}")


@check(
    "control-plane-versions-differ",
    Severity.WARNING,
    cure="finish the upgrade; until then do not count on native delivery (delivery: Auto waits for it by itself)",
    serves="pain 99: KEP-5004, upgrade and downgrade",
    link=links.SKEW,
    needs=(Kind.PODS,),
)
def control_plane_versions_differ(cluster: Inventory) -> Iterator[Finding]:
    """Parts of the control plane run different versions: what one API server stores, another one may drop."""
    versions: dict[tuple[int, int], list[str]] = {}
    for name, component in _components(cluster):
        if component.version:
            versions.setdefault(component.version, []).append(name)
    if len(versions) > 1:
        seen = "; ".join(f"{_shown(version)}: {listed(names)}" for version, names in sorted(versions.items()))
        yield Finding("control plane", seen)


@check(
    "control-plane-gates-differ",
    Severity.ERROR,
    cure="give all components the same --feature-gates",
    serves="pain 52: dranet#141, gate on in one component only",
    link=links.GATES,
    needs=(Kind.PODS,),
)
def control_plane_gates_differ(cluster: Inventory) -> Iterator[Finding]:
    """A feature gate of DRA is on in one part of the control plane and off in another."""
    components = _components(cluster)
    gates = {gate for _, each in components for gate in each.gates}
    for gate in sorted(gate for gate in gates if gate.startswith(("DRA", "DynamicResource"))):
        states: dict[bool, list[str]] = {True: [], False: []}
        for name, each in components:
            state = each.gates.get(gate, _default(gate, each))
            if state is not None:
                states[state].append(name)
        if states[True] and states[False]:
            yield Finding("control plane", f"{gate} is on in {listed(states[True])}, off in {listed(states[False])}")


def _default(gate: str, component: Component) -> bool | None:
    """What an unset gate is; known here for the one gate that all components must share."""
    if gate != FEATURE or component.version is None:
        return None
    return component.version >= GATE_BETA


@check(
    "kubelets-before-native",
    Severity.WARNING,
    cure="upgrade these kubelets to 1.36 or newer, or cordon the nodes; drabridge rewrites Pods until then",
    serves="trap: KEP-5004, a kubelet without the feature starts such Pods without their devices",
    link=links.KEP_5004,
    needs=(Kind.NODES, Kind.CLASSES),
)
def kubelets_before_native(cluster: Inventory) -> Iterator[Finding]:
    """The native feature is on, and some kubelets do not know it: Pods that it serves run there without devices."""
    if cluster.gate is not Gate.ON or not cluster.classes:
        return
    old: dict[str, list[str]] = {}
    for node in cluster.nodes:
        if node.kubelet and not node.unschedulable and not kubelet_is_native(node.kubelet):
            old.setdefault(node.kubelet, []).append(node.name)
    for version, names in sorted(old.items()):
        yield Finding(f"kubelets {version}", f"{counted(len(names), 'schedulable node')}: {listed(names)}")


@check(
    "kubelet-skew",
    Severity.WARNING,
    cure="bring the kubelets to a version that is not newer than the API server, and at most three minors older",
    serves="pain 99: talos#10979, upgrades in the wrong order",
    link=links.SKEW,
    needs=(Kind.NODES,),
)
def kubelet_skew(cluster: Inventory) -> Iterator[Finding]:
    """A kubelet's version does not go with that of the API server."""
    if cluster.server is None:
        return
    odd: dict[str, list[str]] = {}
    for node in cluster.nodes:
        version = version_of(node.kubelet)
        if version and not 0 <= cluster.server[1] - version[1] <= KUBELET_BEHIND:
            odd.setdefault(node.kubelet, []).append(node.name)
    for kubelet, names in sorted(odd.items()):
        shown = f"{counted(len(names), 'node')}: {listed(names)}; the API server is {_shown(cluster.server)}"
        yield Finding(f"kubelets {kubelet}", shown)


@check(
    "special-claims-without-gate",
    Severity.WARNING,
    cure="delete the Pods that use them, then the claims; see KEP-5004 on switching the feature off",
    serves="pain 98: kubernetes#138447, special claims linger after the gate went off",
    link=links.issue(138447),
    needs=(Kind.CLAIMS,),
)
def special_claims_without_gate(cluster: Inventory) -> Iterator[Finding]:
    """The native feature is off, and a claim that kube-scheduler made for it is left over."""
    if cluster.gate is Gate.OFF:
        for claim in cluster.claims:
            if claim.view.special:
                held = "holds devices" if claim.results else "holds no device"
                yield Finding(claim.described, f"it is of Pod {claim.view.owner_name or 'unknown'} and {held}")


@check(
    "native-pods-hold-the-gate",
    Severity.INFO,
    cure="delete these Pods before the gate is switched off or the control plane goes back to an older version",
    serves="pain 99: KEP-5004, running Pods with special claims and a planned downgrade",
    link=links.KEP_5004,
    needs=(Kind.PODS,),
)
def native_pods_hold_the_gate(cluster: Inventory) -> Iterator[Finding]:
    """Pods run with devices that the native feature gave them: without it, track of these devices is lost."""
    if cluster.gate is Gate.ON:
        running = [each.key for each in cluster.pods if each.view.extended_claim and not each.ended]
        if running:
            yield Finding(counted(len(running), "Pod"), f"status.extendedResourceClaimStatus is set: {listed(running)}")


@check(
    "beta-manifests",
    Severity.WARNING,
    cure="convert them: drabridge convert",
    serves="pain 100: k8s-test-infra#600, v1beta1 goes in 1.38 and v1beta2 in 1.39",
    link=links.DEPRECATIONS,
    needs=(),
)
def beta_manifests(cluster: Inventory) -> Iterator[Finding]:
    """A manifest uses a beta version of resource.k8s.io."""
    for use in cluster.beta:
        if not use.manager:
            yield Finding(use.example, f"apiVersion is {use.api_version}; {use.count} of kind {use.kind}")


@check(
    "beta-clients",
    Severity.WARNING,
    cure="update that client to one that uses resource.k8s.io/v1",
    serves="pain 100: clients and drivers that break when the beta versions go",
    link=links.DEPRECATIONS,
    needs=(),
)
def beta_clients(cluster: Inventory) -> Iterator[Finding]:
    """A client writes DRA's objects in a beta version of resource.k8s.io."""
    for use in cluster.beta:
        if use.manager:
            seen = f"it wrote {counted(use.count, use.kind)} as {use.api_version}, for instance {use.example}"
            yield Finding(f"field manager {use.manager}", seen)


@check(
    "gate-unknown",
    Severity.INFO,
    cure="give rights to create DeviceClasses as a dry run, or say kubectl version -o json in the files",
    serves="pain 16: dra-driver-nvidia-gpu#738, users do not know whether the gate is on",
    link=links.GATES,
    needs=(),
)
def gate_unknown(cluster: Inventory) -> Iterator[Finding]:
    """Nothing shows whether the API server's gate DRAExtendedResource is on."""
    if cluster.gate is Gate.UNKNOWN:
        yield Finding("API server", "neither its version nor an object says so")


CHECKS = (
    server_too_old,
    control_plane_versions_differ,
    control_plane_gates_differ,
    kubelets_before_native,
    kubelet_skew,
    special_claims_without_gate,
    native_pods_hold_the_gate,
    beta_manifests,
    beta_clients,
    gate_unknown,
)
