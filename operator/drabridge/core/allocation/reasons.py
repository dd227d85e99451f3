"""Why a request cannot be met: what removed each candidate, as constants that explain themselves."""

from __future__ import annotations

from enum import StrEnum


class Removal(StrEnum):
    """What took a device out of a request's candidates."""

    CLASS_SELECTOR = "ClassSelector"
    """A selector of the DeviceClass does not match it."""

    REQUEST_SELECTOR = "RequestSelector"
    """A selector of the request does not match it."""

    BINDING_CONDITIONS = "BindingConditions"
    """It has binding conditions, and the cluster's feature gate for them is off."""

    NODE = "Node"
    """It is in the pool, but for other nodes."""

    CAPACITY = "Capacity"
    """It has not the capacity that is asked for, or what is left of it is too little."""

    NODE_OPERATIONS = "NodeOperations"
    """Its driver wants node operations left out, which this node or cluster does not do."""

    PARTITIONS_OFF = "PartitionsOff"
    """It consumes shared counters, and the cluster's feature gate for them is off."""

    TAINT = "Taint"
    """It has a taint that the request does not tolerate."""

    IN_USE = "InUse"
    """It is allocated already."""

    COUNTER = "Counter"
    """What it would consume of a shared counter is not left."""

    GROUP = "CompatibilityGroup"
    """It is in no compatibility group with what is allocated beside it."""

    CONSTRAINT = "Constraint"
    """A constraint of the claim does not let it be combined with the others."""

    INCOMPLETE_POOL = "IncompletePool"
    """Its pool is being updated."""

    INVALID_POOL = "InvalidPool"
    """The slices of its pool contradict each other."""
