"""The allocator as plainly as it can be written: a third opinion beside ours and upstream's, for small inputs.

Nothing is cached, undone or cut short. A state is the tuple of devices picked so far, and whatever is to be known
about it (counters, groups, capacity, constraints) is worked out from that tuple each time. It knows the experimental
flavour of k8s.io/dynamic-resource-allocation v0.37.2, its errors' texts and its count of steps. It shares with ours
the CEL engine and the reading of quantities, and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import Any

from drabridge.core.cel import cost
from drabridge.core.cel.checker import check
from drabridge.core.cel.device import BadDevice, DeviceView
from drabridge.core.cel.diagnostics import SourceError
from drabridge.core.cel.environment import stored_expressions
from drabridge.core.cel.operators import go_type
from drabridge.core.cel.parser import parse
from drabridge.core.cel.plan import Halted, Plan
from drabridge.core.cel.planner import InstantiationError, plan
from drabridge.core.cel.selector import CompileError, Selector, SelectorError, compile_selector
from drabridge.core.cel.semver import Semver
from drabridge.core.cel.types import ANY, BOOL, DYN, INT, SEMVER, STRING
from drabridge.core.cel.validation import validate
from drabridge.core.cel.values import CelError
from drabridge.core.quantity import Quantity

Object = Mapping[str, Any]
DeviceID = tuple[str, str, str]
MOST_RESULTS = 32
INT64 = 2**63 - 1
OPTIONAL_NODE_OPERATIONS = "DRAOptionalNodeOperations"


class Fatal(Exception):
    """An error that ends the call, with upstream's text."""


class NodeOnly(Fatal):
    """The one error that concerns this node only."""


class TooLarge(Exception):
    """More devices than a claim may have. It passes over alternatives until a list has another entry to try."""


class Steps(Exception):
    """The search took more steps than it was given."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """A device of the node, at its place in the search order."""

    id: DeviceID
    device: Object
    slice: Object
    pool: Pool


@dataclass(eq=False)
class Pool:
    driver: str
    name: str
    incomplete: bool = False
    invalid: bool = False
    candidates: list[Candidate] = field(default_factory=list)
    remote: list[tuple[DeviceID, Object]] = field(default_factory=list)
    counters: dict[tuple[str, str], Fraction] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.driver}/{self.name}"


@dataclass(frozen=True, eq=False)
class Asked:
    """A request, or one entry of its list."""

    claim: int
    parent: str | None
    body: Object
    class_: Object
    need: int
    fixed: Sequence[Candidate] | None

    @property
    def name(self) -> str:
        own = str(self.body["name"])
        return f"{self.parent}/{own}" if self.parent is not None else own

    @property
    def admin(self) -> bool:
        return bool(self.body.get("adminAccess"))

    def named_by(self, requests: Sequence[str]) -> bool:
        return self.name in requests or self.parent in requests


@dataclass(frozen=True, eq=False)
class Pick:
    asked: Asked
    candidate: Candidate
    shared: bool
    paid: bool
    consumed: Mapping[str, Amount]


@dataclass(frozen=True, eq=False)
class State:
    picks: tuple[Pick, ...] = ()
    chosen: tuple[Asked, ...] = ()

    def of_claim(self, claim: int) -> list[Pick]:
        return [pick for pick in self.picks if pick.asked.claim == claim]

    def of_device(self, id_: DeviceID) -> list[Pick]:
        return [pick for pick in self.picks if pick.candidate.id == id_]


def answer(scenario: Object, *, most_steps: int = 100_000) -> dict[str, Any]:
    """Give the answer to a scenario. Raises Steps if the search takes more than so many."""
    model = Model(scenario, most_steps)
    answered: dict[str, Any] = {"id": scenario.get("id", ""), "results": None, "error": None}
    try:
        answered["results"] = model.allocate()
    except Fatal as error:
        answered["error"] = str(error)
        if isinstance(error, NodeOnly):
            answered["errorOnNodeOnly"] = True
    answered["allocateOneInvocations"] = model.steps
    return answered


# Quantities


@dataclass(frozen=True)
class Amount:
    """A quantity with the text it was written with; no text if it was computed."""

    value: Fraction
    text: str | None

    @classmethod
    def of(cls, written: Any) -> Amount:
        text = str(written)
        read = Quantity.parse(text)
        return cls(Fraction(read.mantissa) * Fraction(10) ** read.exponent, text)

    @property
    def is_long(self) -> bool:
        """Upstream keeps it in another form, and finds no two of those equal."""
        digits = len(re.findall(r"\d", (self.text or "").split("e")[0].split("E")[0].strip("+-")))
        bits = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}.get((self.text or "")[-2:])
        return digits > 18 if bits is None else digits + int(0.3 * bits) > 14

    def is_default(self, policy: Object) -> bool:
        if policy.get("default") is None:
            return False
        default = Amount.of(policy["default"])
        return self.text is not None and self.text == default.text and not self.is_long

    def __str__(self) -> str:
        return str(Quantity.parse(self.text)) if self.text else str(self.value)


def away_from_zero(value: Fraction) -> int:
    return ceil(value) if value >= 0 else -ceil(-value)


def in_thousandths(value: Fraction) -> int | None:
    """None for what is no whole number of thousandths, or beyond int64."""
    scaled = value * 1000
    return int(scaled) if scaled.denominator == 1 and abs(scaled) <= INT64 else None


# Nodes


def selects(selector: Object, node: Object) -> bool:
    """Whether a node selector matches. Raises ValueError for one that cannot be parsed."""
    terms = [term for term in selector.get("nodeSelectorTerms") or () if any(term.values())]
    for term in terms:
        for requirement in term.get("matchExpressions") or ():
            check_label_requirement(requirement)
        for requirement in term.get("matchFields") or ():
            check_field_requirement(requirement)
    labels = node["metadata"].get("labels") or {}
    name = node["metadata"].get("name", "")
    return any(
        all(label_matches(each, labels) for each in term.get("matchExpressions") or ())
        and all(field_matches(each, name) for each in term.get("matchFields") or ())
        for term in terms
    )


NAME = r"([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]"
DOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"


def check_label_requirement(requirement: Object) -> None:
    values = requirement.get("values") or []
    counts = {"In": values, "NotIn": values, "Exists": not values, "DoesNotExist": not values}
    operator = requirement.get("operator")
    is_int = len(values) == 1 and re.fullmatch(r"[+-]?[0-9]+", values[0]) and abs(int(values[0])) <= INT64
    if not (counts | {"Gt": is_int, "Lt": is_int}).get(operator or ""):
        raise ValueError(f"operator {operator} with {values}")
    if not re.fullmatch(f"({DOMAIN}/)?{NAME}", requirement["key"]):
        raise ValueError(f"key {requirement['key']}")
    if not all(re.fullmatch(f"({NAME})?", value) for value in values):
        raise ValueError(f"values {values}")


def check_field_requirement(requirement: Object) -> None:
    if requirement.get("operator") not in ("In", "NotIn") or len(requirement.get("values") or ()) != 1:
        raise ValueError(f"field {requirement}")


def label_matches(requirement: Object, labels: Mapping[str, str]) -> bool:
    label, values = labels.get(requirement["key"]), requirement.get("values") or []
    operator = requirement["operator"]
    if operator in ("Gt", "Lt"):
        if label is None or not re.fullmatch(r"[+-]?[0-9]+", label):
            return False
        return int(label) > int(values[0]) if operator == "Gt" else int(label) < int(values[0])
    known: dict[str, bool] = {
        "In": label in values,
        "NotIn": label not in values,
        "Exists": label is not None,
        "DoesNotExist": label is None,
    }
    return known[operator]


def field_matches(requirement: Object, name: str) -> bool:
    value = name if requirement["key"] == "metadata.name" else ""
    return bool((value == requirement["values"][0]) == (requirement["operator"] == "In"))


def node_matches(holder: Object, node: Object) -> bool:
    """By the first of nodeName, allNodes and nodeSelector. Raises ValueError."""
    if holder.get("nodeName"):
        return bool(holder["nodeName"] == node["metadata"].get("name"))
    if holder.get("allNodes"):
        return True
    return holder.get("nodeSelector") is not None and selects(holder["nodeSelector"], node)


# Attributes and CEL

SCALARS = ("string", "int", "bool", "version")


def as_scalar(attribute: Object) -> tuple[str, Any] | None:
    """Type and value; None for a list and for what has no value."""
    return next(((type_, attribute[type_]) for type_ in SCALARS if attribute.get(type_) is not None), None)


def as_set(attribute: Object) -> tuple[str, frozenset[Any]] | None:
    """Type and values, of scalars and of lists; None for an empty list and for what has no value."""
    for type_ in SCALARS:
        if attribute.get(f"{type_}s"):
            return type_, frozenset(attribute[f"{type_}s"])
    scalar = as_scalar(attribute)
    return scalar and (scalar[0], frozenset({scalar[1]}))


@lru_cache(maxsize=500)
def selector_of(expression: str) -> Selector | CompileError:
    try:
        return compile_selector(expression)
    except CompileError as error:
        return error


@lru_cache(maxsize=500)
def derivation_of(expression: str) -> Plan | str:
    """The expression of a derived attribute, or why it is none."""
    environment = stored_expressions()
    try:
        checked = check(parse(expression), environment)
        validate(checked)
        planned = plan(checked, environment)
    except (SourceError, InstantiationError) as error:
        return f"compilation failed: {error}"
    type_ = checked.types[checked.root.id]
    element = type_.args[0] if type_.name == "list" and len(type_.args) == 1 else type_
    if element not in (BOOL, INT, STRING, ANY, DYN, SEMVER):
        return (
            "must evaluate to a primitive scalar (string, integer, boolean, semver) or a list of these scalars, "
            f"not {type_}"
        )
    return planned


NAMES = {bool: "bool", int: "int", str: "string", Semver: "version"}


def as_attribute(value: Any) -> Object:
    """The attribute a derived value becomes. Raises CelError."""
    if type(value) in NAMES:
        return {NAMES[type(value)]: str(value) if isinstance(value, Semver) else value}
    if not isinstance(value, (list, tuple)):
        raise CelError(f"unsupported CEL return type: {go_type(value)}")
    if not value:
        return {"strings": []}
    name = NAMES.get(type(value[0]))
    if name is None:
        raise CelError(f"unsupported list element type: {go_type(value[0])}")
    for index, element in enumerate(value):
        if type(element) is not type(value[0]):
            wanted = "semver" if name == "version" else name
            raise CelError(f"expected list element at index {index} to be {wanted}, got {go_type(element)}")
    return {f"{name}s": [str(each) if isinstance(each, Semver) else each for each in value]}


def parse_id(text: str) -> DeviceID:
    driver, rest = text.split("/", 1)
    pool, device = rest.rsplit("/", 1)
    return driver, pool, device


class Model:
    """One call of Allocate."""

    def __init__(self, scenario: Object, most_steps: int) -> None:
        self.features: Object = scenario.get("features") or {}
        self.node: Object = scenario["node"]
        self.slices: list[Object] = scenario.get("slices") or []
        self.claims: list[Object] = scenario.get("claims") or []
        self.classes = {each["metadata"]["name"]: each for each in scenario.get("classes") or ()}
        self.dedicated = {parse_id(each) for each in scenario.get("allocatedDevices") or ()}
        self.shares = {parse_id(each.rsplit("/", 1)[0]) for each in scenario.get("allocatedSharedDeviceIDs") or ()}
        self.aggregate = {
            parse_id(device): {name: Amount.of(value).value for name, value in amounts.items()}
            for device, amounts in (scenario.get("aggregatedCapacity") or {}).items()
        }
        self.pools: list[Pool] = []
        self.asked: dict[tuple[int, int], list[Asked]] = {}
        self.most_steps = most_steps
        self.steps = 0

    def has(self, feature: str) -> bool:
        return self.features.get(feature) is True

    def allocate(self) -> list[dict[str, Any]] | None:
        self.pools = sorted(self.gather(), key=lambda pool: (has_binding_conditions(pool), pool.driver, pool.name))
        for number, claim in enumerate(self.claims):
            self.check_claim(number, claim)
        found = self.claim(0, State())
        if found is None:
            if any(pool.invalid for pool in self.pools):
                raise NodeOnly("invalid resource pools were encountered")
            return None
        return [self.result(number, claim, found) for number, claim in enumerate(self.claims)]

    # Pools

    def gather(self) -> Iterator[Pool]:
        local = [each for each in self.slices if each["spec"].get("nodeName") == self.node["metadata"].get("name")]
        local = [each for each in local if each["spec"].get("nodeName")]
        anywhere = [each for each in self.slices if not each["spec"].get("nodeName")]
        grouped: dict[tuple[str, str], list[Object]] = {}
        for slice_ in local + anywhere:
            if not self.is_ignored(slice_) and self.is_relevant(slice_):
                spec = slice_["spec"]
                grouped.setdefault((spec["driver"], spec["pool"]["name"]), []).append(slice_)
        for (driver, name), slices in grouped.items():
            newest = max(generation(each) for each in slices)
            pool = self.pool(driver, name, newest, [each for each in slices if generation(each) == newest])
            if pool is not None:
                yield pool

    def is_ignored(self, slice_: Object) -> bool:
        spec = slice_["spec"]
        if not self.has("partitionableDevices") and (
            spec.get("perDeviceNodeSelection") is not None or spec.get("sharedCounters")
        ):
            return True
        return not self.has("compatibilityGroups") and declares_groups(slice_)

    def is_relevant(self, slice_: Object) -> bool:
        spec = slice_["spec"]
        where = f"for slice {slice_['metadata']['name']}"
        try:
            if spec.get("nodeName") or spec.get("allNodes") or spec.get("nodeSelector") is not None:
                return node_matches(spec, self.node)
            if not spec.get("perDeviceNodeSelection"):
                return False
            where = f"for device in slice {slice_['metadata']['name']}"
            return any(node_matches(device, self.node) for device in spec.get("devices") or ())
        except ValueError as error:
            raise Fatal(f"gather pool information: failed to perform node selection {where}: {error}") from None

    def pool(self, driver: str, name: str, newest: int, relevant: list[Object]) -> Pool | None:
        pool = Pool(driver, name)
        expected = relevant[0]["spec"]["pool"].get("resourceSliceCount", 0)
        remote: list[Object] = []
        if len(relevant) != expected:
            every = [
                each
                for each in self.slices
                if each["spec"]["driver"] == driver and each["spec"]["pool"]["name"] == name
            ]
            if any(generation(each) > newest for each in every):
                return None
            every = [each for each in every if generation(each) == newest]
            if not self.has("compatibilityGroups"):
                every = [each for each in every if not declares_groups(each)]
            if len(every) != expected:
                pool.incomplete = True
                return pool
            names = {each["metadata"]["name"] for each in relevant}
            remote = [each for each in every if each["metadata"]["name"] not in names]
        self.fill(pool, sorted(relevant, key=lambda each: str(each["metadata"]["name"]).encode()), remote)
        return pool

    def fill(self, pool: Pool, relevant: list[Object], remote: list[Object]) -> None:
        counting = self.has("partitionableDevices")
        with_sets = [each for each in relevant + remote if counting and each["spec"].get("sharedCounters")]
        for slice_ in relevant:
            for device in () if slice_ in with_sets else slice_["spec"].get("devices") or ():
                pool.candidates.append(Candidate((pool.driver, pool.name, device["name"]), device, slice_, pool))
        for slice_ in remote:
            for device in () if slice_ in with_sets else slice_["spec"].get("devices") or ():
                pool.remote.append(((pool.driver, pool.name, device["name"]), device))
        names = [each.id for each in pool.candidates]
        sets = [each for slice_ in with_sets for each in slice_["spec"]["sharedCounters"]]
        pool.counters = {
            (each["name"], counter): Amount.of(value["value"]).value
            for each in sets
            for counter, value in (each.get("counters") or {}).items()
        }
        pool.invalid = len(names) != len(set(names))
        if counting:
            known = [each["name"] for each in sets]
            devices = [each.device for each in pool.candidates] + [device for _, device in pool.remote]
            consumptions = [each for device in devices for each in device.get("consumesCounters") or ()]
            pool.invalid |= len(known) != len(set(known))
            pool.invalid |= any(each["counterSet"] not in known for each in consumptions)
            pool.invalid |= any(
                (each["counterSet"], counter) not in pool.counters
                for each in consumptions
                for counter in counters_of(each)
            )
        if pool.invalid:
            pool.candidates, pool.remote, pool.counters = [], [], {}

    def devices(self) -> Iterator[Candidate]:
        for pool in self.pools:
            yield from pool.candidates

    # Checks before the search

    def check_claim(self, number: int, claim: Object) -> None:
        where = f"claim {called(claim)}"
        total = 0
        for index, request in enumerate(requests_of(claim)):
            name, entries = request["name"], request.get("firstAvailable") or ()
            if entries and not self.has("prioritizedList"):
                raise Fatal(f"{where}, request {name}: has subrequests, but the DRAPrioritizedList feature is disabled")
            self.check_capacity_requests(where, request)
            if entries:
                asked = [self.check_request(number, claim, name, entry) for entry in entries]
            else:
                asked = [self.check_request(number, claim, None, {"name": name} | request["exactly"])]
            self.asked[number, index] = asked
            least = min(each.need for each in asked)
            if least > MOST_RESULTS - total:
                raise Fatal(
                    f"{where}, request {name}: adding {least} devices exceeds the claim limit of {MOST_RESULTS}, "
                    f"with {total} already accounted for"
                )
            total += least
        for index, constraint in enumerate(claim["spec"].get("devices", {}).get("constraints") or ()):
            if constraint.get("matchAttribute") is None and constraint.get("distinctAttribute") is None:
                raise Fatal(f"{where}, constraint #{index}: empty constraint (unsupported constraint type?)")

    def check_capacity_requests(self, where: str, request: Object) -> None:
        if self.has("consumableCapacity"):
            return
        disabled = "has capacity requests, but the DRAConsumableCapacity feature is disabled"
        if (request.get("exactly") or {}).get("capacity") is not None:
            raise Fatal(f"{where}, request {request['name']}: {disabled}")
        for entry in request.get("firstAvailable") or ():
            if entry.get("capacity") is not None:
                raise Fatal(f"{where}, subrequest {entry['name']}: {disabled}")

    def check_request(self, number: int, claim: Object, parent: str | None, body: Object) -> Asked:
        where = f"claim {called(claim)}, request {body['name']}"
        if body.get("derivedAttributes") and not self.has("derivedAttributes"):
            raise Fatal(f"{where}: cannot handle request with derived attributes, the feature is disabled")
        for index, selector in enumerate(body.get("selectors") or ()):
            if selector.get("cel") is None:
                raise Fatal(f"{where}, selector #{index}: CEL expression empty (unsupported selector type?)")
        if body.get("adminAccess") is not None and not self.has("adminAccess"):
            raise Fatal(f"{where}: admin access is requested, but the feature is disabled")
        class_name = body.get("deviceClassName")
        if not class_name:
            raise Fatal(f"{where}: missing device class name (unsupported request type?)")
        if class_name not in self.classes:
            cause = f'deviceclass.resource.k8s.io "{class_name}" not found'
            raise Fatal(f"{where}: could not retrieve device class {class_name}: {cause}")
        asked = Asked(number, parent, body, self.classes[class_name], body.get("count", 0), None)
        mode = body.get("allocationMode", "")
        if mode == "ExactCount":
            return asked
        if mode != "All":
            raise Fatal(f"{where}: unsupported count mode {mode}")
        fixed = list(self.all_of(where, asked))
        return Asked(number, parent, body, asked.class_, len(fixed), fixed)

    def all_of(self, where: str, asked: Asked) -> Iterator[Candidate]:
        for pool in self.pools:
            if pool.incomplete:
                raise Fatal(f"{where}: asks for all devices, but resource pool {pool} is currently being updated")
            if pool.invalid:
                raise Fatal(f"{where}: asks for all devices, but resource pool {pool} is currently invalid")
            for candidate in pool.candidates:
                if self.is_selectable(asked, candidate) and self.has_room(asked, candidate, None):
                    yield candidate

    # The search

    def step(self) -> None:
        self.steps += 1
        if self.steps > self.most_steps:
            raise Steps

    def claim(self, number: int, state: State) -> State | None:
        if number == len(self.claims):
            self.step()
            return state
        return self.request(number, 0, state)

    def request(self, number: int, index: int, state: State) -> State | None:
        if (number, index) not in self.asked:
            self.step()
            try:
                return self.claim(number + 1, state)
            except TooLarge:
                return None
        asked = self.asked[number, index]
        if asked[0].parent is None:
            return self.slot(asked[0], index, 0, 0, state)
        self.step()
        too_large = 0
        for entry in asked:
            try:
                found = self.slot(entry, index, 0, 0, state)
            except TooLarge:
                too_large += 1
                continue
            if found is not None:
                return found
        if too_large == len(asked):
            raise TooLarge
        return None

    def slot(self, asked: Asked, index: int, slot: int, start: int, state: State) -> State | None:
        self.step()
        if asked.fixed is not None and not asked.fixed:
            return None
        if slot >= asked.need:
            return self.request(asked.claim, index + 1, State(state.picks, (*state.chosen, asked)))
        if asked.need - slot > MOST_RESULTS - len(state.of_claim(asked.claim)):
            raise TooLarge
        if asked.fixed is not None:
            taken = self.take(asked, asked.fixed[slot], state)
            return taken and self.slot(asked, index, slot + 1, 0, taken)
        for position, candidate in list(enumerate(self.devices()))[start:]:
            if self.is_in_use(asked, candidate, state) or not self.is_selectable(asked, candidate):
                continue
            if not self.has_room(asked, candidate, state):
                continue
            taken = self.take(asked, candidate, state)
            found = taken and self.slot(asked, index, slot + 1, position + 1, taken)
            if found:
                return found
        return None

    def take(self, asked: Asked, candidate: Candidate, state: State) -> State | None:
        """The state with this device, None if it cannot be taken."""
        if self.is_in_use(asked, candidate, state) or not self.may_skip_node_operations(candidate):
            return None
        if candidate.device.get("consumesCounters") and not self.has("partitionableDevices"):
            return None
        further_share = self.is_shared(candidate) and (
            candidate.id in self.shares or candidate.id in self.aggregate or bool(state.of_device(candidate.id))
        )
        if not further_share and not (self.groups_admit(candidate, state) and self.counters_admit(candidate, state)):
            return None
        if self.has("deviceTaints") and is_tainted(candidate.device, asked.body.get("tolerations") or ()):
            return None
        if not self.constraints_admit(asked, candidate, state) or not self.has_room(asked, candidate, state):
            return None
        consumed = self.consumed(asked, candidate) if self.is_shared(candidate) else {}
        pick = Pick(asked, candidate, self.is_shared(candidate), not further_share, consumed)
        return State((*state.picks, pick), state.chosen)

    def is_shared(self, candidate: Candidate) -> bool:
        return self.has("consumableCapacity") and candidate.device.get("allowMultipleAllocations") is True

    def is_in_use(self, asked: Asked, candidate: Candidate, state: State) -> bool:
        users = [pick.asked.claim for pick in state.of_device(candidate.id) if not pick.shared]
        if asked.admin:
            return asked.claim in users
        return candidate.id in self.dedicated or bool(users)

    def may_skip_node_operations(self, candidate: Candidate) -> bool:
        if not candidate.slice["spec"].get("skipNodeOperations"):
            return True
        declared = (self.node.get("status") or {}).get("declaredFeatures") or ()
        return self.has("optionalNodeOperations") and OPTIONAL_NODE_OPERATIONS in declared

    def is_selectable(self, asked: Asked, candidate: Candidate) -> bool:
        if candidate.device.get("bindingConditions") and not self.has("deviceBindingAndStatus"):
            return False
        of_class = f"class {asked.class_['metadata']['name']}"
        of_claim = f"claim {called(self.claims[asked.claim])}"
        selectors = [
            *((of_class, number, each) for number, each in enumerate(asked.class_["spec"].get("selectors") or ())),
            *((of_claim, number, each) for number, each in enumerate(asked.body.get("selectors") or ())),
        ]
        for whose, number, selector in selectors:
            if not selector_matches(f"{whose}: selector #{number}", selector["cel"]["expression"], candidate):
                return False
        if candidate.slice["spec"].get("perDeviceNodeSelection"):
            try:
                return node_matches(candidate.device, self.node)
            except ValueError as error:
                raise Fatal(f"failed to parse node selector: {error}") from None
        return True

    # Capacity

    def has_room(self, asked: Asked, candidate: Candidate, state: State | None) -> bool:
        """Whether the capacity asked for is there. Without a state, nothing is in use."""
        capacities = candidate.device.get("capacity") or {}
        requested = (asked.body.get("capacity") or {}).get("requests") or {}
        if not self.has("consumableCapacity"):
            return True
        if not requested.keys() <= capacities.keys():
            return False
        shown = candidate.id[-1] if state is None else "/".join(candidate.id)
        where = f"claim {called(self.claims[asked.claim])}, request {asked.body['name']}"
        try:
            consumed = self.consumed(asked, candidate)
        except Fatal as error:
            raise Fatal(f"{where}: checking capacity for device {shown}: {error}") from None
        return all(
            not self.violates(consumed[name], capacity.get("requestPolicy"))
            and self.in_use_of(candidate, name, state) + consumed[name].value <= Amount.of(capacity["value"]).value
            for name, capacity in capacities.items()
        )

    def in_use_of(self, candidate: Candidate, name: str, state: State | None) -> Fraction:
        if state is None:
            return Fraction(0)
        picked = (pick.consumed[name].value for pick in state.of_device(candidate.id) if name in pick.consumed)
        return self.aggregate.get(candidate.id, {}).get(name, Fraction(0)) + sum(picked, Fraction(0))

    def consumed(self, asked: Asked, candidate: Candidate) -> dict[str, Amount]:
        requested = (asked.body.get("capacity") or {}).get("requests") or {}
        consumed = {}
        for name, capacity in (candidate.device.get("capacity") or {}).items():
            try:
                consumed[name] = self.consumed_of(requested.get(name), capacity)
            except Fatal as error:
                raise Fatal(f'capacity "{name}": {error}') from None
            if consumed[name].value < 0:
                raise Fatal(f'capacity "{name}": capacity value is negative')
        return consumed

    def consumed_of(self, requested: Any, capacity: Object) -> Amount:
        policy = capacity.get("requestPolicy") or {}
        if requested is None:
            default = policy.get("default")
            return Amount.of(capacity["value"] if default is None else default)
        wanted = Amount.of(requested)
        if (policy.get("validRange") or {}).get("min") is not None:
            return self.in_range(wanted, policy["validRange"])
        larger = (Amount.of(each) for each in policy.get("validValues") or ())
        return next((each for each in larger if each.value >= wanted.value), wanted)

    def in_range(self, wanted: Amount, valid: Object) -> Amount:
        least = Amount.of(valid["min"])
        if wanted.value < least.value:
            return least
        if valid.get("step") is None:
            return wanted
        step = Amount.of(valid["step"])
        cause = "capacity request cannot be represented in the device's range arithmetic"
        if self.in_milli(valid):
            units = in_thousandths(wanted.value)
            if units is None:
                raise Fatal(f"{cause}: request {wanted} is not a representable milli value")
            first, by, per_one, bound = int(least.value * 1000), int(step.value * 1000), 1000, "the milli-value range"
        else:
            if wanted.value > INT64:
                raise Fatal(f"{cause}: request {wanted} exceeds MaxInt64")
            units, first, by = map(away_from_zero, (wanted.value, least.value, step.value))
            per_one, bound = 1, "MaxInt64"
        rounded = first + -((first - units) // by) * by
        if rounded > INT64:
            raise Fatal(f"{cause}: rounding request {wanted} up to the next step passes {bound}")
        return Amount(Fraction(rounded, per_one), None)

    def in_milli(self, valid: Object) -> bool:
        bounds = [Amount.of(valid[name]).value for name in ("min", "max", "step") if valid.get(name) is not None]
        return (
            self.has("fractionalCapacityRange")
            and all(in_thousandths(bound) is not None for bound in bounds)
            and (valid.get("step") is None or Amount.of(valid["step"]).value >= Fraction(1, 1000))
        )

    def violates(self, consumed: Amount, policy: Object | None) -> bool:
        if not policy or consumed.is_default(policy):
            return False
        valid = policy.get("validRange")
        if valid is None:
            values = [Amount.of(each).value for each in policy.get("validValues") or ()]
            return bool(values) and consumed.value not in values
        if valid.get("max") is not None and consumed.value > Amount.of(valid["max"]).value:
            return True
        if valid.get("step") is None:
            return False
        least, step = Amount.of(valid["min"]).value, Amount.of(valid["step"]).value
        if self.in_milli(valid):
            units = in_thousandths(consumed.value)
            return units is None or (units - int(least * 1000)) % int(step * 1000) != 0
        return (away_from_zero(consumed.value) - away_from_zero(least)) % away_from_zero(step) != 0

    # Counters and compatibility groups

    def is_allocated(self, id_: DeviceID) -> bool:
        return id_ in self.dedicated or id_ in self.shares or id_ in self.aggregate

    def members(self, pool: Pool) -> Iterator[Object]:
        """The devices that were allocated before this call, in the order in which they count."""
        yield from (each.device for each in pool.candidates if self.is_allocated(each.id))
        yield from (device for id_, device in pool.remote if self.is_allocated(id_))

    def counters_admit(self, candidate: Candidate, state: State) -> bool:
        if not candidate.device.get("consumesCounters"):
            return True
        left = dict(candidate.pool.counters)
        paying = [pick.candidate.device for pick in state.picks if pick.paid and pick.candidate.pool is candidate.pool]
        for device in [*self.members(candidate.pool), *paying, candidate.device]:
            for consumption in device.get("consumesCounters") or ():
                for counter, value in counters_of(consumption).items():
                    left[consumption["counterSet"], counter] -= Amount.of(value["value"]).value
        return all(amount >= 0 for amount in left.values())

    def groups_admit(self, candidate: Candidate, state: State) -> bool:
        if not self.has("compatibilityGroups"):
            return True
        groups: dict[str, frozenset[str] | None] = {}
        for device in self.members(candidate.pool):
            for set_, own in groups_of(device):
                groups[set_] = folded(groups, set_, own)
        paying = [pick.candidate.device for pick in state.picks if pick.paid and pick.candidate.pool is candidate.pool]
        for device in [*paying, candidate.device]:
            for set_, own in groups_of(device):
                if not compatible(groups, set_, own):
                    return False
                groups[set_] = folded(groups, set_, own)
        return True

    # Constraints

    def constraints_admit(self, asked: Asked, candidate: Candidate, state: State) -> bool:
        claim = self.claims[asked.claim]
        for constraint in claim["spec"].get("devices", {}).get("constraints") or ():
            applies = constraint.get("requests") or ()
            if applies and not asked.named_by(applies):
                continue
            match = constraint.get("matchAttribute")
            name = constraint["distinctAttribute"] if match is None else match
            before = [
                self.attribute(pick.asked, pick.candidate, name)
                for pick in state.of_claim(asked.claim)
                if not applies or pick.asked.named_by(applies)
            ]
            attribute = self.attribute(asked, candidate, name)
            if attribute is not None and self.goes_with(
                [each for each in before if each is not None], attribute, match
            ):
                continue
            if asked.fixed is not None:
                raise Fatal(
                    f"claim {called(claim)}, request {asked.body['name']}: cannot add device "
                    f"{'/'.join(candidate.id)} because a claim constraint would not be satisfied"
                )
            return False
        return True

    def goes_with(self, before: list[Object], attribute: Object, match: str | None) -> bool:
        if self.has("listTypeAttributes"):
            sets = [as_set(each) for each in (*before, attribute)]
            if None in sets:
                return False
            known = [each for each in sets if each is not None]
            last = known.pop()
            if match is None:
                return all(each[0] != last[0] or not each[1] & last[1] for each in known)
            return all(each[0] == last[0] for each in known) and bool(
                last[1].intersection(*(each[1] for each in known))
            )
        scalar = as_scalar(attribute)
        if not before:
            return True
        if scalar is None:
            return False
        if match is None:
            return all(as_scalar(each) != scalar for each in before)
        return as_scalar(before[0]) == scalar

    def attribute(self, asked: Asked, candidate: Candidate, name: str) -> Object | None:
        derived = {each["name"]: each["expression"] for each in asked.body.get("derivedAttributes") or ()}
        if name in derived:
            return derive(name, derived[name], candidate)
        attributes: Object = candidate.device.get("attributes") or {}
        domain, slash, rest = name.partition("/")
        own = attributes.get(rest) if slash and domain == candidate.id[0] else None
        found: Object | None = attributes.get(name, own)
        return found

    # The result

    def result(self, number: int, claim: Object, state: State) -> dict[str, Any]:
        picks = state.of_claim(number)
        first = [pick for pick in state.picks if pick.shared]
        devices: dict[str, Any] = {}
        if picks:
            devices["results"] = [self.device_result(pick, first) for pick in picks]
        chosen = [asked for asked in state.chosen if asked.claim == number]
        if config := config_of(claim, chosen):
            devices["config"] = config
        selector = self.node_selector(claim, picks)
        return {"devices": devices} | ({"nodeSelector": selector} if selector else {})

    def device_result(self, pick: Pick, shared: list[Pick]) -> dict[str, Any]:
        driver, pool, device = pick.candidate.id
        result = {
            "request": pick.asked.name,
            "driver": driver,
            "pool": pool,
            "device": device,
            "adminAccess": pick.asked.admin or None,
            "tolerations": pick.asked.body.get("tolerations"),
            "skipNodeOperations": pick.candidate.slice["spec"].get("skipNodeOperations"),
        }
        if pick.shared:
            result["shareID"] = f"share-{shared.index(pick)}"
            result["consumedCapacity"] = {name: written(amount) for name, amount in pick.consumed.items()}
        if self.has("deviceBindingAndStatus"):
            for name in ("bindingConditions", "bindingFailureConditions"):
                result[name] = pick.candidate.device.get(name)
        return {name: value for name, value in result.items() if value}

    def node_selector(self, claim: Object, picks: list[Pick]) -> dict[str, Any] | None:
        term: dict[str, list[Object]] = {}
        for pick in picks:
            spec = pick.candidate.slice["spec"]
            holder = pick.candidate.device if spec.get("perDeviceNodeSelection") else spec
            if holder.get("nodeName") is not None or pick.candidate.device.get("bindsToNode"):
                name = self.node["metadata"].get("name")
                only = {"key": "metadata.name", "operator": "In", "values": [name]}
                return {"nodeSelectorTerms": [{"matchFields": [only]}]}
            terms = (holder.get("nodeSelector") or {}).get("nodeSelectorTerms") or [{}]
            if len(terms) > 1:
                raise Fatal(
                    f"create NodeSelector for claim {claim['metadata']['name']}: "
                    f"unsupported ResourceSlice.NodeSelector with {len(terms)} terms"
                )
            for kind, requirements in terms[0].items():
                for requirement in requirements or ():
                    into = term.setdefault(kind, [])
                    if not any(same_requirement(requirement, each) for each in into):
                        into.append(requirement)
        return {"nodeSelectorTerms": [term]} if term else None


# What needs nothing of the call


def called(claim: Object) -> str:
    metadata = claim["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}" if metadata.get("namespace") else str(metadata["name"])


def requests_of(claim: Object) -> Sequence[Object]:
    return claim["spec"].get("devices", {}).get("requests") or ()


def generation(slice_: Object) -> int:
    return int(slice_["spec"]["pool"].get("generation", 0))


def has_binding_conditions(pool: Pool) -> bool:
    return any(each.device.get("bindingConditions") is not None for each in pool.candidates)


def declares_groups(slice_: Object) -> bool:
    return any(own for device in slice_["spec"].get("devices") or () for _, own in groups_of(device))


def counters_of(consumption: Object) -> Mapping[str, Object]:
    return consumption.get("counters") or {}


def groups_of(device: Object) -> list[tuple[str, frozenset[str]]]:
    return [
        (each["counterSet"], frozenset(each.get("compatibilityGroups") or ()))
        for each in device.get("consumesCounters") or ()
    ]


def compatible(groups: Mapping[str, frozenset[str] | None], set_: str, own: frozenset[str]) -> bool:
    """Absent: no member yet; None: only members without groups; else what all members have in common."""
    if set_ not in groups:
        return True
    common = groups[set_]
    return not own if common is None else bool(common & own)


def folded(groups: Mapping[str, frozenset[str] | None], set_: str, own: frozenset[str]) -> frozenset[str] | None:
    if set_ not in groups:
        return own or None
    common = groups[set_]
    return common if common is None or not own else common & own


def is_tainted(device: Object, tolerations: Sequence[Object]) -> bool:
    return any(
        taint.get("effect") in ("NoSchedule", "NoExecute") and not any(tolerates(each, taint) for each in tolerations)
        for taint in device.get("taints") or ()
    )


def tolerates(toleration: Object, taint: Object) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    operator = toleration.get("operator") or "Equal"
    return operator == "Exists" or (operator == "Equal" and toleration.get("value", "") == taint.get("value", ""))


def selector_matches(where: str, expression: str, candidate: Candidate) -> bool:
    selector = selector_of(expression)
    if isinstance(selector, CompileError):
        raise Fatal(f"{where}: CEL compile error: {selector}")
    try:
        return selector.matches(DeviceView.of(candidate.id[0], candidate.device)).matched
    except (BadDevice, SelectorError) as error:
        raise Fatal(f"{where} on device {'/'.join(candidate.id)}: CEL runtime error: {error}") from None


def derive(name: str, expression: str, candidate: Candidate) -> Object:
    planned = derivation_of(expression)
    if isinstance(planned, str):
        raise Fatal(f"compile derived attribute {name} failed: {planned}")
    where = f"evaluate derived attribute {name} on device {'/'.join(candidate.id)} failed"
    try:
        value, _ = planned.evaluate(DeviceView.of(candidate.id[0], candidate.device).fields, cost.LIMIT, None)
        if isinstance(value, CelError):
            raise value
        return as_attribute(value)
    except (BadDevice, CelError, Halted) as error:
        raise Fatal(f"{where}: {error}") from None


def config_of(claim: Object, chosen: list[Asked]) -> list[dict[str, Any]]:
    config: list[dict[str, Any]] = []
    classes = {asked.class_["metadata"]["name"]: asked.class_ for asked in chosen}
    for name, class_ in classes.items():
        users = [asked.name for asked in chosen if asked.class_["metadata"]["name"] == name]
        config += [
            dict(each) | {"source": "FromClass", "requests": users} for each in class_["spec"].get("config") or ()
        ]
    for each in claim["spec"].get("devices", {}).get("config") or ():
        requests = each.get("requests") or []
        if not requests or any(asked.named_by(requests) for asked in chosen):
            config.append(dict(each) | {"source": "FromClaim", "requests": requests})
    for each in config:
        if all(asked.named_by(each["requests"]) for asked in chosen) or not each["requests"]:
            del each["requests"]
    return config


def same_requirement(one: Object, other: Object) -> bool:
    return (one["key"], one["operator"]) == (other["key"], other["operator"]) and set(one.get("values") or ()) == set(
        other.get("values") or ()
    )


def written(amount: Amount) -> str:
    if amount.text is not None:
        return amount.text
    thousandths = amount.value * 1000
    return str(amount.value) if amount.value.denominator == 1 else f"{thousandths}m"
