"""How `drabridge simulate` shows what became of Pods, in each of its formats."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Any, Final

import yaml

from drabridge.cli import terminal
from drabridge.core.allocation.features import JSON_NAMES, Features
from drabridge.core.allocation.settings import Settings
from drabridge.core.fitting import Barred
from drabridge.core.simulation import Broken, Device, Outcome, Placed, Unplaced

_REASONS: Final = 2
"""Groups of nodes whose reasons a table shows for a Pod; wide shows all."""

_CURES: Final = 3
"""Remedies that are shown of a group of nodes."""


class Output(StrEnum):
    """How it is written."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


def shown(outcomes: Sequence[Outcome], settings: Settings, output: Output) -> Iterator[str]:
    """The lines of the output."""
    if output is Output.JSON:
        yield json.dumps(_as_json(outcomes, settings), indent=2)
    elif output is Output.YAML:
        yield yaml.safe_dump(_as_json(outcomes, settings), sort_keys=False, allow_unicode=True).rstrip("\n")
    else:
        heads, rows = (
            (("POD", "NODE", "CLAIM", "REQUEST", "DEVICE"), [row for each in outcomes for row in _wide(each)])
            if output is Output.WIDE
            else (("POD", "NODE", "DEVICES"), [_row(each) for each in outcomes])
        )
        yield from terminal.table(heads, rows, terminal.width())
        yield from _remedies(outcomes, most=_CURES if output is Output.TABLE else None)
        yield ""
        yield from terminal.wrapped(_summary(outcomes, settings))


def _row(outcome: Outcome) -> tuple[str, ...]:
    if isinstance(outcome, Placed):
        return outcome.pod, outcome.node, ", ".join(map(_device, outcome.devices)) or "(from device plugins)"
    return outcome.pod, "-", _why(outcome, _REASONS)


def _wide(outcome: Outcome) -> Iterator[tuple[str, ...]]:
    if isinstance(outcome, Placed) and outcome.devices:
        for device in outcome.devices:
            yield outcome.pod, outcome.node, device.claim, device.request, _device(device)
    elif isinstance(outcome, Placed):
        yield outcome.pod, outcome.node, "-", "-", "(from device plugins)"
    else:
        yield outcome.pod, "-", "-", "-", _why(outcome, None)


def _device(device: Device) -> str:
    parts = [f"{name} {amount}" for name, amount in sorted((device.consumed or {}).items())]
    parts += ["for administration"] if device.admin else []
    return f"{device.device} ({', '.join(parts)})" if parts else device.device


def _why(outcome: Unplaced | Broken, most: int | None) -> str:
    if isinstance(outcome, Broken):
        return f"broken: {outcome.error}"
    groups = [f"{_nodes(each)}: {each.reason}" for each in outcome.barred[:most]]
    hidden = len(outcome.barred) - len(groups)
    return "; ".join([outcome.reason, *groups, *([f"and {hidden} more reasons"] if hidden else [])])


def _nodes(barred: Barred) -> str:
    return f"{len(barred.nodes)} nodes" if len(barred.nodes) != 1 else barred.nodes[0]


def _remedies(outcomes: Sequence[Outcome], most: int | None) -> Iterator[str]:
    """What would help, Pods with the same remedies together."""
    found: dict[tuple[str, ...], list[str]] = {}
    for outcome in outcomes:
        if isinstance(outcome, Unplaced):
            cures = [cure for each in outcome.barred for cure in each.cures[:most]][:most]
        elif isinstance(outcome, Broken):
            cures = []
        else:
            continue
        cures += [f"the feature {name}, which is off" for name in outcome.features]
        if cures:
            found.setdefault(tuple(dict.fromkeys(cures)), []).append(outcome.pod)
    for remedies, pods in found.items():
        yield ""
        more = f" and {len(pods) - 1} more" if len(pods) > 1 else ""
        yield f"Any of these would help {pods[0]}{more}:"
        for remedy in remedies:
            yield from terminal.indented(terminal.one_line(remedy), terminal.width(), "  - ", "    ")


def _summary(outcomes: Sequence[Outcome], settings: Settings) -> str:
    fit = sum(isinstance(each, Placed) for each in outcomes)
    return f"{fit} of {len(outcomes)} Pods fit ({settings.strategy}, {_cluster(settings.features)})."


def _cluster(features: Features) -> str:
    """Which cluster the answer is for."""
    flavour = features.flavours()[0]
    stock = Features()
    different = [
        f"{name} {'on' if getattr(features, field) else 'off'}"
        for field, name in JSON_NAMES.items()
        if getattr(features, field) != getattr(stock, field)
    ]
    with_ = f" with {', '.join(different)}" if different else ""
    return f"as Kubernetes 1.37{with_}: {flavour} allocator"


def _as_json(outcomes: Sequence[Outcome], settings: Settings) -> dict[str, Any]:
    return {
        "strategy": settings.strategy.value,
        "flavour": settings.features.flavours()[0].value,
        "features": {name: getattr(settings.features, field) for field, name in JSON_NAMES.items()},
        "fit": sum(isinstance(each, Placed) for each in outcomes),
        "pods": [_pod(each) for each in outcomes],
    }


def _pod(outcome: Outcome) -> dict[str, Any]:
    if isinstance(outcome, Placed):
        devices = [_described(device) for device in outcome.devices]
        return {"pod": outcome.pod, "outcome": "placed", "node": outcome.node, "devices": devices}
    if isinstance(outcome, Broken):
        about = {"pod": outcome.pod, "outcome": "broken", "reason": str(outcome.error)}
        return {**about, "wouldFitWith": list(outcome.features)}
    return {
        "pod": outcome.pod,
        "outcome": "unplaced",
        "reason": outcome.reason,
        "barred": [
            {"reason": each.reason, "nodes": list(each.nodes), "cures": list(each.cures)} for each in outcome.barred
        ],
        "wouldFitWith": list(outcome.features),
    }


def _described(device: Device) -> dict[str, Any]:
    found: dict[str, Any] = {"claim": device.claim, "request": device.request, "device": device.device}
    if device.share:
        found["shareID"] = device.share
    if device.consumed:
        found["consumedCapacity"] = dict(device.consumed)
    if device.admin:
        found["adminAccess"] = True
    return found
