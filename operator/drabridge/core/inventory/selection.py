"""Which devices a DeviceClass selects, and where its expressions fail."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from drabridge.core.cel.device import BadDevice, DeviceView
from drabridge.core.cel.selector import CompileError, Selector, SelectorError, compile_selector
from drabridge.core.inventory.slices import Device, Pool, SliceRecord


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """A device, and where it stands."""

    pool: Pool
    slice: SliceRecord
    device: Device

    @property
    def place(self) -> tuple[str, str, str]:
        """Driver, pool and device."""
        return self.pool.driver, self.pool.name, self.device.name

    @property
    def node(self) -> str:
        """The node it is on; "" where several nodes reach it."""
        return self.device.node or self.slice.node

    @property
    def described(self) -> str:
        """How messages call it."""
        return f"device {'/'.join(self.place)}"


@dataclass(frozen=True, slots=True)
class Failure:
    """An expression that cannot be evaluated on a device."""

    expression: str
    device: Placed
    problem: str


@dataclass(frozen=True, slots=True)
class Selection:
    """What a DeviceClass selects.

    `broken` are expressions that do not compile, with what is wrong: they select nothing. `failures` are the first one
    of each expression, `failed` counts all devices that one failed on.
    """

    devices: tuple[Placed, ...]
    failures: tuple[Failure, ...]
    failed: int
    broken: tuple[tuple[str, str], ...]


def select(classes: Mapping[str, tuple[str, ...]], devices: Iterable[Placed]) -> dict[str, Selection]:
    """What each class (name -> expressions, all of which must match) selects of these devices."""
    running = {name: _Running(expressions) for name, expressions in classes.items()}
    if running:
        for placed in devices:
            view, problem = _view(placed)
            for each in running.values():
                each.look(placed, view, problem)
    return {name: each.result() for name, each in running.items()}


def _view(placed: Placed) -> tuple[DeviceView | None, str]:
    try:
        return placed.device.view(placed.pool.driver), ""
    except BadDevice as error:
        return None, str(error)


class _Running:
    """The selection of one class while the devices pass by."""

    def __init__(self, expressions: tuple[str, ...]) -> None:
        self.selectors: list[Selector] = []
        self.broken: list[tuple[str, str]] = []
        self.devices: list[Placed] = []
        self.failures: dict[str, Failure] = {}
        self.failed = 0
        for expression in expressions:
            try:
                self.selectors.append(compile_selector(expression))
            except CompileError as error:
                self.broken.append((expression, str(error)))

    def look(self, placed: Placed, view: DeviceView | None, problem: str) -> None:
        if self.broken:
            return
        for selector in self.selectors:
            try:
                if view is not None and not selector.matches(view).matched:
                    return
            except SelectorError as error:
                problem = str(error)
            if problem:
                self.failed += 1
                self.failures.setdefault(selector.expression, Failure(selector.expression, placed, problem))
                return
        self.devices.append(placed)

    def result(self) -> Selection:
        return Selection(tuple(self.devices), tuple(self.failures.values()), self.failed, tuple(self.broken))
