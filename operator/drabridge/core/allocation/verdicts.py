"""May a device of this kind ever serve this request? Section 5 of the behaviour, as far as nothing is allocated.

What depends on the (sub)request and the device alone is decided once a kind. The order of the tests matters only
between errors and refusals: selectors, then the node, then capacity, then everything that never raises.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from drabridge.core.allocation.amounts import Arithmetic, CapacityProblem, CapacityRefusal, Charge
from drabridge.core.allocation.demand import Want
from drabridge.core.allocation.expressions import selector_of
from drabridge.core.allocation.features import Features
from drabridge.core.allocation.kinds import DeviceKind
from drabridge.core.allocation.reasons import Removal
from drabridge.core.allocation.texts import ClaimAt, DeviceAt, Text
from drabridge.core.allocation.upstream_faults import UpstreamFaults
from drabridge.core.cel.device import BadDevice
from drabridge.core.cel.selector import CompileError, SelectorError

OPTIONAL_OPERATIONS: Final = "DRAOptionalNodeOperations"
"""What a node declares whose kubelet can leave out node operations."""

MOST_VERDICTS: Final = 256
"""Selector verdicts that a kind of devices remembers."""


@dataclass(frozen=True, slots=True)
class Refused:
    """No: `removal` says by what, `detail` by which one of them."""

    removal: Removal
    detail: str


@dataclass(frozen=True, slots=True)
class Failed:
    """The device cannot be judged, which ends the allocation: the text around the device's name, and the cure."""

    before: str
    after: str
    of_claim: bool
    """Whether the text begins with the claim's label (`before` follows it)."""
    cure: str

    def text(self, claim: int, position: int | None, *, alone: bool = False) -> Text:
        """Write the text. `alone` names the device without its pool."""
        head: Text = ("claim ", ClaimAt(claim)) if self.of_claim else ()
        if not self.after:
            return (*head, self.before)
        return (*head, self.before, DeviceAt(position or 0, alone), self.after)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is known of a kind of devices for one (sub)request.

    `selected` and `charged` may have failed or refused; `barred` are the refusals that come after them.
    """

    selected: Refused | Failed | None
    charged: Refused | Failed | Charge | None
    barred: Refused | None


def verdict_of(want: Want, kind: DeviceKind, features: Features, faults: UpstreamFaults, declared: bool) -> Verdict:
    """Judge a kind of devices. `declared`: the node declares DRAOptionalNodeOperations."""
    selected = _selected(want, kind, features)
    if selected is not None:
        return Verdict(selected, None, None)
    charged = _charged(want, kind, features, faults)
    if isinstance(charged, Refused | Failed):
        return Verdict(None, charged, None)
    return Verdict(None, charged, _barred(want, kind, features, declared))


def _selected(want: Want, kind: DeviceKind, features: Features) -> Refused | Failed | None:
    if not features.binding_conditions and kind.has_binding_conditions:
        return Refused(Removal.BINDING_CONDITIONS, "")
    key = (want.device_class.name, want.device_class.expressions, want.ask.expressions)
    found = kind.known.get(key, _ABSENT)
    if found is _ABSENT:
        if len(kind.known) >= MOST_VERDICTS:
            kind.known.clear()
        found = kind.known[key] = _select(want, kind)
    known: Refused | Failed | None = found
    return known


_ABSENT: Final[Any] = object()


def _select(want: Want, kind: DeviceKind) -> Refused | Failed | None:
    for is_class, expressions in ((True, want.device_class.expressions), (False, want.ask.expressions)):
        for index, expression in enumerate(expressions):
            verdict = _match(expression or "", kind, index, want.device_class.name if is_class else None)
            if verdict is not None:
                return verdict
    return None


def _match(expression: str, kind: DeviceKind, index: int, class_name: str | None) -> Refused | Failed | None:
    head = f": selector #{index}" if class_name is None else f"class {class_name}: selector #{index}"
    place = f"selector {index} of the " + ("request" if class_name is None else f"DeviceClass {class_name}")
    selector = selector_of(expression)
    if isinstance(selector, CompileError):
        return Failed(f"{head}: CEL compile error: {selector}", "", class_name is None, f"correct {place}")
    try:
        matched = selector.matches(kind.view).matched
    except BadDevice as bad:
        cure = "the driver has to publish a value that is understood"
        return Failed(f"{head} on device ", f": CEL runtime error: {bad}", class_name is None, cure)
    except SelectorError as error:
        cure = f"make {place} work for every device, for instance with has()"
        return Failed(f"{head} on device ", f": CEL runtime error: {error}", class_name is None, cure)
    if matched:
        return None
    return Refused(Removal.REQUEST_SELECTOR if class_name is None else Removal.CLASS_SELECTOR, f"#{index} {expression}")


def _charged(
    want: Want, kind: DeviceKind, features: Features, faults: UpstreamFaults
) -> Refused | Failed | Charge | None:
    if not features.consumable_capacity:
        return None
    try:
        return Arithmetic(features, faults).charge(kind.capacities, want.ask.capacity or {})
    except CapacityRefusal as refusal:
        return Refused(Removal.CAPACITY, str(refusal))
    except CapacityProblem as problem:
        head = f", request {want.ask.name}: checking capacity for device "
        return Failed(head, f": {problem}", True, "ask for an amount that the device's range can represent")


def _barred(want: Want, kind: DeviceKind, features: Features, declared: bool) -> Refused | None:
    if kind.slice.skips_operations and not (features.optional_node_operations and declared):
        return Refused(Removal.NODE_OPERATIONS, "")
    if kind.raw.get("consumesCounters") and not features.partitionable_devices:
        return Refused(Removal.PARTITIONS_OFF, "")
    if features.device_taints:
        for taint in kind.taints:
            if not any(toleration.covers(*taint) for toleration in want.ask.tolerations):
                return Refused(Removal.TAINT, f"{taint.key}={taint.value}:{taint.effect}")
    return None
