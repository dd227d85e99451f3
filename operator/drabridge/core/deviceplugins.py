"""What device plugins offer on a Node."""

from collections.abc import Mapping
from typing import Any

from drabridge.core.names import is_extended
from drabridge.core.quantity import Quantity


def offered(status: Mapping[str, Any]) -> frozenset[str]:
    """The extended resources whose `status.allocatable` is above zero: 0 stays behind when a plugin has gone.

    Raises ValueError for what is no quantity.
    """
    return frozenset(
        name
        for name, quantity in (status.get("allocatable") or {}).items()
        if is_extended(name) and Quantity.parse(str(quantity)).ceil() > 0
    )
