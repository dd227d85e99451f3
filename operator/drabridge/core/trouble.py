"""What keeps a Pod from the devices that it waits for or has, and what the Pod says of it.

The kubelet's own event says that devices could not be prepared, and kube-scheduler's that a Pod fits nowhere. What is
added here is which part of the cluster is the cause, and what to do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from drabridge.core.claims import DeviceResult
from drabridge.core.podview import PodView
from drabridge.core.reasons import Reason, with_cure
from drabridge.core.supply import Published

USABLE: Final = "drabridge.io/DevicesUsable"
"""The condition: False with a reason while something is wrong, True once it is over; absent where nothing ever was."""

FAILED_TO_PREPARE: Final = "FailedPrepareDynamicResources"
"""The reason of the kubelet's event (pkg/kubelet/events)."""

_READY_TO_START = "PodReadyToStartContainers"
"""The kubelet prepares devices before it makes a Pod's sandbox (KEP-3085)."""

_UNREGISTERED = re.compile(r"DRA driver (\S+) is not registered")
_UNANSWERED = re.compile(r"dial unix \S*/plugins/([^/\s]+)/\S+: connect: ")
"""The driver's socket, which the kubelet goes on to call until it has noticed that the driver is gone."""

_NOT_WRITABLE = ("read-only file system", "permission denied", "no space left on device", "disk quota exceeded")
"""strerror of EROFS, EACCES, ENOSPC and EDQUOT, as a driver in Go passes it on."""

SAME_AGAIN: Final = 3600.0
"""Seconds after which a Pod is told the same reason in other words; so long an event is kept."""

OTHER_AGAIN: Final = 60.0
"""Seconds after which a Pod may be told another reason."""

_WORDS_MAX = 500
_DEVICES_MAX = 5


@dataclass(frozen=True, slots=True)
class Trouble:
    """What is wrong; `detail` is the same as long as nothing changes."""

    reason: Reason
    detail: str

    @property
    def note(self) -> str:
        """What is wrong, and what to do."""
        return with_cure(self.detail, self.reason)


@dataclass(frozen=True, slots=True)
class Told:
    """What a Pod was told, and when (monotonic, seconds)."""

    reason: str
    note: str
    at: float


def to_tell(trouble: Trouble, before: Trouble | None, told: Told | None, now: float) -> Told | None:
    """Give what a Pod is to be told, which is `told` while there is nothing new; None while nothing is certain yet.

    `before` is what was wrong at the look before this one: what is over by the next look was a restart, or an update.
    """
    if before is None or before.reason is not trouble.reason:
        return told
    if told is not None:
        again = SAME_AGAIN if told.reason == trouble.reason else OTHER_AGAIN
        if now - told.at < again or (told.reason, told.note) == (trouble.reason, trouble.note):
            return told
    return Told(trouble.reason, trouble.note, now)


@dataclass(frozen=True, slots=True)
class Holding:
    """A Pod that has devices: `results` of its claim, and what else is known of it.

    starting: it is on its node, and its containers cannot be started yet. unhealthy: devices, by the kubelet's words.
    said: what the kubelet says of its last try to prepare them, "" if it does not say anything.
    """

    results: tuple[DeviceResult, ...]
    node: str = ""
    starting: bool = False
    unhealthy: tuple[str, ...] = ()
    said: str = ""

    @classmethod
    def of(cls, pod: PodView, results: tuple[DeviceResult, ...], said: str) -> Holding:
        """What a Pod shows."""
        return cls(results, pod.node_name, is_starting(pod), pod.unhealthy, said)


def is_starting(pod: PodView) -> bool:
    """Whether a Pod is on its node and its containers cannot be started yet."""
    return (
        bool(pod.node_name)
        and pod.phase == "Pending"
        and not pod.deleting
        and pod.conditions.get(_READY_TO_START) != "True"
    )


def trouble_of(holding: Holding, published: Published) -> Trouble | None:
    """Say what is wrong with a Pod's devices. The rules run in the order of `RULES`."""
    return next(filter(None, (rule(holding, published) for rule in RULES)), None)


def can_be_over(holding: Holding, published: Published) -> bool:
    """Whether it means anything that no trouble is found. A kubelet may not have said yet why a Pod does not start."""
    return not holding.starting and all(published.pools.get((each.driver, each.pool)) for each in holding.results)


def _not_prepared(holding: Holding, _: Published) -> Trouble | None:
    if not holding.starting or not holding.said:
        return None
    if found := _UNREGISTERED.search(holding.said):
        return Trouble(Reason.DRIVER_MISSING, f"DRA driver {found[1]} is not registered with {_kubelet(holding)}")
    if found := _UNANSWERED.search(holding.said):
        return Trouble(Reason.DRIVER_MISSING, f"DRA driver {found[1]} does not answer {_kubelet(holding)}")
    reason = Reason.PREPARING_FAILS
    if any(words in holding.said.lower() for words in _NOT_WRITABLE):
        reason = Reason.NODE_NOT_WRITABLE
    return Trouble(reason, f"{_kubelet(holding)} says: {_cut(holding.said)}")


def _driver_gone(holding: Holding, published: Published) -> Trouble | None:
    """Pods that run are not told: they miss nothing, and a driver is gone for a while whenever it is upgraded."""
    for result in holding.results if holding.starting else ():
        if (result.driver, result.pool) not in published.pools:
            detail = f"DRA driver {result.driver} publishes no devices any more in pool {result.pool}"
            return Trouble(Reason.DRIVER_MISSING, detail)
    return None


def _unpublished(holding: Holding, published: Published) -> Trouble | None:
    gone = []
    for result in holding.results:
        pool = published.pools.get((result.driver, result.pool))
        if pool is not None and result.device not in pool:
            gone.append(_place(result))
    return Trouble(Reason.DEVICE_UNPUBLISHED, f"in no ResourceSlice: {_listed(gone)}") if gone else None


def _unhealthy(holding: Holding, published: Published) -> Trouble | None:
    sick = list(holding.unhealthy)
    for result in holding.results:
        pool = published.pools.get((result.driver, result.pool))
        if pool and (taint := pool.get(result.device)):
            sick.append(f"{_place(result)} (tainted {taint})")
    return Trouble(Reason.DEVICE_UNHEALTHY, f"unhealthy: {_listed(sick)}") if sick else None


RULES: Final[tuple[Callable[[Holding, Published], Trouble | None], ...]] = (
    _not_prepared,
    _driver_gone,
    _unhealthy,
    _unpublished,
)


def without_devices(device_class: str) -> Trouble:
    """What is told to a Pod that waits for devices of a class that selects none."""
    return Trouble(Reason.NO_DEVICES_PUBLISHED, f"DeviceClass {device_class} selects none of the published devices")


def _kubelet(holding: Holding) -> str:
    return f"the kubelet on {holding.node}"


def _place(result: DeviceResult) -> str:
    return f"{result.driver}/{result.pool}/{result.device}"


def _listed(names: Iterable[str]) -> str:
    found = sorted(set(names))
    more = f" and {len(found) - _DEVICES_MAX} more" if len(found) > _DEVICES_MAX else ""
    return ", ".join(found[:_DEVICES_MAX]) + more


def _cut(words: str) -> str:
    line = " ".join(words.split()).rstrip(".")
    return line if len(line) <= _WORDS_MAX else line[: _WORDS_MAX - 3] + "..."
