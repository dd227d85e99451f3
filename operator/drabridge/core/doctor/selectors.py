"""CEL selectors of DeviceClasses and requests, on the devices that there are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from drabridge.core.cel.selector import CompileError, compile_selector
from drabridge.core.doctor import links
from drabridge.core.doctor.findings import Finding, Severity, check, counted, listed
from drabridge.core.errors import quoted
from drabridge.core.inventory.claims import ClaimRecord, Request
from drabridge.core.inventory.cluster import Inventory, Kind
from drabridge.core.inventory.selection import select

_ATTRIBUTE: Final = re.compile(
    r"""device\s*\.\s*attributes\s*\[\s*["']([^"']+)["']\s*\]\s*(?:\.\s*\??\s*(\w+)|\[\s*\??\s*["']([^"']+)["']\s*\])"""
)


@check(
    "selector-broken",
    Severity.ERROR,
    cure="correct the expression; try it out with drabridge select",
    serves="pain 62: kubernetes#125826, failures of CEL are hard to see",
    link=links.CEL,
    needs=(Kind.CLASSES,),
)
def selector_broken(cluster: Inventory) -> Iterator[Finding]:
    """A selector does not compile, and so selects nothing."""
    for each in cluster.classes:
        for expression, problem in cluster.selections[each.name].broken:
            yield Finding(each.described, f"{quoted(expression)}: {problem}")
    known: dict[str, str] = {}
    for claim in cluster.askers:
        for request in claim.requests:
            for expression in request.selectors:
                if expression not in known:
                    known[expression] = _problem(expression)
                if problem := known[expression]:
                    yield Finding(claim.described, f"request {request.name}: {quoted(expression)}: {problem}")


def _problem(expression: str) -> str:
    try:
        compile_selector(expression)
    except CompileError as error:
        return str(error)
    return ""


@check(
    "selector-fails",
    Severity.ERROR,
    cure="test for the attribute first: 'name' in device.attributes['domain'] && …",
    serves="pain 62: kubernetes#136709, one device without the attribute fails the whole node",
    link=links.issue(136709),
    needs=(Kind.CLASSES, Kind.SLICES),
)
def selector_fails(cluster: Inventory) -> Iterator[Finding]:
    """A DeviceClass' selector fails on a device, which fails each allocation that comes across that device."""
    for each in cluster.classes:
        selection = cluster.selections[each.name]
        for failure in selection.failures:
            seen = f"{quoted(failure.expression)} on {failure.device.described}: {failure.problem}"
            yield Finding(each.described, f"{counted(selection.failed, 'device')}; {seen}")


@check(
    "class-selects-nothing",
    Severity.WARNING,
    cure="see the driver's devices (drabridge capacity) and correct the selector (drabridge select EXPRESSION)",
    serves="pain 95: nobody shows why a claim does not fit; here no device is of the class at all",
    link=links.ALLOCATION,
    needs=(Kind.CLASSES, Kind.SLICES),
)
def class_selects_nothing(cluster: Inventory) -> Iterator[Finding]:
    """No published device is of a DeviceClass."""
    for each in cluster.classes:
        selection = cluster.selections[each.name]
        if not selection.devices and not selection.failures and not selection.broken:
            seen = f"none of {counted(len(cluster.devices), 'device')}" if cluster.devices else "there are no devices"
            yield Finding(each.described, f"{seen}; selectors: {'; '.join(map(quoted, each.view.selectors)) or 'none'}")


@check(
    "selector-wrong-domain",
    Severity.WARNING,
    cure="write the domain under which the driver publishes the attribute; without one it is the driver's name",
    serves="pain 63: fake-gpu-operator RUN-39005, attributes published without the domain that selectors use",
    link=links.CEL,
    needs=(Kind.CLASSES, Kind.SLICES),
)
def selector_wrong_domain(cluster: Inventory) -> Iterator[Finding]:
    """A DeviceClass' selector reads an attribute in a domain where no device has it; in another one devices have it."""
    domains: dict[str, set[str]] = {}
    for placed in cluster.devices:
        for name in placed.device.attributes:
            domain, slash, short = name.rpartition("/")
            domains.setdefault(short, set()).add(domain if slash else placed.pool.driver)
    for each in cluster.classes:
        for expression in each.view.selectors:
            for domain, dotted, indexed in _ATTRIBUTE.findall(expression):
                name = dotted or indexed
                known = domains.get(name, set())
                if known and domain not in known:
                    yield Finding(each.described, f"{domain}/{name}: devices have it in {listed(known)}")


@check(
    "request-selects-nothing",
    Severity.WARNING,
    cure="correct the selectors of the request; drabridge select EXPRESSION says what each device lacks",
    serves="pain 95: kubectl-status#682, why a claim does not fit",
    link=links.ALLOCATION,
    needs=(Kind.CLASSES, Kind.SLICES, Kind.CLAIMS),
)
def request_selects_nothing(cluster: Inventory) -> Iterator[Finding]:
    """A request's own selectors leave none of the devices of its DeviceClass."""
    known: dict[tuple[str, tuple[str, ...]], bool] = {}
    for claim in cluster.askers:
        if isinstance(claim, ClaimRecord) and claim.results is not None:
            continue
        for request in claim.requests:
            key = (request.device_class, request.selectors)
            if request.selectors and not request.alternative:
                if key not in known:
                    known[key] = _leaves_nothing(cluster, request)
                if known[key]:
                    of = len(cluster.selections[request.device_class].devices)
                    seen = f"request {request.name}: none of the {of} devices of DeviceClass {request.device_class}"
                    yield Finding(claim.described, seen)


def _leaves_nothing(cluster: Inventory, request: Request) -> bool:
    """False, too, where that is no news: there is no such class, or it selects nothing."""
    selection = cluster.selections.get(request.device_class)
    if selection is None or not selection.devices:
        return False
    left = select({"": request.selectors}, selection.devices)[""]
    return not left.devices and not left.broken


CHECKS = (selector_broken, selector_fails, class_selects_nothing, selector_wrong_domain, request_selects_nothing)
