"""What policies, LimitRanges and ResourceQuotas let through of Pods that are yet to come, before any scheduling."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from drabridge.core.claimspec import total
from drabridge.core.cluster import ClusterView
from drabridge.core.inventory.cluster import Inventory
from drabridge.core.inventory.pods import PodRecord
from drabridge.core.quantity import Quantity
from drabridge.core.reasons import CURES, Reason
from drabridge.core.rewrite import LEFT_RULES, QUANTITY_RULES, NameAsk, Objection, demands, object_to

_NAME_LABEL: Final = "kubernetes.io/metadata.name"
"""The API server puts it on every namespace."""


class Admitted:
    """A cluster as Pods meet it on their way in; it keeps count of what they ask for."""

    def __init__(self, cluster: Inventory) -> None:
        self._cluster = cluster
        self._views: dict[str, ClusterView] = {}
        self._bounded = bool(cluster.policies or cluster.limit_ranges or cluster.quotas)
        self._asked: defaultdict[tuple[str, str], int] = defaultdict(int)
        for pod in cluster.pods if cluster.quotas else ():
            if pod.view.uid and not pod.ended:
                self._count(pod)

    def left(self, pod: PodRecord) -> Mapping[str, Objection]:
        """The names that drabridge leaves on the Pod, and why, of those whose quantities can be read."""
        if not self._bounded:
            return {}
        found = {}
        for ask in self._asks(pod):
            if objection := object_to(pod.view, ask, self._view(pod.view.namespace), LEFT_RULES):
                found[ask.resource] = objection
        return found

    def refused(self, pod: PodRecord, left: Mapping[str, Objection]) -> str:
        """Why the API server would not take the Pod, "" if it does; a Pod that has a uid was taken already."""
        if pod.view.uid or not self._bounded:
            return ""
        for objection in left.values():
            if objection.reason is Reason.LIMIT_EXCEEDED:
                return f"{objection.detail}; {CURES[objection.reason]}"
        wanted = {ask.resource: _devices(pod, ask) for ask in self._asks(pod)}
        for quota in self._cluster.quotas_of.get(pod.view.namespace, ()):
            for name in sorted(wanted.keys() & quota.capped.keys() if not (quota.scoped or quota.stands_in) else ()):
                before = self._asked[pod.view.namespace, name]
                if Quantity.parse(str(before + wanted[name])) > Quantity.parse(quota.capped[name]):
                    return (
                        f"ResourceQuota {quota.key} has requests.{name}: {quota.capped[name]}, Pods ask for {before}"
                        f" already, this one for {wanted[name]}"
                    )
        self._count(pod)
        return ""

    def _count(self, pod: PodRecord) -> None:
        for ask in self._asks(pod):
            self._asked[pod.view.namespace, ask.resource] += _devices(pod, ask)
        for request in pod.asked.requests if pod.asked else ():  # a rewritten Pod does not name them any more
            self._asked[pod.view.namespace, request.resource] += request.count

    def _asks(self, pod: PodRecord) -> Iterator[NameAsk]:
        """What the Pod asks for by name; what is no number of devices is left out, others say what is wrong there."""
        asks = pod.view.extended()
        for name in sorted({ask.resource for ask in asks}):
            found = NameAsk(name, tuple(ask for ask in asks if ask.resource == name), settled=False)
            if object_to(pod.view, found, self._cluster.cluster_view, QUANTITY_RULES) is None:
                yield found

    def _view(self, namespace: str) -> ClusterView:
        if namespace not in self._views:
            view = self._cluster.cluster(namespace)
            labels = {_NAME_LABEL: namespace, **view.namespace.labels}
            self._views[namespace] = replace(view, namespace=replace(view.namespace, labels=labels))
        return self._views[namespace]


def _devices(pod: PodRecord, ask: NameAsk) -> int:
    return total(demands(pod.view, [ask]), ask.resource)
