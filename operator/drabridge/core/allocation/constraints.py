"""matchAttribute and distinctAttribute: what they have seen so far, and whether one more device goes with it.

A constraint's state is an immutable value, so that going back in the search is putting the old one back. The two
families differ in what they take for a value: without DRAListTypeAttributes a list or an unknown value is accepted as
the first one only, which makes the order of devices matter.
"""

from __future__ import annotations

from typing import Any, Final

from drabridge.core.allocation.kinds import Attribute

State = Any
"""None before the first device; afterwards whatever the rule keeps."""

REFUSED: Final[Any] = object()
"""What a rule answers instead of a state if the device does not go with the others."""


def match_scalars(state: State, value: Attribute) -> State:
    """All devices have the same scalar. The first device sets it, whatever it is."""
    if state is None:
        return value
    if value.is_list or not value.kind or state != value:
        return REFUSED
    return state


def match_sets(state: State, value: Attribute) -> State:
    """All devices have an element in common."""
    if not value.kind:
        return REFUSED
    if state is None:
        return value.kind, value.values
    kind, common = state
    if kind != value.kind:
        return REFUSED
    rest = common & value.values
    return (kind, rest) if rest else REFUSED


def distinct_scalars(state: State, value: Attribute) -> State:
    """All devices have different scalars. The first device may have anything."""
    if state is None:
        return frozenset() if value.is_list else frozenset(tagged(value))  # a list differs from any scalar
    if value.is_list or not value.kind:
        return REFUSED
    (element,) = tagged(value)
    return REFUSED if element in state else state | {element}


def distinct_sets(state: State, value: Attribute) -> State:
    """No two devices have an element in common."""
    if not value.kind:
        return REFUSED
    elements = frozenset(tagged(value))
    if state is None:
        return elements
    return state | elements if state.isdisjoint(elements) else REFUSED


def tagged(value: Attribute) -> list[tuple[str, Any]]:
    """Return the elements with their type, so that `true` and 1 differ; sorted, so that each run does the same."""
    return [(value.kind, element) for element in sorted(value.values)]


RULES: Final = {
    (True, False): match_scalars,
    (True, True): match_sets,
    (False, False): distinct_scalars,
    (False, True): distinct_sets,
}
"""(matchAttribute, DRAListTypeAttributes on) -> rule."""
