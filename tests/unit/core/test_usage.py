from __future__ import annotations

from dataclasses import replace

import pytest

from builders import GPU, GPU_CLASS, NIC, NIC_CLASS, device_class
from drabridge.core.asked import Asked, AskedRequest
from drabridge.core.claims import ClaimView, DeviceResult
from drabridge.core.classmap import ClassMap, ClassView
from drabridge.core.policy import Delivery
from drabridge.core.usage import Usage, Usages, count

CLASSES = ClassMap.of([ClassView.of(each) for each in (GPU_CLASS, NIC_CLASS, device_class("fpga"))], {})


def asked(*requests: tuple[str, str, int]) -> Asked:
    return Asked({}, tuple(AskedRequest(*each) for each in requests), ())


def claim(*devices: str, classes: dict[str, str] | None = None, special: bool = False) -> ClaimView:
    """Make a claim; `devices` are the requests that devices are allocated to, none at all means not allocated."""
    results = tuple(DeviceResult(request, "d", "p", f"dev-{i}") for i, request in enumerate(devices))
    return ClaimView("ns", "c", "u", "web", "pod-uid", special, not special, classes or {}, results or None)


REWRITE, NATIVE = Delivery.REWRITE, Delivery.NATIVE
ONE, BOTH = asked(("r0", GPU, 2)), asked(("r0", GPU, 2), ("r1", NIC, 1), ("r2", GPU, 1))

CASES: dict[str, tuple[list[tuple[Asked, ClaimView | None]], list[ClaimView], Usages]] = {
    "nothing is in use": ([], [], {}),
    "a Pod that waits for its claim": ([(ONE, None)], [], {(GPU, REWRITE): Usage(1, 0, 0)}),
    "a claim that is not allocated": ([(ONE, claim())], [], {(GPU, REWRITE): Usage(1, 1, 0)}),
    "devices that are allocated": ([(ONE, claim("r0", "r0"))], [], {(GPU, REWRITE): Usage(1, 1, 2)}),
    "a Pod of two names counts once for each, its devices by request": (
        [(BOTH, claim("r0", "r0", "r1", "r2"))],
        [],
        {(GPU, REWRITE): Usage(1, 1, 3), (NIC, REWRITE): Usage(1, 1, 1)},
    ),
    "Pods add up": ([(ONE, None), (ONE, claim("r0", "r0"))], [], {(GPU, REWRITE): Usage(2, 1, 2)}),
    "a result of a request that the Pod does not know is left out": (
        [(ONE, claim("r0", "other"))],
        [],
        {(GPU, REWRITE): Usage(1, 1, 1)},
    ),
    "the scheduler's claims are native, by the name their class declares": (
        [],
        [claim("a", "a", "b", classes={"a": "gpu", "b": "nic"}, special=True)],
        {(GPU, NATIVE): Usage(1, 1, 2), (NIC, NATIVE): Usage(1, 1, 1)},
    ),
    "a class without a declared name counts under its implicit one": (
        [],
        [claim("a", classes={"a": "fpga"}, special=True)],
        {("deviceclass.resource.kubernetes.io/fpga", NATIVE): Usage(1, 1, 1)},
    ),
    "native and rewritten Pods of one name are kept apart": (
        [(ONE, claim("r0"))],
        [claim("a", classes={"a": "gpu"}, special=True), claim("b", classes={"b": "gpu"}, special=True)],
        {(GPU, REWRITE): Usage(1, 1, 1), (GPU, NATIVE): Usage(2, 2, 2)},
    ),
    "a special claim that no Pod owns is somebody's forgery": (
        [],
        [replace(claim("a", classes={"a": "gpu"}, special=True), owner_uid="")],
        {},
    ),
    "a special claim that nobody has allocated may be one as well": (
        [],
        [replace(claim("a", classes={"a": "gpu"}, special=True), results=None)],
        {},
    ),
    "claims that are not special are counted with their Pods only": ([], [claim("a", classes={"a": "gpu"})], {}),
}


@pytest.mark.parametrize(("pods", "claims", "want"), CASES.values(), ids=CASES)
def test_usage_is_counted(pods: list[tuple[Asked, ClaimView | None]], claims: list[ClaimView], want: Usages) -> None:
    assert count(pods, claims, CLASSES) == want
