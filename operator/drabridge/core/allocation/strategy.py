"""Strategies: in which order the devices of a node are tried, and the nodes of a cluster.

Upstream takes the first devices in its order. Pack and Spread are nothing but another order: what fits at all, and each
rule about it, stays the same.
"""

from __future__ import annotations

from enum import StrEnum


class Strategy(StrEnum):
    """Which devices are preferred."""

    FIRST_FIT = "FirstFit"
    """The first in upstream's order: reproducible, and what kube-scheduler does."""

    PACK = "Pack"
    """The fullest first: shared devices and counter sets that are in use already, so that whole ones stay whole."""

    SPREAD = "Spread"
    """The emptiest first."""
