"""What a selector says of published devices: one of four outcomes for each, and the words for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from drabridge.core.cel.device import BadDevice, DeviceView
from drabridge.core.cel.explain import Explanation, Instrumented, Part, State
from drabridge.core.cel.selector import SelectorError
from drabridge.core.errors import InvalidInput
from drabridge.core.resourceslice import DeviceID, PublishedDevice, ReadSlice

_MOST_VALUES: Final = 2
"""Values that are named in the reason why a device does not match."""


@dataclass(frozen=True, slots=True)
class Matched:
    """The device matches."""

    cost: int


@dataclass(frozen=True, slots=True)
class NotMatched:
    """The device does not match; `deciding` is the smallest part of the expression that made it so."""

    cost: int
    deciding: Part


@dataclass(frozen=True, slots=True)
class Failed:
    """The evaluation failed, which fails the whole allocation upstream. `cost` is None if it did not begin."""

    message: str
    cost: int | None


@dataclass(frozen=True, slots=True)
class Broken:
    """The device was not written as the API server would take it."""

    faults: tuple[InvalidInput, ...]


Verdict = Matched | NotMatched | Failed | Broken


def judge(instrumented: Instrumented, published: PublishedDevice) -> Verdict:
    """Say what a selector makes of a device."""
    if published.faults:
        return Broken(published.faults)
    selector = instrumented.selector
    try:
        view = DeviceView.of(published.id.driver, published.device)
        match = selector.matches(view)
    except BadDevice as error:
        return Failed(str(error), None)
    except SelectorError as error:
        return Failed(str(error), error.cost)
    if match.matched:
        return Matched(match.cost)
    return NotMatched(match.cost, instrumented.explain(view).deciding())


def explained(instrumented: Instrumented, published: PublishedDevice) -> Explanation | Failed | Broken:
    """Explain what a selector makes of a device. Failed or Broken if the evaluation could not begin."""
    if published.faults:
        return Broken(published.faults)
    try:
        return instrumented.explain(DeviceView.of(published.id.driver, published.device))
    except BadDevice as error:
        return Failed(str(error), None)


def compile_failure(owner: str, index: int, message: str) -> str:
    """Say as kube-scheduler does that a selector cannot be used; `owner` is as in "claim default/web"."""
    return f"{owner}: selector #{index}: CEL compile error: {message}"


def runtime_failure(owner: str, index: int, device: DeviceID, message: str) -> str:
    """Say as kube-scheduler does that a selector failed on a device."""
    return f"{owner}: selector #{index} on device {device}: CEL runtime error: {message}"


def why_not(part: Part) -> str:
    """Say what was false, and by which values: `device.driver == 'a' is false: device.driver = "b"`."""
    text = f"{' '.join(part.text.split())} is false"
    values = [f"{' '.join(value.text.split())} = {value.shown}" for value in _leaves(part) if value is not part]
    return f"{text}: {', '.join(values[:_MOST_VALUES])}" if values else text


def _leaves(part: Part) -> Iterator[Part]:
    """Give the values at the bottom, from left to right."""
    if not part.parts and part.state is State.VALUE:
        yield part
    for inner in part.parts:
        yield from _leaves(inner)


def resolve(wanted: str, devices: Iterable[PublishedDevice]) -> list[PublishedDevice]:
    """Find the devices meant by `driver/pool/device` or by a part of that from the end: `pool/device`, `device`."""
    known = list(devices)
    exact = [each for each in known if str(each.id) == wanted]
    return exact or [each for each in known if str(each.id).endswith(f"/{wanted}")]


def without_duplicates(slices: Iterable[ReadSlice]) -> tuple[list[PublishedDevice], list[InvalidInput]]:
    """Give all devices, each once, and what is wrong with those that are published again."""
    first: dict[DeviceID, PublishedDevice] = {}
    faults = []
    for each in slices:
        for device in each.devices:
            known = first.setdefault(device.id, device)
            if known is not device:
                again = "twice" if known.source == device.source else f"as {known.source} does"
                problem = f"publishes device {device.id} {again}"
                cure = "give each device of a pool a name of its own"
                faults.append(InvalidInput(device.source, "spec.devices", problem, cure))
    return list(first.values()), faults
