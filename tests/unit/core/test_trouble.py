from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from builders import pod
from drabridge.core.claims import DeviceResult
from drabridge.core.reasons import CURES, Reason
from drabridge.core.supply import Published
from drabridge.core.trouble import (
    Holding,
    Told,
    Trouble,
    can_be_over,
    is_starting,
    to_tell,
    trouble_of,
    without_devices,
)

DRIVER = "gpu.example.com"
FAILED = "Failed to prepare dynamic resources: prepare dynamic resources: "


def one(device: str = "gpu-0", pool: str = "node-1") -> DeviceResult:
    return DeviceResult("one", DRIVER, pool, device)


def published(*devices: str, pool: str = "node-1", **tainted: str) -> Published:
    return Published({(DRIVER, pool): {**dict.fromkeys(devices, ""), **tainted}})


@dataclass(frozen=True)
class Case:
    """What is known -> the reason, and part of the detail; no reason if nothing is wrong."""

    holding: Holding
    published: Published
    reason: Reason | None = None
    detail: str = ""


def starting(said: str = "", *results: DeviceResult, **more: Any) -> Holding:
    return Holding(results or (one(),), "node-1", starting=True, said=said, **more)


def running(*results: DeviceResult, **more: Any) -> Holding:
    return Holding(results or (one(),), "node-1", **more)


CASES = {
    "a Pod that starts": Case(starting(), published("gpu-0")),
    "a Pod that runs": Case(running(), published("gpu-0")),
    "a driver that the kubelet does not know": Case(
        starting(f"{FAILED}DRA driver {DRIVER} is not registered"),
        published("gpu-0"),
        Reason.DRIVER_MISSING,
        f"DRA driver {DRIVER} is not registered with the kubelet on node-1",
    ),
    "a driver that the kubelet still calls": Case(
        starting(
            f'{FAILED}NodePrepareResources: rpc error: code = Unavailable desc = connection error: desc = "transport:'
            f" Error while dialing: dial unix /var/lib/kubelet/plugins/{DRIVER}/dra.sock: connect: no such file"
        ),
        published("gpu-0"),
        Reason.DRIVER_MISSING,
        f"DRA driver {DRIVER} does not answer the kubelet on node-1",
    ),
    "a driver that cannot reach something else": Case(
        starting(f"{FAILED}rpc error: dial unix /run/daemon.sock: connect: connection refused"),
        published("gpu-0"),
        Reason.PREPARING_FAILS,
    ),
    "a driver whose slices the kubelet has removed": Case(
        starting(), Published({}), Reason.DRIVER_MISSING, f"{DRIVER} publishes no devices any more in pool node-1"
    ),
    "a Pod that runs on when the driver is upgraded": Case(running(), Published({})),
    "a driver that fails": Case(
        starting(f"{FAILED}NodePrepareResources failed for claim c:\n the device does not answer."),
        published("gpu-0"),
        Reason.PREPARING_FAILS,
        "the kubelet on node-1 says: Failed to prepare dynamic resources: prepare dynamic resources:"
        " NodePrepareResources failed for claim c: the device does not answer",
    ),
    "a CDI directory that is read-only": Case(
        starting(f"{FAILED}open /var/run/cdi/x.json: read-only file system"),
        published("gpu-0"),
        Reason.NODE_NOT_WRITABLE,
        "/var/run/cdi/x.json",
    ),
    "a CDI directory without rights": Case(
        starting(f"{FAILED}open /var/run/cdi/x.json: permission denied"), published("gpu-0"), Reason.NODE_NOT_WRITABLE
    ),
    "a disk that is full": Case(
        starting(f"{FAILED}write /var/lib/x: no space left on device"), published("gpu-0"), Reason.NODE_NOT_WRITABLE
    ),
    "what the kubelet said before the Pod was started": Case(running(said="x"), published("gpu-0")),
    "what the kubelet says counts more than what slices show": Case(
        starting("x"), Published({}), Reason.PREPARING_FAILS
    ),
    "a device that has another name now, of a Pod that runs": Case(
        running(one("gpu-1"), one("gpu-0")),
        published("card-0"),
        Reason.DEVICE_UNPUBLISHED,
        f"in no ResourceSlice: {DRIVER}/node-1/gpu-0, {DRIVER}/node-1/gpu-1",
    ),
    "a device that has another name now, of a Pod that starts": Case(
        starting(), published("card-0"), Reason.DEVICE_UNPUBLISHED
    ),
    "the last device of a pool": Case(running(), published(), Reason.DEVICE_UNPUBLISHED),
    "a pool that is being published anew": Case(running(), Published({(DRIVER, "node-1"): None})),
    "a pool of which slices are missing does not mean that there is no driver": Case(
        starting(), Published({(DRIVER, "node-1"): None})
    ),
    "many devices": Case(
        running(*(one(f"gpu-{n}") for n in range(7))), published(), Reason.DEVICE_UNPUBLISHED, "gpu-4 and 2 more"
    ),
    "a taint": Case(
        running(one("hot")),
        published(hot="gpu.example.com/hot=yes:NoSchedule"),
        Reason.DEVICE_UNHEALTHY,
        f"{DRIVER}/node-1/hot (tainted gpu.example.com/hot=yes:NoSchedule)",
    ),
    "a taint of another Pod's device": Case(running(), published("gpu-0", hot="x:NoSchedule")),
    "a driver that withdraws a device that it calls unhealthy": Case(
        running(unhealthy=("gpu-0 (too hot)",)), published(), Reason.DEVICE_UNHEALTHY, "too hot"
    ),
    "what the kubelet says of its health": Case(
        running(unhealthy=("gpu.example.com/gpu-0 (too hot)",)),
        published("gpu-0"),
        Reason.DEVICE_UNHEALTHY,
        "unhealthy: gpu.example.com/gpu-0 (too hot)",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_is_wrong_with_the_devices_of_a_pod(case: Case) -> None:
    found = trouble_of(case.holding, case.published)
    if case.reason is None:
        assert found is None
    else:
        assert found is not None
        assert found.reason is case.reason
        assert case.detail in found.detail


OVER = {
    "a Pod that runs with a device that is there": (running(), published("gpu-0"), True),
    "a Pod that waits": (Holding(()), Published({}), True),
    "a Pod that starts": (starting(), published("gpu-0"), False),
    "a driver that is away": (running(), Published({}), False),
    "a pool that is being published anew": (running(), Published({(DRIVER, "node-1"): None}), False),
}


@pytest.mark.parametrize(("holding", "seen", "want"), OVER.values(), ids=OVER)
def test_trouble_is_over_where_something_shows_it(holding: Holding, seen: Published, want: bool) -> None:
    assert trouble_of(holding, seen) is None
    assert can_be_over(holding, seen) is want


@pytest.mark.parametrize("reason", sorted({case.reason for case in CASES.values() if case.reason}))
def test_the_note_says_what_to_do_and_fits_into_an_event(reason: Reason) -> None:
    note = Trouble(reason, "x" * 500).note
    assert CURES[reason] in note
    assert len(note) < 1024


def test_long_words_of_a_driver_are_cut() -> None:
    found = trouble_of(starting("no " * 1000), published("gpu-0"))
    assert found is not None
    assert len(found.note) < 1024


def test_a_class_that_selects_nothing_is_named() -> None:
    assert "DeviceClass gpu" in without_devices("gpu").note


STARTING = {
    "waits for a node": (pod(), False),
    "on its node": (pod().with_spec(nodeName="n").with_status(phase="Pending"), True),
    "with a sandbox": (
        pod()
        .with_spec(nodeName="n")
        .with_status(phase="Pending", conditions=[{"type": "PodReadyToStartContainers", "status": "True"}]),
        False,
    ),
    "runs": (pod().with_spec(nodeName="n").with_status(phase="Running"), False),
    "is deleted": (pod().meta(deletionTimestamp="x").with_spec(nodeName="n").with_status(phase="Pending"), False),
}


@pytest.mark.parametrize(("built", "want"), STARTING.values(), ids=STARTING)
def test_a_pod_starts_from_its_binding_to_its_sandbox(built: Any, want: bool) -> None:
    assert is_starting(built.view()) is want


GONE, SICK = Trouble(Reason.DRIVER_MISSING, "gone"), Trouble(Reason.DEVICE_UNHEALTHY, "sick")
GONE_TOO = Trouble(Reason.DRIVER_MISSING, "two are gone")
TOLD = Told(Reason.DRIVER_MISSING, GONE.note, 1000.0)

TELLING = {
    "nothing at the first look": (GONE, None, None, 1000.0, None),
    "nothing while it changes": (GONE, SICK, None, 1000.0, None),
    "something at the second": (GONE, GONE, None, 1000.0, TOLD),
    "in the words of the second": (GONE_TOO, GONE, None, 7.0, Told(Reason.DRIVER_MISSING, GONE_TOO.note, 7.0)),
    "the same for ever": (GONE, GONE, TOLD, 9000.0, TOLD),
    "the same in other words not at once": (GONE_TOO, GONE_TOO, TOLD, 4599.0, TOLD),
    "the same in other words after an hour": (
        GONE_TOO,
        GONE_TOO,
        TOLD,
        4600.0,
        Told(Reason.DRIVER_MISSING, GONE_TOO.note, 4600.0),
    ),
    "something else not at once": (SICK, SICK, TOLD, 1059.0, TOLD),
    "something else after a minute": (SICK, SICK, TOLD, 1060.0, Told(Reason.DEVICE_UNHEALTHY, SICK.note, 1060.0)),
    "what was told before while the next is uncertain": (SICK, GONE, TOLD, 9000.0, TOLD),
}


@pytest.mark.parametrize(("trouble", "before", "told", "now", "want"), TELLING.values(), ids=TELLING)
def test_a_pod_is_told(trouble: Trouble, before: Trouble | None, told: Told | None, now: float, want: object) -> None:
    assert to_tell(trouble, before, told, now) == want
