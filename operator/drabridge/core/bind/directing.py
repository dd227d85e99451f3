"""Which Pods are sent to the kube-scheduler that calls us."""

from __future__ import annotations

from collections.abc import Iterable

from drabridge.core.podpatch import JSONPatch, set_labels
from drabridge.core.podview import PodView
from drabridge.core.policy import Delivery
from drabridge.core.reasons import Reason
from drabridge.core.rewrite import DELIVERY_LABEL, Objection


def directed(pod: PodView, objections: Iterable[Objection], scheduler: str, *, rewritten: bool = False) -> JSONPatch:
    """Let the Pod go to `scheduler` if one of its names is served by Bind; nothing if none is.

    What is rewritten of such a Pod is allocated there as well. `rewritten`: its label says so already, and stays.
    """
    if not any(each.reason is Reason.BIND for each in objections):
        return []
    patch: JSONPatch = []
    if pod.scheduler_name != scheduler:
        patch.append({"op": "add", "path": "/spec/schedulerName", "value": scheduler})
    return patch if rewritten else patch + set_labels(pod, {DELIVERY_LABEL: Delivery.BIND.value})
