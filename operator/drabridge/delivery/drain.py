"""Leaving: no new Pods are rewritten, and those that were have what they need without us."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from drabridge.core.caps import COMPANION_OF
from drabridge.core.errors import InvalidInput, Missing
from drabridge.core.podview import PodView
from drabridge.core.rewrite import DELIVERY_LABEL, our_claim
from drabridge.kube.client import Client
from drabridge.kube.resources import (
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
    """

    without_claim: tuple[str, ...]
    running: int
    policies: int
    companions: tuple[str, ...]


async def switch_off(client: Client) -> bool:
    """Delete the webhook configuration, so that no further Pod is rewritten; whether there was one."""
    try:
        await client.delete(MUTATING_WEBHOOK_CONFIGURATIONS, None, CONFIGURATION)
    except Missing:
        return False
    return True


async def remains(client: Client) -> Remains:
    """Look at what is left, live."""
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
    return Remains(tuple(sorted(without)), len(pods) - len(without), policies, tuple(sorted(companions)))


def _waiting_or_running(items: Iterable[dict[str, object]]) -> Iterable[tuple[str, str]]:
    """Key of each rewritten Pod that has not ended, and of its claim."""
    for raw in items:
        try:
            pod = PodView.of(raw)
        except InvalidInput:
            continue
        entry = our_claim(pod)
        if entry and not pod.deleting and pod.phase not in ("Succeeded", "Failed"):
            yield pod.key, f"{pod.namespace}/{entry.claim_name}"
