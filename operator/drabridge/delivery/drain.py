"""Leaving: no new Pods are rewritten or sent to our scheduler, and those that were have what they need without us."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from drabridge.core.caps import COMPANION_OF
from drabridge.core.errors import InvalidInput, Missing
from drabridge.core.podview import PodView
from drabridge.core.rewrite import DELIVERY_LABEL, our_claim
from drabridge.delivery.bindterm import WAKEUP
from drabridge.kube.client import Client
from drabridge.kube.resources import (
    DEVICE_CLASSES,
    EXTENDED_RESOURCE_POLICIES,
    MUTATING_WEBHOOK_CONFIGURATIONS,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_QUOTAS,
)

CONFIGURATION = "drabridge"


@dataclass(frozen=True, slots=True)
class Remains:
    """What there still is of drabridge's in the cluster.

    `without_claim` are rewritten Pods (namespace/name) that still need the operator; `running` counts those that have
    their claim, which Kubernetes frees and deletes with them. `companions` are quotas (namespace/name) that go on
    capping claims for as long as the quotas that they stand in for are there.

    `unbound` are Pods (namespace/name) that only our kube-scheduler would give a node (Bind); `bound` counts those that
    it has given one. Their claims are Kubernetes' to free as well. `wakeup` is whether our own DeviceClass is there,
    which no manifest names.
    """

    without_claim: tuple[str, ...]
    running: int
    unbound: tuple[str, ...]
    bound: int
    policies: int
    companions: tuple[str, ...]
    wakeup: bool

    @property
    def needs_us(self) -> bool:
        """Whether some Pods would wait for ever without drabridge."""
        return bool(self.without_claim or self.unbound)


async def switch_off(client: Client) -> bool:
    """Delete the webhook configuration, so that no further Pod is rewritten; whether there was one."""
    try:
        await client.delete(MUTATING_WEBHOOK_CONFIGURATIONS, None, CONFIGURATION)
    except Missing:
        return False
    return True


async def remains(client: Client, bind_scheduler: str) -> Remains:
    """Look at what is left, live. `bind_scheduler` is the schedulerName of the profile that calls our extender."""
    claims = {
        f"{item['metadata']['namespace']}/{item['metadata']['name']}"
        for item in await client.list_all(RESOURCE_CLAIMS, metadata_only=True)
    }
    pods = list(_waiting_or_running(await client.list_all(PODS, label_selector=DELIVERY_LABEL)))
    without = [key for key, claim in pods if claim not in claims]
    companions = [
        f"{item['metadata']['namespace']}/{item['metadata']['name']}"
        for item in await client.list_all(RESOURCE_QUOTAS, label_selector=COMPANION_OF, metadata_only=True)
    ]
    try:
        policies = len(await client.list_all(EXTENDED_RESOURCE_POLICIES, metadata_only=True))
    except Missing:  # the definition is gone already
        policies = 0
    scheduled = await client.list_all(PODS, field_selector=f"spec.schedulerName={bind_scheduler}")
    ours = [pod for pod in _readable(scheduled) if _has_not_ended(pod)]
    classes = await client.list_all(DEVICE_CLASSES, field_selector=f"metadata.name={WAKEUP}", metadata_only=True)
    return Remains(
        without_claim=tuple(sorted(without)),
        running=len(pods) - len(without),
        unbound=tuple(sorted(pod.key for pod in ours if not pod.node_name)),
        bound=sum(bool(pod.node_name) for pod in ours),
        policies=policies,
        companions=tuple(sorted(companions)),
        wakeup=bool(classes),
    )


def _waiting_or_running(items: Iterable[dict[str, object]]) -> Iterable[tuple[str, str]]:
    """Key of each rewritten Pod that has not ended, and of its claim."""
    for pod in _readable(items):
        entry = our_claim(pod)
        if entry and _has_not_ended(pod):
            yield pod.key, f"{pod.namespace}/{entry.claim_name}"


def _readable(items: Iterable[dict[str, object]]) -> Iterable[PodView]:
    for raw in items:
        with suppress(InvalidInput):
            yield PodView.of(raw)


def _has_not_ended(pod: PodView) -> bool:
    return not pod.deleting and pod.phase not in ("Succeeded", "Failed")
