"""The scenario shapes whose cost is known to be trouble, as scenarios of the JSON-lines format.

Each comes with upstream's verdict. Where upstream's search does not end within its timeout, the verdict is proven by
counting, and the shape's comment says how.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

DRIVER = "gpu.example.com"
NODE = "node-1"

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Shape:
    """A scenario, whether it fits, and the most steps that the bounded search may take."""

    scenario: Json
    fits: bool
    steps: int


def device(name: str, /, *, driver: str = DRIVER, **attributes: object) -> Json:
    kinds = {bool: "bool", int: "int", str: "string"}
    return {
        "name": name,
        "attributes": {f"{driver}/{key}": {kinds[type(value)]: value} for key, value in attributes.items()},
    }


def plain(count: int, **attributes: object) -> list[Json]:
    return [device(f"d-{i:04}", index=i, **attributes) for i in range(count)]


def grouped(groups: int, each: int, attribute: str = "root") -> list[Json]:
    return [
        device(f"d-{group:03}-{i:03}", **{attribute: f"r{group}", "index": group * each + i})
        for group in range(groups)
        for i in range(each)
    ]


def slice_of(
    devices: Sequence[Json],
    *,
    name: str = "slice-0",
    pool: str = NODE,
    count: int = 1,
    driver: str = DRIVER,
    place: Mapping[str, object] | None = None,
    **more: object,
) -> Json:
    return {
        "metadata": {"name": name},
        "spec": {
            "driver": driver,
            "pool": {"name": pool, "generation": 1, "resourceSliceCount": count},
            **({"nodeName": NODE} if place is None else place),
            "devices": list(devices),
            **more,
        },
    }


def device_class(name: str = "gpu", driver: str = DRIVER, *expressions: str) -> Json:
    selectors = [f"device.driver == '{driver}'", *expressions]
    return {"metadata": {"name": name}, "spec": {"selectors": [{"cel": {"expression": text}} for text in selectors]}}


def request(name: str, count: int = 1, *selectors: str, device_class: str = "gpu", **more: object) -> Json:
    exactly: Json = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": count, **more}
    if selectors:
        exactly["selectors"] = [{"cel": {"expression": text}} for text in selectors]
    return {"name": name, "exactly": exactly}


def claim(*requests: Json, name: str = "claim-0", constraints: Sequence[Json] = ()) -> Json:
    devices: Json = {"requests": list(requests)}
    if constraints:
        devices["constraints"] = list(constraints)
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"devices": devices}}


def scenario(
    slices: Sequence[Json], *claims: Json, classes: Sequence[Json] = (), features: Mapping[str, bool] | None = None
) -> Json:
    return {
        "id": "shape",
        "features": {
            "adminAccess": True, "prioritizedList": True, "partitionableDevices": True, "deviceTaints": True,
            "deviceBindingAndStatus": True, "consumableCapacity": True, "fractionalCapacityRange": True,
            **(features or {}),
        },
        "classes": list(classes) or [device_class()],
        "slices": list(slices),
        "node": {"metadata": {"name": NODE, "labels": {"kubernetes.io/hostname": NODE}}},
        "claims": list(claims),
    }  # fmt: skip


def match(attribute: str, *requests: str, driver: str = DRIVER) -> Json:
    return {"matchAttribute": f"{driver}/{attribute}", **({"requests": list(requests)} if requests else {})}


def distinct(attribute: str, *requests: str, driver: str = DRIVER) -> Json:
    return {"distinctAttribute": f"{driver}/{attribute}", **({"requests": list(requests)} if requests else {})}


# Partitions: cards of seven slices and eight memory units, as NVIDIA's MIG has them.

PROFILES = {"1g": (1, 1), "2g": (2, 2), "3g": (3, 4), "4g": (4, 4), "7g": (7, 8)}
"""Profile -> compute slices, memory units (5Gi each)."""


def mig(cards: int, placements: Mapping[str, int] | None = None) -> list[Json]:
    """Slices of cards, each with so many devices of each profile."""
    counts = placements or {"1g": 7, "2g": 3, "3g": 2, "4g": 1, "7g": 1}
    devices = []
    for card in range(cards):
        for profile, many in counts.items():
            compute, memory = PROFILES[profile]
            counters = {"compute": {"value": str(compute)}, "memory": {"value": f"{5 * memory}Gi"}}
            devices.extend(
                {
                    **device(f"gpu-{card}-{profile}-{i}", profile=profile, card=card),
                    "consumesCounters": [{"counterSet": f"card-{card}", "counters": counters}],
                }
                for i in range(many)
            )
    sets = [
        {"name": f"card-{card}", "counters": {"compute": {"value": "7"}, "memory": {"value": "40Gi"}}}
        for card in range(cards)
    ]
    return with_counters(devices, sets)


def with_counters(devices: Sequence[Json], sets: Sequence[Json]) -> list[Json]:
    """Write a pool of partitions as slices."""
    chunks = [devices[i : i + 64] for i in range(0, len(devices), 64)]
    set_chunks = [sets[i : i + 8] for i in range(0, len(sets), 8)]
    total = len(chunks) + len(set_chunks)
    slices = [slice_of(chunk, name=f"dev-{i}", count=total) for i, chunk in enumerate(chunks)]
    for i, each in enumerate(set_chunks):
        counters = slice_of((), name=f"sets-{i}", count=total, sharedCounters=list(each))
        del counters["spec"]["devices"]
        slices.append(counters)
    return slices


def profile(name: str) -> str:
    return f"device.attributes['{DRIVER}'].profile == '{name}'"


def links(count: int, tight: int) -> list[Json]:
    """Devices that each take one port on the left and one on the right, as edges of a graph with `count` nodes a side.

    The first `tight` + 1 nodes on the left lead to `tight` nodes on the right only, so that not all can be used.
    """
    devices = [
        {
            **device(f"link-{left:02}-{right:02}"),
            "consumesCounters": [
                {"counterSet": f"{side}-{number:02}", "counters": {"port": {"value": "1"}}}
                for side, number in (("left", left), ("right", right))
            ],
        }
        for left in range(count)
        for right in range(tight if left <= tight else count)
    ]
    sets = [
        {"name": f"{side}-{number:02}", "counters": {"port": {"value": "1"}}}
        for side in ("left", "right")
        for number in range(count)
    ]
    return with_counters(devices, sets)


def unlike(count: int, need: int) -> list[Json]:
    """Partitions of one card, no two of a size: `need` of them must take an exact sum that no `need` of them have."""
    size = 1000
    sizes = [2 * (17 * i * i % 97 + 3 * i) + 2 for i in range(count)]
    middle = sum(sorted(sizes)[count // 2 - need // 2 :][:need]) // 2 * 2 + 1  # odd, and all sizes are even
    devices = [
        {
            **device(f"part-{i:02}", index=i),
            "consumesCounters": [
                {"counterSet": "card", "counters": {"a": {"value": str(each)}, "b": {"value": str(size - each)}}}
            ],
        }
        for i, each in enumerate(sizes)
    ]
    card = {"a": {"value": str(middle)}, "b": {"value": str(need * size - middle)}}
    return with_counters(devices, [{"name": "card", "counters": card}])


# Devices that are shared by capacity.


def nics(count: int, bandwidth: str = "10G") -> list[Json]:
    return [
        {
            **device(f"nic-{i}", index=i),
            "allowMultipleAllocations": True,
            "capacity": {"bandwidth": {"value": bandwidth}},
        }
        for i in range(count)
    ]


def share(name: str, bandwidth: str) -> Json:
    return request(name, capacity={"requests": {"bandwidth": bandwidth}})


def network(pools: int) -> list[Json]:
    selector = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "Exists"}]}]}
    return [
        slice_of(plain(1), name=f"net-{i:04}", pool=f"net-{i:04}", place={"nodeSelector": selector})
        for i in range(pools)
    ]


def big(count: int) -> list[Json]:
    devices = plain(count, model="a100")
    chunks = [devices[i : i + 128] for i in range(0, count, 128)]
    return [
        slice_of(chunk, name=f"s-{i:03}", count=len(chunks), place={"allNodes": True}) for i, chunk in enumerate(chunks)
    ]


def cluster(nodes: int, each: int = 8) -> list[Json]:
    found = []
    for i in range(nodes):
        name = f"node-{i}"
        devices = [
            device(f"gpu-{j}", model="a100", uuid=f"GPU-{i}-{j}", numa=j // 4, healthy=True) for j in range(each)
        ]
        found.append(slice_of(devices, name=f"{name}-gpu", pool=name, place={"nodeName": name}))
    return found


MODEL = f"device.attributes['{DRIVER}'].model == 'a100'"
NEVER = f"device.attributes['{DRIVER}'].index > 1000000"
INDEXED = f"device.attributes['{DRIVER}'].index"


def _singles(count: int) -> list[Json]:
    return [request(f"r{i}") for i in range(count)]


@cache
def shapes() -> dict[str, Shape]:
    """The shapes by name."""
    one = [slice_of(plain(8))]
    return {
        "1 of 8": Shape(scenario(one, claim(request("r"))), True, 4),
        "8 of 8": Shape(scenario(one, claim(request("r", 8))), True, 11),
        "8 claims of 1": Shape(scenario(one, *(claim(request("r"), name=f"c{i}") for i in range(8))), True, 25),
        "64 with CEL, 4 fit": Shape(
            scenario([slice_of(plain(64))], claim(request("r", 4, f"{INDEXED} >= 60"))), True, 7
        ),
        "64 with CEL, none": Shape(scenario([slice_of(plain(64))], claim(request("r", 4, NEVER))), False, 1),
        "100 devices, match only in the last group": Shape(
            scenario(
                [slice_of([*grouped(33, 3)[:96], *(device(f"z-{i}", root="last") for i in range(4))])],
                claim(request("r", 4), constraints=[match("root")]),
            ),
            True,
            16,
        ),
        "MIG 7 of 1g": Shape(scenario(mig(1), claim(request("r", 7, profile("1g")))), True, 10),
        "MIG mixed": Shape(
            scenario(
                mig(2),
                claim(
                    request("a", 1, profile("4g")), request("b", 1, profile("3g")), request("c", 2, profile("2g")),
                    request("d", 3, profile("1g")),
                ),
            ),
            True,
            20,
        ),
        "MIG 2 cards, too much": Shape(
            scenario(mig(2), claim(request("a", 2, profile("7g")), request("b", 1, profile("1g")))), False, 20
        ),
        "MIG 29 on 28 slices": Shape(scenario(mig(4), claim(request("r", 29, profile("1g")))), False, 32),
        "MIG 8 cards, mixed profiles": Shape(
            scenario(
                mig(8),
                claim(
                    request("a", 8, profile("4g")), request("b", 7, profile("3g")), request("c", 1, profile("2g")),
                    request("d", 1, profile("1g")), request("e", 1, profile("7g")),
                ),
            ),
            False,
            60,
        ),
        "shared NICs, 16": Shape(
            scenario([slice_of(nics(4))], claim(*(share(f"r{i}", "2500M") for i in range(16)))), True, 36
        ),
        "shared NICs, 7 of 6": Shape(
            scenario([slice_of(nics(3))], claim(*(share(f"r{i}", "5G") for i in range(7)))), False, 32
        ),
        "17 of 16": Shape(scenario([slice_of(plain(16))], claim(request("r", 17))), False, 20),
        "21 of 20": Shape(scenario([slice_of(plain(20))], claim(request("r", 21))), False, 24),
        "12 of 24, match": Shape(
            scenario([slice_of(grouped(3, 8))], claim(request("r", 12), constraints=[match("root")])), False, 16
        ),
        "8 of 16, then none": Shape(
            scenario([slice_of(plain(16))], claim(request("a", 8), request("b", 1, NEVER))), False, 14
        ),
        "12 of 24, then none": Shape(
            scenario([slice_of(plain(24))], claim(request("a", 12), request("b", 1, NEVER))), False, 18
        ),
        "pigeonhole, 9 on 8": Shape(scenario([slice_of(plain(8))], claim(*_singles(9))), False, 30),
        "pigeonhole, 10 on 9": Shape(scenario([slice_of(plain(9))], claim(*_singles(10))), False, 34),
        "distinct, 7 of 6 values": Shape(
            scenario([slice_of(grouped(6, 3))], claim(request("r", 7), constraints=[distinct("root")])), False, 12
        ),
        "1,000 network pools": Shape(scenario(network(1000), claim(request("r", 2))), True, 5),
        "5,000 nodes, one asked": Shape(scenario(cluster(5000), claim(request("r"))), True, 4),
        "9,984 devices, first fits": Shape(scenario(big(9984), claim(request("r", 1, MODEL))), True, 4),
        "9,984 devices, none fits": Shape(
            scenario(big(9984), claim(request("r", 1, MODEL, f"device.attributes['{DRIVER}'].model == 'h100'"))),
            False,
            1,
        ),
        "13 requests of 4 on 12 roots of 5": Shape(
            scenario(
                [slice_of(grouped(12, 5))],
                *(
                    claim(request("r", 4), name=f"c{i}", constraints=[match("root")])
                    for i in range(13)
                ),
            ),
            False,
            400,
        ),
        "same root, distinct NUMA": Shape(
            scenario(
                [slice_of([
                    device(f"d-{root}-{i}", root=f"r{root}", numa=i % 3) for root in range(6) for i in range(6)
                ])],
                claim(request("r", 4), constraints=[match("root"), distinct("numa")]),
            ),
            False,
            60,
        ),
        "16 of 30, then All with a broken constraint": Shape(
            scenario(
                [slice_of([*plain(30), *(device(f"x-{i}", kind="x", side=i) for i in range(2))])],
                claim(
                    request("a", 16, f"has({INDEXED})"),
                    request("b", 0, f"has(device.attributes['{DRIVER}'].kind)", allocationMode="All"),
                    constraints=[match("side", "b")],
                ),
            ),
            False,
            100,
        ),
        "admin 12 of 24, then 13": Shape(
            scenario(
                [slice_of(plain(24))], claim(request("a", 12, adminAccess=True), request("b", 13))
            ),
            False,
            60,
        ),
        "12 two-way lists on 11 devices": Shape(
            scenario(
                [slice_of(plain(11))],
                claim(
                    *(
                        {"name": f"r{i}", "firstAvailable": [
                            {"name": "a", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2},
                            {"name": "b", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1},
                        ]}
                        for i in range(12)
                    )
                ),
            ),
            False,
            200,
        ),
        "8 links of which 7 fit": Shape(scenario(links(8, 3), claim(request("r", 8))), False, 20),
        "16 links of which 15 fit": Shape(scenario(links(16, 6), claim(request("r", 16))), False, 30),
        "8 of 20 unlike partitions": Shape(scenario(unlike(20, 8), claim(request("r", 8))), False, 20_000),
        "shares of unlike sizes, 16 on 4 NICs": Shape(
            scenario(
                [slice_of(nics(4, "1000M"))],
                claim(*(share(f"r{i}", f"{size}M") for i, size in enumerate([251, 249] * 7 + [253, 251]))),
            ),
            False,
            2_000,
        ),
        "placements on 8 cards": Shape(
            scenario(mig(8), claim(request("a", 16, profile("3g")), request("b", 9, profile("1g")))), False, 60
        ),
        "GPU and NIC pairs on 8 roots": Shape(
            scenario(
                [
                    slice_of([device(f"g-{i}", kind="gpu", root=f"r{i}", serial=f"g{i}") for i in range(8)], name="g",
                             pool="gpus"),
                    slice_of([device(f"n-{i}", kind="nic", root=f"r{i}", serial=f"n{i}") for i in range(7)], name="n",
                             pool="nics"),
                ],
                *(
                    claim(
                        request("g", 1, f"device.attributes['{DRIVER}'].kind == 'gpu'"),
                        request("n", 1, f"device.attributes['{DRIVER}'].kind == 'nic'"),
                        name=f"c{i}", constraints=[match("root")],
                    )
                    for i in range(8)
                ),
            ),
            False,
            400,
        ),
    }  # fmt: skip
