"""Why a request cannot be met: what removed each candidate, as constants that explain themselves."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

CANNOT_ALLOCATE: Final = "cannot allocate all claims"
"""What kube-scheduler says of a node on which the claims do not fit."""


class Removal(StrEnum):
    """What took a device out of a request's candidates."""

    CLASS_SELECTOR = "ClassSelector"
    """A selector of the DeviceClass does not match it."""

    REQUEST_SELECTOR = "RequestSelector"
    """A selector of the request does not match it."""

    BINDING_CONDITIONS = "BindingConditions"
    """It has binding conditions, and the cluster's feature gate for them is off."""

    ERROR = "Error"
    """It cannot be judged: a selector or its capacity arithmetic fails on it, which ends the allocation."""

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


class Remedy(StrEnum):
    """A change after which the claims would fit."""

    TOLERATE = "Tolerate"
    """The request tolerates a taint."""

    RELEASE = "Release"
    """Another claim gives back what it holds."""

    ASK_FOR_FEWER = "AskForFewer"
    """The request asks for fewer devices."""

    DROP_CONSTRAINT = "DropConstraint"
    """A constraint of the claim is left out."""

    DROP_SELECTOR = "DropSelector"
    """A selector of the request is left out."""

    RELEASE_SEVERAL = "ReleaseSeveral"
    """Several claims give back what they hold."""

    WAIT_FOR_POOL = "WaitForPool"
    """The driver completes a pool that it is updating; whether it fits then is not known."""
