"""Random scenarios for allocators: small clusters in which everything the allocator knows is rubbed against the rest.

Scenario `number` of `seed` is always the same. Each has a theme, which decides what there is much of; every feature may
turn up in any of them. What random scenarios hardly ever hit has themes of its own: needs that are just met or just not
(`tight`), many equal devices (`alike`), an error behind a hopeless search (`trap`), limits of 32 (`large`).
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from allocation_model import selector_of as selector_of_text
from drabridge.core.cel.device import BadDevice, DeviceView
from drabridge.core.cel.selector import CompileError, SelectorError

Object = dict[str, Any]
T = TypeVar("T")

GPU, NIC = "gpu.example.com", "nic.example.com"
ROOT = "resource.kubernetes.io/pcieRoot"
NODES = ("node-1", "node-2", "node-3")
ALPHA = ("listTypeAttributes", "derivedAttributes", "compatibilityGroups", "optionalNodeOperations")
BETA = (
    "partitionableDevices",
    "deviceTaints",
    "deviceBindingAndStatus",
    "consumableCapacity",
    "fractionalCapacityRange",
)
STABLE = ("adminAccess", "prioritizedList")
EVERY_FEATURE = STABLE + BETA + ALPHA

TRAITS = (
    "admin",
    "all",
    "binding",
    "capacity",
    "config",
    "constraints",
    "counters",
    "derived",
    "errors",
    "groups",
    "in use",
    "lists",
    "node operations",
    "nodes",
    "pools",
    "selectors",
    "shared",
    "sublists",
    "taints",
)


@dataclass(frozen=True, slots=True)
class Theme:
    """What there is much of, by trait; the others come up rarely. Counts are of devices, claims and requests."""

    often: frozenset[str]
    devices: tuple[int, int] = (1, 8)
    claims: tuple[int, int] = (1, 3)
    requests: tuple[int, int] = (1, 3)
    kinds: tuple[int, int] = (1, 4)
    tight: bool = False
    part: int = 100
    """Percent of the traits that a scenario really has often."""


def _theme(*often: str, **counts: Any) -> Theme:
    unknown = set(often) - set(TRAITS)
    assert not unknown, unknown
    return Theme(frozenset(often), **counts)


THEMES: Mapping[str, Theme] = {
    "mixed": _theme("constraints", "selectors", "sublists", "in use", "taints"),
    "everything": _theme(*TRAITS, part=40),
    "easy": _theme("constraints", "config", "shared", "counters", devices=(6, 12), claims=(1, 2), requests=(1, 2)),
    "tiny": _theme("constraints", "selectors", "in use", devices=(1, 4), claims=(1, 2), requests=(1, 2)),
    "tight": _theme("constraints", "selectors", tight=True, devices=(3, 9)),
    "alike": _theme("constraints", tight=True, devices=(4, 9), kinds=(1, 2)),
    "partitions": _theme("counters", "selectors", "groups", "in use", tight=True, devices=(3, 9)),
    "shares": _theme("shared", "capacity", "in use", "counters", devices=(1, 6), tight=True),
    "lists": _theme("lists", "constraints", "derived", tight=True, devices=(3, 8)),
    "sublists": _theme("sublists", "constraints", "all", "config", tight=True, devices=(2, 7), part=75),
    "all": _theme("all", "constraints", "sublists", "errors", "capacity", devices=(2, 7)),
    "errors": _theme("errors", "selectors", "derived", "constraints", "shared", tight=True, devices=(2, 7)),
    "admin": _theme("admin", "in use", "counters", "shared", "constraints", devices=(2, 6)),
    "pools": _theme("pools", "nodes", "counters", "groups", "all", part=60),
    "nodes": _theme("nodes", "binding", "node operations", "config"),
    "large": _theme("sublists", "all", "constraints", devices=(20, 40), claims=(1, 2), tight=True, kinds=(1, 2)),
    "trap": _theme(),
}
WEIGHTS = {"trap": 8, "alike": 3, "tight": 3, "lists": 2, "errors": 3, "all": 2, "everything": 2, "large": 1, "tiny": 2}


def scenario(seed: int, number: int, theme: str | None = None) -> Object:
    """Give scenario `number` of `seed`, of that theme if it is given."""
    dice = Dice(f"{seed}/{number}")
    names = list(THEMES)
    theme = theme or dice.choices(names, [2 * WEIGHTS.get(name, 1) for name in names])[0]
    made = trap(dice) if theme == "trap" else Builder(dice, THEMES[theme]).build()
    return {"id": f"{seed}-{number}-{theme}", "tags": [theme]} | made


def scenarios(seed: int, count: int, theme: str | None = None) -> Iterator[Object]:
    """Give the first scenarios of a seed."""
    return (scenario(seed, number, theme) for number in range(count))


class Dice(random.Random):
    def percent(self, chance: float) -> bool:
        return self.random() * 100 < chance

    def between(self, bounds: tuple[int, int]) -> int:
        return self.randint(*bounds)

    def some(self, items: Sequence[T], least: int = 1) -> list[T]:
        """Some of them, in their order."""
        count = self.randint(min(least, len(items)), len(items))
        return [items[index] for index in sorted(self.sample(range(len(items)), count))]

    def weighted(self, weights: Mapping[T, int]) -> T:
        return self.choices(list(weights), list(weights.values()))[0]


def without_nothing(item: Mapping[str, Any]) -> Object:
    return {name: value for name, value in item.items() if value is not None}


# Vocabulary

SELECTORS = (
    'device.attributes["DRIVER"].kind == "a"',
    'device.attributes["DRIVER"].kind != "a"',
    'device.attributes["DRIVER"].kind in ["a", "b"]',
    'device.attributes["DRIVER"].?kind.orValue("b") == "b"',
    'device.attributes["DRIVER"].numa == 0',
    'device.attributes["DRIVER"].numa <= 1',
    'device.attributes["DRIVER"].index > 0',
    'device.attributes["DRIVER"].index != 2',
    'device.attributes["DRIVER"].healthy',
    'device.attributes["DRIVER"].model.startsWith("m")',
    'device.attributes["DRIVER"].version.isGreaterThan(semver("1.0.0"))',
    'device.attributes["ROOT"].pcieRoot == "r0"',
    'device.capacity["DRIVER"].memory.isGreaterThan(quantity("5Gi"))',
    'device.capacity["DRIVER"].?memory.orValue(quantity("0")).compareTo(quantity("8Gi")) >= 0',
    "device.allowMultipleAllocations",
    "!device.allowMultipleAllocations",
    'device.driver == "DRIVER"',
    "true",
    "false",
)
RAISING = (
    'device.attributes["DRIVER"].absent == 1',
    'device.attributes["DRIVER"].index == 1 || device.attributes["DRIVER"].odd == 1',
    'device.attributes["DRIVER"].kind == "a" && device.attributes["DRIVER"].odd == 1',
    'device.attributes["DRIVER"].index == "text"',
    '1 / (device.attributes["DRIVER"].index - 1) < 5',
    "device.driver",
    "device.nonsense",
)
DERIVED = (
    'device.attributes["DRIVER"].kind',
    'device.attributes["DRIVER"].index / 2',
    'device.attributes["DRIVER"].index % 2 == 0',
    'device.attributes["DRIVER"].numa',
    '[device.attributes["DRIVER"].numa, 9]',
    'device.attributes["DRIVER"].kind == "a" ? "x" : "y"',
    '"constant"',
    'semver("1.2.3")',
    "[]",
)
RAISING_DERIVED = (
    'device.attributes["DRIVER"].odd',
    '10 / (device.attributes["DRIVER"].index - 1)',
    "1.5",
    "[1, 'a']",
    "{'a': 1}",
    "nonsense",
    "dyn(1.5)",
)
ODD_CAPACITIES: tuple[Object, ...] = (
    {"value": "0"},
    {"value": "100Pi", "requestPolicy": {"default": "10Pi", "validRange": {"min": "1Gi", "step": "1Gi"}}},
    {"value": "100Pi", "requestPolicy": {"default": "1Gi", "validRange": {"min": "1Gi", "step": "1Gi", "max": "9Ei"}}},
    {"value": "4", "requestPolicy": {"default": "200m", "validRange": {"min": "200m", "step": "100m"}}},
    {"value": "4", "requestPolicy": {"default": "1", "validRange": {"min": "200m", "max": "3500m", "step": "250m"}}},
    {"value": "4", "requestPolicy": {"default": "1", "validRange": {"min": "1u", "step": "1u"}}},
    {"value": "1e3", "requestPolicy": {"default": "5e0", "validValues": ["5e0", "1e1", "0.1e3"]}},
    {"value": "9.548", "requestPolicy": {"default": "1"}},
    {"value": "-1"},
    {"value": "4", "requestPolicy": {"validValues": []}},
    {"value": "4", "requestPolicy": {}},
    {"value": "4", "requestPolicy": {"default": "1.0", "validRange": {"min": "1", "max": "2"}}},
)
TAINT_KEYS, TAINT_VALUES, EFFECTS = ("t", "u"), ("", "1"), ("NoSchedule", "NoExecute", "None")
GROUP_SETS: tuple[list[str], ...] = ([], ["A"], ["B"], ["A", "B"], ["B", "C"], ["A", "C"])


@dataclass(slots=True)
class Kind:
    """What devices of a kind have in common."""

    device: Object
    capacity_names: tuple[str, ...] = ()


@dataclass(slots=True)
class Builder:
    """Builds one scenario."""

    dice: Dice
    theme: Theme
    often: frozenset[str] = frozenset()
    features: dict[str, bool] = field(default_factory=dict)
    slices: list[Object] = field(default_factory=list)
    claims: int = 1
    class_expressions: dict[str, list[str]] = field(default_factory=dict)
    devices: list[tuple[str, str, Object]] = field(default_factory=list)
    """(driver, pool, device), of what is likely to be there."""

    def build(self) -> Object:
        self.often = frozenset(each for each in sorted(self.theme.often) if self.dice.percent(self.theme.part))
        self.features = self.choose_features()
        for number in range(self.dice.weighted({1: 6, 2: 3, 3: 1})):
            self.add_pool(number)
        self.dice.shuffle(self.slices)
        classes = self.classes()
        self.claims = self.dice.between(self.theme.claims)
        claims = [self.claim(number) for number in range(self.claims)]
        if self.dice.percent(1):
            claims = []
        return self.in_use() | {
            "features": self.features,
            "classes": classes,
            "slices": self.slices,
            "node": self.node(),
            "claims": claims,
        }

    def likes(self, trait: str, *, often: float = 55, rarely: float = 6) -> bool:
        return self.dice.percent(often if trait in self.often else rarely)

    def allows(self, feature: str) -> bool:
        """Whether requests may ask for something. What is off is asked for now and then all the same."""
        return self.features.get(feature, False) or self.dice.percent(2)

    def choose_features(self) -> dict[str, bool]:
        dice = self.dice
        kind = dice.weighted({"all": 5, "beta": 2, "most": 3, "any": 1, "stable": 1})
        chosen = {
            "all": EVERY_FEATURE,
            "beta": STABLE + BETA,
            "stable": STABLE + BETA[:2],
            "most": tuple(each for each in EVERY_FEATURE if dice.percent(85)),
            "any": tuple(each for each in EVERY_FEATURE if dice.percent(50)),
        }[kind]
        return {name: name in chosen for name in EVERY_FEATURE}

    # The node

    def node(self) -> Object:
        metadata: Object = {"name": "node-1", "labels": {"zone": "a", "cards": "8"}}
        declared = ["DRAOptionalNodeOperations"] if self.dice.percent(60) else ["Other"]
        return {"metadata": metadata} | ({"status": {"declaredFeatures": declared}} if self.dice.percent(80) else {})

    def node_selection(self, *, here: bool) -> Object:
        dice = self.dice
        if not here:
            return dice.choice(
                [
                    {"nodeName": dice.choice(NODES[1:])},
                    {"nodeSelector": selector_of(requirement("zone", "In", "b"))},
                    {"nodeSelector": selector_of(fields=requirement("metadata.name", "NotIn", "node-1"))},
                ]
            )
        if not self.likes("nodes", often=70, rarely=12):
            return {"nodeName": "node-1"}
        matching = (
            requirement("zone", "In", "a", "c"),
            requirement("zone", "NotIn", "b"),
            requirement("zone", "Exists"),
            requirement("other", "DoesNotExist"),
            requirement("cards", "Gt", "4"),
            requirement("cards", "Lt", "9"),
        )
        selector = selector_of(*dice.sample(matching, dice.randint(1, 2)))
        if dice.percent(25):
            selector = selector_of(fields=requirement("metadata.name", "In", "node-1"))
        if dice.percent(8):
            selector["nodeSelectorTerms"].append({"matchExpressions": [requirement("zone", "Exists")]})
        if dice.percent(3):
            selector = selector_of(requirement("zone", dice.choice(("Near", "Gt", "In"))))
        if dice.percent(4):
            # A name that is there, but empty, selects nothing and yet ties the result to the node.
            return {"nodeName": "", "allNodes": True}
        return dice.choice([{"allNodes": True}, {"nodeSelector": selector}, {"nodeSelector": selector}])

    # Pools

    def add_pool(self, number: int) -> None:
        dice = self.dice
        driver = GPU if number == 0 or dice.percent(50) else NIC
        name = f"pool-{number}" if dice.percent(95) else f"p/{number}"
        count = dice.between(self.theme.devices)
        if number:
            count = min(count, 4)
        kinds = [self.kind(driver) for _ in range(dice.between(self.theme.kinds))]
        sets = self.counter_sets() if self.likes("counters", rarely=4) else []
        blocks = dice.percent(50)
        names = [f"d{each}" for each in range(count)]
        if dice.percent(20):
            dice.shuffle(names)
        devices = [
            self.device(
                driver, each, kinds[index * len(kinds) // count if blocks else dice.randrange(len(kinds))], sets
            )
            for index, each in enumerate(names)
        ]
        self.devices += [(driver, name, each) for each in devices]
        generation = dice.randint(1, 3)
        pool = {"name": name, "generation": generation, "resourceSliceCount": 1}
        slices = self.sliced(driver, pool, devices, sets)
        if self.likes("pools", rarely=5):
            self.spoil(driver, pool, slices)
        self.slices += slices

    def sliced(self, driver: str, pool: Object, devices: list[Object], sets: list[Object]) -> list[Object]:
        dice = self.dice
        parts = [devices]
        if len(devices) > 1 and dice.percent(35):
            cut = dice.randint(1, len(devices) - 1)
            parts = [devices[:cut], devices[cut:]]
        selection = self.node_selection(here=True)
        slices = []
        for part in parts:
            own = selection if dice.percent(80) else self.node_selection(here=dice.percent(70))
            if self.likes("nodes", often=30, rarely=3):
                own = {"perDeviceNodeSelection": True}
                for device in part:
                    device.update(self.node_selection(here=dice.percent(75)))
            elif dice.percent(1):
                own = own | {"perDeviceNodeSelection": False}
            slices.append(own | {"devices": part})
        if sets:
            # Counters of other nodes' slices count as well; now and then the devices and the sets share a slice.
            where = selection if dice.percent(75) else self.node_selection(here=dice.percent(50))
            slices.append(where | {"sharedCounters": sets})
        for spec in slices:
            if self.likes("node operations", often=40, rarely=2):
                spec["skipNodeOperations"] = dice.choice([["*"], ["NodePrepareResources", "NodeUnprepareResources"]])
        letters = dice.sample("abcdXYZ", len(slices))
        return [
            {
                "metadata": {"name": f"{letter}-{driver[:3]}-{pool['name'].replace('/', '-')}"},
                "spec": {"driver": driver, "pool": pool | {"resourceSliceCount": len(slices)}} | spec,
            }
            for letter, spec in zip(letters, slices, strict=True)
        ]

    def spoil(self, driver: str, pool: Object, slices: list[Object]) -> None:
        """Make the pool incomplete, invalid, outdated, or spread it over nodes."""
        dice = self.dice
        how = dice.weighted({"stale": 3, "newer": 3, "count": 3, "duplicate": 2, "remote": 4, "unknown counter": 2})
        extra: Object = {"metadata": {"name": f"extra-{driver[:3]}-{pool['name'].replace('/', '-')}"}}
        spec: Object = {"driver": driver, "devices": [{"name": "e0"}]} | self.node_selection(here=dice.percent(50))
        if how in ("stale", "newer"):
            offset = -1 if how == "stale" else 1
            spec["pool"] = pool | {"generation": pool["generation"] + offset, "resourceSliceCount": dice.randint(1, 2)}
            slices.append(extra | {"spec": spec})
        elif how == "count":
            wrong = dice.choice((0, 1, 2, 3))
            for slice_ in slices:
                slice_["spec"]["pool"]["resourceSliceCount"] = wrong
        elif how == "duplicate":
            named = [slice_ for slice_ in slices if slice_["spec"].get("devices")]
            if named:
                devices = dice.choice(named)["spec"]["devices"]
                devices.append(copy.deepcopy(dice.choice(devices)))
        elif how == "remote":
            for slice_ in slices:
                slice_["spec"]["pool"]["resourceSliceCount"] += 1
            remote = self.device(driver, "e0", self.kind(driver), counter_sets_of(slices))
            spec |= {"pool": dict(slices[0]["spec"]["pool"]), "devices": [remote]}
            slices.append(extra | {"spec": spec})
            self.devices.append((driver, pool["name"], remote))
        else:
            for _, _, device in self.devices[-1:]:
                device["consumesCounters"] = [{"counterSet": "none", "counters": {"slices": {"value": "1"}}}]

    def counter_sets(self) -> list[Object]:
        dice = self.dice
        sets = []
        for number in range(dice.randint(1, 3)):
            counters = {"slices": {"value": str(dice.randint(1, 8))}}
            if dice.percent(50):
                counters["memory"] = {"value": dice.choice(("10Gi", "20Gi", "40Gi"))}
            sets.append({"name": f"set-{number}", "counters": counters})
        return sets

    # Devices

    def kind(self, driver: str) -> Kind:
        dice = self.dice
        prefix = f"{driver}/" if dice.percent(30) else ""
        attributes: Object = {
            f"{prefix}kind": {"string": dice.choice("ab")},
            f"{prefix}numa": {"int": dice.randint(0, 2)},
            f"{prefix}healthy": {"bool": dice.percent(80)},
            f"{prefix}model": {"string": dice.choice(("m1", "m2", "n1"))},
            f"{prefix}version": {"version": dice.choice(("1.0.0", "1.2.3", "2.0.0-rc.1"))},
            ROOT: {"string": f"r{dice.randint(0, 2)}"},
        }
        if self.likes("lists", rarely=4):
            attributes[f"{prefix}numa"] = self.list_attribute()
        if self.likes("lists", often=30, rarely=2):
            attributes[ROOT] = {"strings": dice.sample(["r0", "r1", "r2"], dice.randint(1, 2))}
        if self.likes("errors", often=20, rarely=2):
            del attributes[dice.choice(list(attributes))]
        if self.likes("errors", often=6, rarely=0.5):
            attributes["broken"] = {}
        device: Object = {"attributes": attributes}
        if self.likes("taints", rarely=4):
            device["taints"] = [self.taint() for _ in range(dice.randint(1, 2))]
        if self.likes("binding", often=40, rarely=3):
            device["bindingConditions"] = dice.choice(([], ["Ready"], ["Ready", "Attached"]))
            device["bindingFailureConditions"] = ["Failed"] if dice.percent(50) else []
            device["bindsToNode"] = dice.percent(50)
        capacities = self.likes("capacity", often=80, rarely=25) or self.likes("shared", often=80, rarely=0)
        if capacities:
            device["capacity"] = {
                name: self.capacity(name) for name in dice.some(["memory", "bandwidth", f"{driver}/slots"])
            }
        if self.likes("shared", often=70, rarely=5):
            device["allowMultipleAllocations"] = dice.percent(92)
        return Kind(device)

    def list_attribute(self) -> Object:
        dice = self.dice
        return dice.choice(
            [
                {"ints": dice.sample([0, 1, 2, 3], dice.randint(1, 3))},
                {"ints": dice.sample([0, 1, 2, 3], 2)},
                {"strings": dice.sample(["0", "1"], 1)},
                {"int": dice.randint(0, 2)},
                {"string": "0"},
                {"bools": [True]},
                {"versions": ["1.0.0", "1.2.3"]},
                {"ints": []},
            ]
        )

    def taint(self) -> Object:
        dice = self.dice
        value = dice.choice(TAINT_VALUES)
        return {"key": dice.choice(TAINT_KEYS), "effect": dice.choice(EFFECTS)} | ({"value": value} if value else {})

    def capacity(self, name: str) -> Object:
        dice = self.dice
        if dice.percent(4):
            return copy.deepcopy(dice.choice(ODD_CAPACITIES))
        if name == "memory":
            values, small = ("10Gi", "16Gi", "40Gi"), ("1Gi", "1536Mi", "2Gi", "5Gi")
        else:
            values, small = ("4", "10", "12"), ("500m", "1", "2", "3")
        capacity: Object = {"value": dice.choice(values)}
        kind = dice.weighted({"none": 5, "default": 2, "range": 4, "values": 2})
        if kind == "none":
            return capacity
        policy: Object = {"default": dice.choice(small)}
        if kind == "range":
            policy["validRange"] = without_nothing(
                {
                    "min": dice.choice(small),
                    "max": dice.choice(values) if dice.percent(60) else None,
                    "step": dice.choice(small) if dice.percent(60) else None,
                }
            )
            if dice.percent(10):
                policy["validRange"] = {"min": "0", "step": "1"}
        elif kind == "values":
            policy["validValues"] = list(dict.fromkeys((*dice.some(small), values[0])))
        if dice.percent(10):
            del policy["default"]
        return capacity | {"requestPolicy": policy}

    def device(self, driver: str, name: str, kind: Kind, sets: list[Object]) -> Object:
        dice = self.dice
        device = copy.deepcopy(kind.device)
        attributes = device["attributes"]
        attributes["index"] = {"int": int(name[1:])}
        if dice.percent(50):
            attributes["serial"] = {"string": f"{driver[:3]}-{name}"}
        if self.likes("errors", often=12, rarely=2):
            attributes["odd"] = {"int": 1}
        if dice.percent(2):
            # For constraints, the exact name goes before the short one. (For CEL, Go's order of maps decides.)
            attributes |= {"twin": {"int": dice.randint(0, 1)}, f"{driver}/twin": {"int": dice.randint(0, 1)}}
        if dice.percent(2):
            device["bindsToNode"] = True
        if self.likes("errors", often=8, rarely=1):
            del attributes[dice.choice(list(attributes))]
        if sets and dice.percent(85):
            device["consumesCounters"] = [
                self.consumption(each) for each in dice.sample(sets, dice.choice((1, 1, 1, 2)) if len(sets) > 1 else 1)
            ]
        return {"name": name} | device

    def consumption(self, set_: Object) -> Object:
        dice = self.dice
        counters = {
            name: {"value": dice.choice(("1", "1", "2", "3")) if name == "slices" else dice.choice(("5Gi", "10Gi"))}
            for name in dice.some(list(set_["counters"]))
        }
        if dice.percent(1):
            counters[dice.choice(list(counters))]["value"] = dice.choice(("0", "-1", "500m", "1e1", "0.5", "+1"))
        groups = dice.choice(GROUP_SETS) if self.likes("groups", rarely=2) else None
        return without_nothing({"counterSet": set_["name"], "counters": counters, "compatibilityGroups": groups})

    # Claims

    def classes(self) -> list[Object]:
        dice = self.dice
        classes = []
        for name, driver in (("gpu", GPU), ("nic", NIC), ("any", None)):
            selectors = [{"cel": {"expression": f'device.driver == "{driver}"'}}] if driver else []
            if self.likes("selectors", often=12, rarely=4):
                selectors.append({"cel": {"expression": self.selector(driver or GPU)}})
            spec: Object = {"selectors": selectors} if selectors else {}
            if self.likes("config", rarely=10):
                spec["config"] = [self.config(number) for number in range(dice.randint(1, 2))]
            classes.append({"metadata": {"name": name}, "spec": spec})
            self.class_expressions[name] = [each["cel"]["expression"] for each in selectors]
        return classes

    def config(self, number: int) -> Object:
        return {"opaque": {"driver": GPU, "parameters": {"apiVersion": "v1", "kind": "C", "n": number}}}

    def selector(self, driver: str) -> str:
        raising = self.likes("errors", often=25, rarely=1.5)
        expression = self.dice.choice(RAISING if raising else SELECTORS)
        return expression.replace("DRIVER", driver).replace("ROOT", ROOT.split("/", maxsplit=1)[0])

    def claim(self, number: int) -> Object:
        dice = self.dice
        count = dice.between(self.theme.requests)
        constrained = self.likes("constraints", often=75, rarely=15)
        # What constraints leave of the devices is guessed.
        share = count * self.claims * (dice.choice((1, 2, 2, 3)) if constrained else 1)
        requests = [self.request(f"r{index}", share) for index in range(count)]
        if dice.percent(1):
            requests = []
        devices: Object = {"requests": requests}
        if constrained:
            devices["constraints"] = self.constraints(requests)
        if self.likes("config", rarely=8):
            devices["config"] = [
                self.config(index) | ({"requests": dice.some(names_of(requests))} if dice.percent(70) else {})
                for index in range(dice.randint(1, 2))
            ]
        metadata = {"name": f"claim-{number}"} | ({"namespace": "default"} if dice.percent(90) else {})
        return {"metadata": metadata, "spec": {"devices": devices}}

    def fitting(self, class_name: str, expressions: Iterable[str]) -> int:
        """How many devices a request may choose from, more or less."""
        every = [*self.class_expressions[class_name], *expressions]
        return sum(all(matches(each, driver, device) for each in every) for driver, _, device in self.devices)

    def need(self, fitting: int, share: int) -> int:
        """How many devices to ask for: if tight, about as many as there are for each, else a few."""
        dice = self.dice
        if not self.theme.tight:
            return dice.randint(1, max(1, min(3, fitting // share)))
        exact = max(1, fitting // share)
        need = dice.choice((exact, exact, exact + 1, exact - 1, fitting - (share > 1), fitting // 2))
        return max(1, need if dice.percent(5) else min(need, fitting))

    def request(self, name: str, share: int) -> Object:
        dice = self.dice
        if self.likes("sublists", rarely=10) and self.allows("prioritizedList"):
            entries = [self.asked(f"s{index}", share) for index in range(dice.randint(1, 3))]
            for entry in entries:
                entry.pop("adminAccess", None)
            return {"name": name, "firstAvailable": entries}
        asked = self.asked(name, share)
        del asked["name"]
        return {"name": name, "exactly": asked}

    def asked(self, name: str, share: int) -> Object:
        dice = self.dice
        driver = dice.choice([driver for driver, _, _ in self.devices] or [GPU])
        class_name = dice.choice((driver[:3], "any"))
        asked: Object = {"name": name, "deviceClassName": class_name}
        expressions: list[str] = []
        fitting = self.fitting(class_name, ())
        if self.likes("selectors", often=50, rarely=20):
            for _ in range(5):
                expressions = [self.selector(driver) for _ in range(dice.choice((1, 1, 1, 2)))]
                fitting = self.fitting(class_name, expressions)
                if fitting:
                    break
            asked["selectors"] = [{"cel": {"expression": each}} for each in expressions]
        if self.likes("all", often=30, rarely=4):
            asked["allocationMode"] = "All"
        else:
            need = self.need(fitting, share)
            asked |= {
                "allocationMode": "ExactCount",
                "count": need if dice.percent(98) else dice.choice((0, 31, 32, 33)),
            }
        if self.likes("taints", rarely=4):
            asked["tolerations"] = [self.toleration() for _ in range(dice.randint(1, 2))]
        if self.likes("capacity", often=40, rarely=3) and self.allows("consumableCapacity"):
            asked["capacity"] = {"requests": self.capacity_requests(driver)}
        if self.likes("admin", often=30, rarely=2) and self.allows("adminAccess"):
            asked["adminAccess"] = dice.percent(95)
        if self.likes("derived", often=35, rarely=3) and self.allows("derivedAttributes"):
            raising = self.likes("errors", often=25, rarely=5)
            asked["derivedAttributes"] = [
                {
                    "name": each,
                    "expression": dice.choice(RAISING_DERIVED if raising else DERIVED).replace("DRIVER", driver),
                }
                for each in dice.some(("x.example.com/derived", "x.example.com/derived", f"{driver}/kind"))
            ]
        if dice.percent(0.3):
            asked |= dice.choice(
                (
                    {"deviceClassName": "missing"},
                    {"deviceClassName": ""},
                    {"allocationMode": "Some"},
                    {"selectors": [{}]},
                )
            )
        return asked

    def toleration(self) -> Object:
        dice = self.dice
        return without_nothing(
            {
                "key": dice.choice((*TAINT_KEYS, None)),
                "operator": dice.choice(("Exists", "Equal", None)),
                "value": dice.choice((*TAINT_VALUES[1:], None, None)),
                "effect": dice.choice((*EFFECTS[:2], None, None)),
            }
        )

    def capacity_requests(self, driver: str) -> Object:
        dice = self.dice
        amounts = {
            "memory": ("1Gi", "2Gi", "2560Mi", "5Gi", "8Gi", "10Gi", "1536Mi"),
            "bandwidth": ("1", "2", "500m", "1500m", "2500m", "4"),
            f"{driver}/slots": ("1", "2", "3", "4", "1.5"),
        }
        if dice.percent(2):
            amounts["memory"] = ("-1", "9223372036854775807", "10Pi", "1u", "1e30", "9223372036854775807500m")
        return {name: dice.choice(amounts[name]) for name in dice.some(list(amounts)) if dice.percent(70)}

    def constraints(self, requests: list[Object]) -> list[Object]:
        dice = self.dice
        constraints = []
        derived = [each["name"] for entry in entries_of(requests) for each in entry.get("derivedAttributes") or ()]
        present = sorted(
            {
                name if "/" in name else f"{driver}/{name}"
                for driver, _, device in self.devices
                for name in device["attributes"]
            }
        )
        for _ in range(dice.choice((1, 1, 1, 2, 3))):
            names = derived if derived and dice.percent(70) else present
            name = dice.choice(names) if names and dice.percent(97) else f"{GPU}/absent"
            unlike = name.endswith(("/index", "/serial"))
            kind = "matchAttribute" if dice.percent(10 if unlike else 65) else "distinctAttribute"
            constraint: Object = {kind: name}
            if dice.percent(45) and requests:
                constraint["requests"] = dice.some(names_of(requests))
            if dice.percent(0.2):
                constraint = {}
            constraints.append(constraint)
        return constraints

    # What is in use

    def in_use(self) -> Object:
        dice = self.dice
        dedicated, shares = [], []
        aggregate: dict[str, Object] = {}
        if not self.likes("in use", rarely=20):
            return {}
        chance = dice.choice((10, 30, 60))
        for driver, pool, device in self.devices:
            if not dice.percent(chance):
                continue
            id_ = f"{driver}/{pool}/{device['name']}"
            if not device.get("allowMultipleAllocations") or dice.percent(5):
                dedicated.append(id_)
            if device.get("allowMultipleAllocations") or dice.percent(1):
                shares += [f"{id_}/uid-{number}" for number in range(dice.randint(0, 2))]
                if device.get("capacity") and dice.percent(85):
                    aggregate[id_] = {name: self.used(name) for name in dice.some(list(device["capacity"]))}
        if dice.percent(3):
            dedicated.append(f"{GPU}/gone/d0")
        return {"allocatedDevices": dedicated, "allocatedSharedDeviceIDs": shares, "aggregatedCapacity": aggregate}

    def used(self, name: str) -> str:
        return self.dice.choice(("1Gi", "5Gi", "8Gi", "15Gi") if name == "memory" else ("0", "1", "2500m", "4", "9"))


def matches(expression: str, driver: str, device: Object) -> bool:
    """Whether it does, as far as that can be said."""
    selector = selector_of_text(expression)
    if isinstance(selector, CompileError):
        return True
    try:
        return selector.matches(DeviceView.of(driver, device)).matched
    except (BadDevice, SelectorError):
        return True


def requirement(key: str, operator: str, *values: str) -> Object:
    return {"key": key, "operator": operator} | ({"values": list(values)} if values else {})


def selector_of(*expressions: Object, fields: Object | None = None) -> Object:
    term: Object = {"matchExpressions": list(expressions)} if expressions else {}
    return {"nodeSelectorTerms": [term | ({"matchFields": [fields]} if fields else {})]}


def counter_sets_of(slices: Iterable[Object]) -> list[Object]:
    return [each for slice_ in slices for each in slice_["spec"].get("sharedCounters") or ()]


def entries_of(requests: Iterable[Object]) -> Iterator[Object]:
    for request in requests:
        yield from request.get("firstAvailable") or (request["exactly"],)


def names_of(requests: Iterable[Object]) -> list[str]:
    """What a constraint or configuration may name."""
    return [
        name
        for request in requests
        for name in (
            request["name"],
            *(f"{request['name']}/{entry['name']}" for entry in request.get("firstAvailable") or ()),
        )
    ] or ["r0"]


COUPLINGS = ("match", "distinct", "lists", "counters", "groups", "shares", "admin", "sublists", "errors", "all")


def stages(dice: Dice) -> Object:
    """Requests that choose from devices of their own, and are coupled by little more than one thing.

    What an earlier request took is then seen by later ones through that thing only. A search that remembers its
    failures, and leaves the thing out of what it remembers them by, misses the fit.
    """
    coupled = frozenset(dice.sample(COUPLINGS, dice.choice((1, 1, 2, 2, 3))))
    kinds = "abc"[: dice.choice((2, 2, 3))]
    devices, sets = [], []
    if coupled & {"counters", "groups"}:
        sets = [
            {"name": f"set-{number}", "counters": {"slices": {"value": str(dice.randint(3, 6))}}}
            for number in range(dice.randint(1, 2))
        ]
    for kind in kinds:
        many = dice.randint(3, 5) if kind == "a" else dice.randint(2, 4)
        devices += [staged_device(dice, kind, coupled, sets) for _ in range(many)]
    if dice.percent(50):
        dice.shuffle(devices)
    for number, device in enumerate(devices):
        device["name"] = f"d{number}"
        device["attributes"]["index"] = {"int": number}
    requests = [staged_request(dice, f"r{number}", kind, coupled) for number, kind in enumerate(kinds)]
    if dice.percent(30):
        requests.append(staged_request(dice, f"r{len(kinds)}", dice.choice(kinds), coupled))
    constraints = []
    for kind, name in (("match", "matchAttribute"), ("distinct", "distinctAttribute")):
        if kind in coupled:
            own = {"requests": dice.some([each["name"] for each in requests], least=2)} if dice.percent(30) else {}
            constraints.append({name: f"{GPU}/{dice.choice('vw')}"} | own)
    claims = [requests]
    if not constraints and dice.percent(40):
        cut = dice.randint(1, len(requests) - 1)
        claims = [requests[:cut], requests[cut:]]
    made = simple(devices, claims, constraints, **({"sharedCounters": sets} if sets else {}))
    features = dict.fromkeys(EVERY_FEATURE, True) | {"listTypeAttributes": "lists" in coupled or dice.percent(50)}
    if dice.percent(20):
        used = [f"{GPU}/pool-0/{each['name']}" for each in dice.some(devices, least=0) if dice.percent(30)]
        made["allocatedDevices"] = used
    return made | {"features": features}


def staged_device(dice: Dice, kind: str, coupled: frozenset[str], sets: list[Object]) -> Object:
    def value() -> Any:
        number = dice.randint(0, 2)
        return [number, dice.randint(3, 4)] if "lists" in coupled and dice.percent(60) else number

    odd = None if "errors" in coupled and dice.percent(30) else 1
    device = simple_device(0, kind=kind, v=value(), w=value(), odd=odd)
    if sets:
        consumption: Object = {
            "counterSet": dice.choice(sets)["name"],
            "counters": {"slices": {"value": str(dice.randint(1, 3))}},
        }
        if "groups" in coupled:
            consumption["compatibilityGroups"] = dice.choice(GROUP_SETS)
            consumption["counters"]["slices"]["value"] = "1"
        device["consumesCounters"] = [consumption]
    if "shares" in coupled and dice.percent(80):
        device |= {"allowMultipleAllocations": True, "capacity": {"slots": {"value": str(dice.randint(2, 4))}}}
    return device


def staged_request(dice: Dice, name: str, kind: str, coupled: frozenset[str]) -> Object:
    others = f'device.attributes["DRIVER"].kind in ["{kind}", "{dice.choice("abc")}"]'
    expressions = [others if dice.percent(80 if "shares" in coupled else 15) else KIND % kind]
    if "errors" in coupled and dice.percent(40):
        expressions.append('device.attributes["DRIVER"].odd == 1')
    more: Object = {}
    if "shares" in coupled:
        more["capacity"] = {"requests": {"slots": str(dice.randint(1, 3))}} if dice.percent(85) else {}
    if "admin" in coupled and dice.percent(50):
        more["adminAccess"] = True
        expressions = [dice.choice((others, "true", KIND % kind))]
    count = None if "all" in coupled and dice.percent(25) else dice.choice((1, 1, 2, 2, 3))
    request = exactly(name, count, *expressions, **more)
    if "sublists" in coupled and dice.percent(60):
        other = exactly(
            name, dice.choice((1, 2)), *expressions[:1], **{k: v for k, v in more.items() if k == "capacity"}
        )
        entries = [{"name": f"s{number}"} | each["exactly"] for number, each in enumerate((request, other))]
        for entry in entries:
            entry.pop("adminAccess", None)
        return {"name": name, "firstAvailable": dice.sample(entries, 2)}
    return request


# Traps: shapes in which a search that skips something wrongly is likely to be caught, with random details


def trap(dice: Dice) -> Object:
    """One of the traps, blurred."""
    if dice.percent(50):
        return {"node": {"metadata": {"name": "node-1"}}} | stages(dice)
    build = dice.choice(
        (
            lists_and_kinds,
            broken_all,
            error_behind,
            selector_breaks_later,
            too_large_before_error,
            too_large_behind,
            pigeons,
            packed,
            cards,
            equal_shares,
            unequal_roots,
            admins,
            bonds,
        )
    )
    made = build(dice)
    features = dict.fromkeys(EVERY_FEATURE, True)
    if dice.percent(40):
        features["listTypeAttributes"] = False
    if dice.percent(20):
        features[dice.choice(EVERY_FEATURE)] = False
    return {"features": features, "node": {"metadata": {"name": "node-1"}}} | made


def simple(
    devices: list[Object], claims: Sequence[list[Object]], constraints: Sequence[Object] = (), **spec: Any
) -> Object:
    """A cluster of one pool, and claims of these requests."""
    pool = {"name": "pool-0", "generation": 1, "resourceSliceCount": 2 if "sharedCounters" in spec else 1}
    slices = [
        {
            "metadata": {"name": "slice-0"},
            "spec": {"driver": GPU, "pool": pool, "nodeName": "node-1", "devices": devices},
        }
    ]
    if "sharedCounters" in spec:
        slices.append(
            {"metadata": {"name": "slice-1"}, "spec": {"driver": GPU, "pool": pool, "nodeName": "node-1"} | spec}
        )
    return {
        "classes": [{"metadata": {"name": "gpu"}, "spec": {}}],
        "slices": slices,
        "claims": [
            {
                "metadata": {"name": f"claim-{number}", "namespace": "default"},
                "spec": {"devices": {"requests": requests, "constraints": list(constraints)}},
            }
            for number, requests in enumerate(claims)
        ],
    }


def exactly(name: str, count: int | None, *expressions: str, **more: Any) -> Object:
    """A request for so many devices, or for all."""
    mode: Object = {"allocationMode": "All"} if count is None else {"allocationMode": "ExactCount", "count": count}
    selectors = [{"cel": {"expression": each.replace("DRIVER", GPU)}} for each in expressions]
    return {"name": name, "exactly": {"deviceClassName": "gpu"} | mode | {"selectors": selectors} | more}


def simple_device(number: int, **attributes: Any) -> Object:
    types = {bool: "bool", int: "int", str: "string"}
    typed = {
        name: {f"{types[type(value[0])]}s": value} if isinstance(value, list) else {types[type(value)]: value}
        for name, value in attributes.items()
        if value is not None
    }
    return {"name": f"d{number}", "attributes": {"index": {"int": number}} | typed}


KIND = 'device.attributes["DRIVER"].kind == "%s"'


def lists_and_kinds(dice: Dice) -> Object:
    """Scalars and lists under one constraint: which comes first decides what may follow."""
    devices = [
        simple_device(
            number,
            kind=dice.choice("ab"),
            v=dice.choice(([1], [1, 2], [2, 3], 1, 2, 2, "1", ["1"])),
        )
        for number in range(dice.randint(3, 6))
    ]
    first, second = dice.randint(1, 2), dice.randint(1, 3)
    kind = dice.choice(("matchAttribute", "distinctAttribute"))
    constraint: Object = {kind: f"{GPU}/v"} | ({"requests": [dice.choice(("r0", "r1"))]} if dice.percent(40) else {})
    requests = [exactly("r0", first, KIND % dice.choice("ab")), exactly("r1", second)]
    if dice.percent(50):
        requests.reverse()
    return simple(devices, [requests], [constraint])


def broken_all(dice: Dice) -> Object:
    """All under a constraint: a device that an earlier claim took ends the walk before the refusal, or does not."""
    devices = [
        simple_device(number, v=dice.randint(0, 1), kind=dice.choice("ab")) for number in range(dice.randint(2, 5))
    ]
    if dice.percent(30):
        for device in dice.some(devices):
            device["taints"] = [{"key": "t", "effect": "NoSchedule"}]
    if dice.percent(30):
        for device in dice.some(devices):
            device["allowMultipleAllocations"] = True
            device["capacity"] = {"slots": {"value": "2", "requestPolicy": {"default": "1"}}}
    constraint = {dice.choice(("matchAttribute", "distinctAttribute")): f"{GPU}/v"}
    early = exactly("r0", dice.randint(1, 2), *([KIND % "a"] if dice.percent(50) else []))
    every = exactly("r1", None, *([KIND % dice.choice("ab")] if dice.percent(40) else []))
    if dice.percent(30):
        entries = [
            {"name": f"s{number}"} | copy.deepcopy(each["exactly"])
            for number, each in enumerate((every, exactly("r", dice.randint(1, 3))))
        ]
        every = {"name": "r1", "firstAvailable": entries}
    made = simple(devices, [[early], [every]] if dice.percent(60) else [[early, every]], [constraint])
    if dice.percent(40):
        made["allocatedDevices"] = [f"{GPU}/pool-0/{each['name']}" for each in dice.some(devices) if dice.percent(50)]
    return made


def error_behind(dice: Dice) -> Object:
    """A hopeless search before an error: whether it is ever reached decides between no fit and the error."""
    count = dice.randint(3, 8)
    devices = [simple_device(number, kind=dice.choice("aab"), odd=1) for number in range(count)]
    for device in dice.some(devices)[: dice.randint(1, 2)]:
        del device["attributes"]["odd"]
    odd = 'device.attributes["DRIVER"].odd == 1'
    requests = [
        exactly("r0", dice.randint(1, max(1, count // 2)), *([KIND % "a"] if dice.percent(50) else [])),
        exactly("r1", dice.randint(1, 3), KIND % dice.choice("abc")),
        exactly("r2", dice.randint(1, 3), odd),
    ]
    dice.shuffle(requests)
    for number, request in enumerate(requests):
        request["name"] = f"r{number}"
    constraints: list[Object] = [{"matchAttribute": f"{GPU}/kind"}] if dice.percent(30) else []
    if dice.percent(50):
        requests[-1]["exactly"]["derivedAttributes"] = [
            {"name": "x.example.com/y", "expression": odd.replace("DRIVER", GPU)}
        ]
        constraints.append({"distinctAttribute": "x.example.com/y", "requests": [requests[-1]["name"]]})
    claims = [requests] if dice.percent(60) else [requests[:1], requests[1:]]
    return simple(devices, claims, constraints if len(claims) == 1 else ())


def selector_breaks_later(dice: Dice) -> Object:
    """The first request takes the device on which the second's selector fails; another try leaves it."""
    count = dice.randint(2, 5)
    devices = [simple_device(number, kind=dice.choice("ab"), odd=None if number == 0 else 1) for number in range(count)]
    odd = 'device.attributes["DRIVER"].odd == 1'
    more = [
        {"name": "s0"} | exactly("", dice.randint(1, 2), odd)["exactly"],
        {"name": "s1"} | exactly("", dice.randint(1, 2))["exactly"],
    ]
    second = {"name": "r1", "firstAvailable": more} if dice.percent(40) else exactly("r1", dice.randint(1, count), odd)
    third = exactly("r2", dice.randint(1, 2), KIND % dice.choice("ab"))
    made = simple(devices, [[exactly("r0", dice.randint(1, 2)), second, *([third] if dice.percent(60) else [])]])
    if dice.percent(40):
        made["allocatedDevices"] = [f"{GPU}/pool-0/d0"]
    return made


def too_large_before_error(dice: Dice) -> Object:
    """A list whose entries pass the limit of 32, with an error device behind that must not be reached."""
    count = dice.randint(33, 36)
    devices = [simple_device(number, odd=1 if number < count - 2 else None, kind="a") for number in range(count)]
    odd = 'device.attributes["DRIVER"].odd == 1'
    sizes = dice.choice(((2, 1), (3, 1), (1, 2), (16, 1), (30, 2)))
    entries = [
        {"name": f"s{number}"} | exactly("", size, *([odd] if dice.percent(60) else []))["exactly"]
        for number, size in enumerate(sizes)
    ]
    last = exactly("r1", dice.choice((30, 31, 31, 32 - sizes[0])), *([odd] if dice.percent(40) else []))
    claims = [[{"name": "r0", "firstAvailable": entries}, last]]
    if dice.percent(30):
        claims.insert(0, [exactly("r0", 1)])
    return simple(devices, claims)


def pigeons(dice: Dice) -> Object:
    """As many single requests as there are devices, give or take one, over kinds that overlap."""
    count = dice.randint(3, 6)
    devices = [
        simple_device(number, kind=dice.choice("abc"), v=number // 2, root=f"r{number % 2}") for number in range(count)
    ]
    wanted = count + dice.choice((-1, 0, 0, 1, 1))
    expressions = (KIND % "a", KIND % "b", 'device.attributes["DRIVER"].kind != "c"', "true")
    requests = [exactly(f"r{number}", 1, dice.choice(expressions)) for number in range(wanted)]
    name = dice.choice(("kind", "v", "root"))
    constraints = []
    if dice.percent(60):
        kind = dice.choice(("matchAttribute", "distinctAttribute"))
        names = dice.some([request["name"] for request in requests], least=2)
        constraints.append({kind: f"{GPU}/{name}", "requests": names})
    if dice.percent(30) and requests:
        dice.choice(requests)["exactly"]["adminAccess"] = True
    claims = [requests] if dice.percent(60) else [[request] for request in requests]
    return simple(devices, claims, constraints if len(claims) == 1 else ())


def packed(dice: Dice) -> Object:
    """Partitions of a few cards, asked for until nothing is left."""
    cards = dice.randint(1, 3)
    sets = [
        {
            "name": f"card-{card}",
            "counters": {"slices": {"value": str(dice.choice((3, 4, 7)))}, "memory": {"value": "8"}},
        }
        for card in range(cards)
    ]
    devices = []
    for number in range(dice.randint(3, 9)):
        size = dice.choice((1, 1, 2, 3))
        card = dice.randrange(cards)
        consumption: Object = {
            "counterSet": f"card-{card}",
            "counters": {"slices": {"value": str(size)}, "memory": {"value": str(dice.choice((1, 2, size * 2)))}},
        }
        if dice.percent(25):
            consumption["compatibilityGroups"] = dice.choice(GROUP_SETS)
        consumptions = [consumption]
        if cards > 1 and dice.percent(20):
            other = f"card-{(card + 1) % cards}"
            consumptions.append({"counterSet": other, "counters": {"slices": {"value": "1"}}})
        device = simple_device(number, kind="abc"[size - 1], card=card)
        if dice.percent(15):
            device |= {
                "allowMultipleAllocations": True,
                "capacity": {"slots": {"value": "2", "requestPolicy": {"default": "1"}}},
            }
        devices.append(device | {"consumesCounters": consumptions})
    requests = [
        exactly(f"r{number}", dice.randint(1, 3), *([KIND % dice.choice("abc")] if dice.percent(60) else []))
        for number in range(dice.randint(1, 3))
    ]
    constraints = [{dice.choice(("matchAttribute", "distinctAttribute")): f"{GPU}/card"}] if dice.percent(35) else []
    claims = [requests] if dice.percent(60) else [[request] for request in requests]
    made = simple(devices, claims, constraints, sharedCounters=sets)
    if dice.percent(40):
        made["allocatedDevices"] = [f"{GPU}/pool-0/{each['name']}" for each in devices if dice.percent(20)]
    return made


def bonds(dice: Dice) -> Object:
    """Several constraints over overlapping requests, on few values."""
    devices = [
        simple_device(number, root=f"r{dice.randint(0, 2)}", numa=dice.randint(0, 1), kind=dice.choice("ab"))
        for number in range(dice.randint(4, 8))
    ]
    requests = [
        exactly(f"r{number}", dice.randint(1, 2), *([KIND % dice.choice("ab")] if dice.percent(60) else []))
        for number in range(dice.randint(2, 4))
    ]
    names = [request["name"] for request in requests]
    constraints: list[Object] = [
        {
            dice.choice(("matchAttribute", "matchAttribute", "distinctAttribute")): f"{GPU}/{name}",
            "requests": dice.some(names, least=2),
        }
        for name in dice.sample(("root", "numa", "kind", "index"), dice.randint(1, 3))
    ]
    return simple(devices, [requests], constraints)


def too_large_behind(dice: Dice) -> Object:
    """A list decides whether the claim gets too large, and nothing but that count tells a later request about it."""
    kinds = ["b"] * 3 + ["c"] * dice.randint(3, 4) + ["d"] * 2
    devices = [
        simple_device(number, kind=kind, v=1 if kind == "d" and dice.percent(80) else dice.randint(0, 2))
        for number, kind in enumerate(kinds)
    ]
    devices += [simple_device(number, kind="a") for number in range(len(kinds), len(kinds) + 30)]
    sizes = dice.sample((1, 2, 3), 2)
    if dice.percent(70):
        sizes.sort(reverse=True)
    entries = [{"name": f"s{number}"} | exactly("", size, KIND % "b")["exactly"] for number, size in enumerate(sizes)]
    requests = [
        exactly("r0", 1, KIND % "c"),
        {"name": "r1", "firstAvailable": entries},
        exactly("r2", 1, KIND % "d"),
        exactly("r3", 30 - min(sizes) - dice.choice((0, 0, 1)), KIND % "a"),
    ]
    constraint = {dice.choice(("matchAttribute", "matchAttribute", "distinctAttribute")): f"{GPU}/v"}
    return simple(devices, [requests], [constraint | {"requests": ["r0", "r2"]}] if dice.percent(85) else ())


def cards(dice: Dice) -> Object:
    """Cards that are all alike: which of them is in which state must not matter, but in which states they are."""
    count = dice.randint(2, 3)
    size = dice.randint(3, 6)
    profiles = [("a", slices) for slices in dice.sample(range(1, size + 1), dice.randint(1, 3))]
    profiles += [(dice.choice("bbc"), dice.randint(1, 3)) for _ in range(dice.randint(1, 2))]
    if dice.percent(70):
        # What takes most comes first: the search is wrong more than once before it is right.
        profiles.sort(key=lambda profile: (profile[0], -profile[1]))
    sets = [{"name": f"card-{card}", "counters": {"slices": {"value": str(size)}}} for card in range(count)]
    groups: list[list[str]] = [[] for _ in profiles]
    if dice.percent(30):
        # Then it is the groups that tell, not the amounts.
        profiles = [("a", 1), ("a", 1), ("a", 1), ("b", 1), ("b", 1)]
        groups = [dice.choice(GROUP_SETS[1:] if dice.percent(85) else GROUP_SETS) for _ in profiles]
    devices = [
        simple_device(card * len(profiles) + number, kind=kind, card=card)
        | {
            "consumesCounters": [
                {
                    "counterSet": f"card-{card}",
                    "counters": {"slices": {"value": str(slices)}},
                    "compatibilityGroups": groups[number],
                }
            ]
        }
        for card in range(count)
        for number, (kind, slices) in enumerate(profiles)
    ]
    requests = [
        exactly(f"r{number}", dice.choice((1, 1, 2, count)), *([KIND % kind] if dice.percent(90) else []))
        for number, kind in enumerate(("a", *(dice.choice(profiles)[0] for _ in range(dice.randint(1, 2)))))
    ]
    names = [each["name"] for each in requests]
    constraints = []
    if dice.percent(30):
        own = {"requests": dice.some(names, least=2)} if dice.percent(60) else {}
        constraints.append({dice.choice(("matchAttribute", "distinctAttribute")): f"{GPU}/card"} | own)
    claims = [requests] if constraints or dice.percent(50) else [[each] for each in requests]
    made = simple(devices, claims, constraints, sharedCounters=sets)
    if dice.percent(25):
        made["allocatedDevices"] = [f"{GPU}/pool-0/d{dice.randrange(len(devices))}"]
    return made


def equal_shares(dice: Dice) -> Object:
    """Shared devices that are alike until something of them is taken, and something else that fails at first."""
    room = dice.randint(2, 5)
    devices = [
        simple_device(number, kind="s")
        | {"allowMultipleAllocations": True, "capacity": {"slots": {"value": str(room)}, "lanes": {"value": "4"}}}
        for number in range(dice.randint(2, 4))
    ]
    first = len(devices)
    devices += [simple_device(first + number, kind="b", v=dice.randint(0, 1)) for number in range(dice.randint(2, 4))]
    if dice.percent(50):
        dice.shuffle(devices)
    requests = [
        exactly(
            "",
            dice.choice((1, 1, 1, 2)),
            KIND % "s",
            capacity={"requests": {"slots": str(dice.randint(1, room)), "lanes": str(dice.randint(0, 2))}},
        )
        for _ in range(dice.randint(2, 5))
    ]
    requests += [exactly("", dice.randint(1, 2), KIND % "b") for _ in range(dice.randint(1, 2))]
    dice.shuffle(requests)
    for number, request in enumerate(requests):
        request["name"] = f"r{number}"
    own = [each["name"] for each in requests if "capacity" not in each["exactly"]]
    constraint = {dice.choice(("matchAttribute", "distinctAttribute")): f"{GPU}/v", "requests": own}
    sets: list[Object] = []
    if dice.percent(35):
        # A device that is in use pays no counters for another share.
        sets = [{"name": "set-0", "counters": {"slices": {"value": str(dice.randint(1, first))}}}]
        for device in devices:
            if "capacity" in device:
                device["consumesCounters"] = [{"counterSet": "set-0", "counters": {"slices": {"value": "1"}}}]
    made = simple(
        devices,
        [requests],
        [constraint] if dice.percent(70) else (),
        **({"sharedCounters": sets} if sets else {}),
    )
    if dice.percent(50):
        used = [each["name"] for each in devices if "capacity" in each and dice.percent(70)]
        made["aggregatedCapacity"] = {
            f"{GPU}/pool-0/{name}": {"slots": str(dice.randint(0, room)), "lanes": "1"} for name in used
        }
        made["allocatedSharedDeviceIDs"] = [f"{GPU}/pool-0/{name}/uid-{name}" for name in used]
    return made


def unequal_roots(dice: Dice) -> Object:
    """Roots with devices of the same kinds, more of them on some: the request for few decides about that for many."""
    devices: list[Object] = []
    for root in range(dice.randint(2, 4)):
        for kind, most in (("a", 2), ("b", 3), ("c", 1)):
            devices += [
                simple_device(len(devices) + number, kind=kind, root=f"r{root}", numa=dice.randint(0, 1))
                for number in range(dice.randint(0 if kind == "c" else 1, most))
            ]
    requests = [
        exactly("r0", 1, KIND % "a"),
        exactly("r1", dice.randint(2, 3), KIND % "b"),
        *([exactly("r2", 1, KIND % dice.choice("ac"))] if dice.percent(40) else []),
    ]
    constraints: list[Object] = [{"matchAttribute": f"{GPU}/root"}]
    if dice.percent(30):
        constraints.append({dice.choice(("matchAttribute", "distinctAttribute")): f"{GPU}/numa"})
        constraints[-1]["requests"] = dice.sample([each["name"] for each in requests], 2)
    return simple(devices, [requests], constraints)


def admins(dice: Dice) -> Object:
    """Admin access to devices in use: what one request has of them, another of the same claim cannot have."""
    kinds = dice.choice(("bbaac", "bbbaacc", "bababc", "bbbac"))
    devices = [simple_device(number, kind=kind, v=dice.randint(0, 1)) for number, kind in enumerate(kinds)]
    some = 'device.attributes["DRIVER"].kind in ["a", "b"]'
    requests = [
        exactly("r0", dice.choice((1, 1, 2)), some, adminAccess=True),
        exactly("r1", 1, KIND % "c"),
        exactly("r2", kinds.count("b") - dice.choice((0, 0, 1)), KIND % "b", adminAccess=dice.percent(85)),
    ]
    if dice.percent(30):
        requests.insert(0, exactly("r3", 1, KIND % dice.choice("ab")))
    constraint = {"matchAttribute": f"{GPU}/v", "requests": dice.sample(("r0", "r1", "r2"), 2)}
    claims = [requests] if dice.percent(70) else [requests[:1], requests[1:]]
    made = simple(devices, claims, [constraint] if dice.percent(25) and len(claims) == 1 else ())
    used = [f"{GPU}/pool-0/d{number}" for number, kind in enumerate(kinds) if kind != "c" and dice.percent(75)]
    return made | {"allocatedDevices": used}
