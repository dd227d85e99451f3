"""Compatibility groups: devices that draw on one counter set must all have a group in common, or none of them any."""

from __future__ import annotations

from typing import Final

GroupState = frozenset[str] | None
"""What the members of a counter set have in common; None while it has no member; UNGROUPED if they have no groups."""

UNGROUPED: Final[frozenset[str]] = frozenset({""})
"""Members without groups. No group is called ""."""


def joined(state: GroupState, groups: frozenset[str]) -> tuple[bool, GroupState]:
    """Say whether a device with these groups may join, and the state then."""
    if state is None:
        return True, groups or UNGROUPED
    if state is UNGROUPED or not groups:
        return state is UNGROUPED and not groups, state
    common = state & groups
    return bool(common), common


def folded(state: GroupState, groups: frozenset[str]) -> GroupState:
    """Return the state after a device that is allocated already, be it compatible or not."""
    if state is None:
        return groups or UNGROUPED
    if state is UNGROUPED or not groups:
        return state
    return state & groups
