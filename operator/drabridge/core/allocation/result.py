"""The AllocationResult of a claim, from the devices that were picked (section 10 of the behaviour)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from drabridge.core.allocation.claims import Claim
from drabridge.core.allocation.nodes import NAME_FIELD, Node
from drabridge.core.allocation.outcomes import AllocationError
from drabridge.core.allocation.pools import Layout
from drabridge.core.allocation.problem import Goal, Problem
from drabridge.core.allocation.reading import Raw
from drabridge.core.allocation.search import Pick, Solution

NewShareID = Callable[[], str]
"""Gives a fresh shareID (a UUID) at each call."""


def results(
    claims: Sequence[Claim], solution: Solution, problem: Problem, layout: Layout, node: Node, new_share: NewShareID
) -> tuple[dict[str, Any], ...]:
    """Write the results of all claims. Raises AllocationError where upstream cannot write a node selector."""
    by_claim: list[list[Pick]] = [[] for _ in claims]
    for pick in solution.picks:
        by_claim[pick.goal.want.claim].append(pick)
    return tuple(
        _Writer(claim, solution.chosen[index], problem, layout, node, new_share).result(by_claim[index])
        for index, claim in enumerate(claims)
    )


class _Writer:
    def __init__(
        self,
        claim: Claim,
        chosen: tuple[Goal, ...],
        problem: Problem,
        layout: Layout,
        node: Node,
        new_share: NewShareID,
    ) -> None:
        self._claim = claim
        self._chosen = chosen
        self._problem = problem
        self._layout = layout
        self._node = node
        self._new_share = new_share

    def result(self, picks: Sequence[Pick]) -> dict[str, Any]:
        devices: dict[str, Any] = {}
        if picks:
            devices["results"] = [self._device(pick) for pick in picks]
        config = self._config()
        if config:
            devices["config"] = config
        found: dict[str, Any] = {"devices": devices}
        selector = self._node_selector(picks)
        if selector:
            found["nodeSelector"] = selector
        return found

    def _device(self, pick: Pick) -> dict[str, Any]:
        want = pick.goal.want
        features = self._problem.demand.features
        pool, place = self._layout.pool_at(pick.position)
        slice_, index = pool.at(place)
        device = slice_.devices[index]
        found: dict[str, Any] = {
            "request": want.ask.full_name,
            "driver": pool.key[0],
            "pool": pool.key[1],
            "device": pool.names[place],
        }
        if want.is_admin:
            found["adminAccess"] = True
        if want.ask.raw_tolerations:
            found["tolerations"] = list(want.ask.raw_tolerations)
        if features.binding_conditions:
            for name in ("bindingConditions", "bindingFailureConditions"):
                if device.get(name):
                    found[name] = list(device[name])
        if features.consumable_capacity and device.get("allowMultipleAllocations") is True:
            found["shareID"] = self._new_share()
            charge = pick.goal.charges[self._problem.shape.class_of[pick.position]]
            if charge is not None and charge.texts:
                found["consumedCapacity"] = dict(charge.texts)
        if slice_.skips_operations:
            found["skipNodeOperations"] = list(slice_.skips_operations)
        return found

    def _config(self) -> list[dict[str, Any]]:
        if not self._claim.config and not any(goal.want.device_class.config for goal in self._chosen):
            return []
        names = [goal.want.ask.full_name for goal in self._chosen]
        users: dict[str, list[str]] = {}
        for goal in self._chosen:
            users.setdefault(goal.want.device_class.name, []).append(goal.want.ask.full_name)
        classes = {goal.want.device_class.name: goal.want.device_class for goal in self._chosen}
        found = [
            {"source": "FromClass", "requests": list(users[name]), **config}
            for name, device_class in classes.items()
            for config in device_class.config
        ]
        known = {*names, *(goal.want.request.name for goal in self._chosen)}
        for config in self._claim.config:
            requests = config.get("requests") or []
            if not requests or not known.isdisjoint(requests):
                found.append({"source": "FromClaim", **config, "requests": list(requests)})
        for config in found:
            covered = set(config["requests"])
            if all(goal.want.request.name in covered or goal.want.ask.full_name in covered for goal in self._chosen):
                config["requests"] = []
            if not config["requests"]:
                del config["requests"]
        return found

    def _node_selector(self, picks: Sequence[Pick]) -> dict[str, Any] | None:
        fields: list[Raw] = []
        labels: list[Raw] = []
        for pick in picks:
            pool, place = self._layout.pool_at(pick.position)
            slice_, index = pool.at(place)
            device = slice_.devices[index]
            home: Raw = device if slice_.per_device is True else slice_.spec
            if home.get("nodeName") is not None or device.get("bindsToNode") is True:
                return self._this_node()
            selector = home.get("nodeSelector")
            if selector is not None:
                self._merge(selector, fields, labels)
        term = {name: values for name, values in (("matchExpressions", labels), ("matchFields", fields)) if values}
        return {"nodeSelectorTerms": [term]} if term else None

    def _this_node(self) -> dict[str, Any]:
        return {
            "nodeSelectorTerms": [{"matchFields": [{"key": NAME_FIELD, "operator": "In", "values": [self._node.name]}]}]
        }

    def _merge(self, selector: Mapping[str, Any], fields: list[Raw], labels: list[Raw]) -> None:
        terms = selector.get("nodeSelectorTerms") or []
        if len(terms) != 1:
            raise AllocationError(
                self._claim.object,
                "",
                f"create NodeSelector for claim {self._claim.name}: "
                f"unsupported ResourceSlice.NodeSelector with {len(terms)} terms",
                "the driver has to publish node selectors of one term",
            )
        for values, name in ((fields, "matchFields"), (labels, "matchExpressions")):
            for requirement in terms[0].get(name) or ():
                if not any(_is_same(requirement, known) for known in values):
                    values.append(requirement)


def _is_same(one: Raw, other: Raw) -> bool:
    return (
        one.get("key") == other.get("key")
        and one.get("operator") == other.get("operator")
        and set(one.get("values") or ()) == set(other.get("values") or ())
    )
