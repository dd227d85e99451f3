"""The CEL expression by which API servers pick the Pods that strict mode is asked about."""

import json
from collections.abc import Iterable

OUR_CLAIM = (
    "(has(object.spec.resourceClaims) && object.spec.resourceClaims.exists(c,"
    " has(c.resourceClaimName) && c.resourceClaimName.startsWith('drabridge-')))"
)


def created_condition(names: Iterable[str]) -> str:
    """An expression that is true of Pods that ask for one of `names` or carry a claim of ours."""
    listed = "[" + ", ".join(json.dumps(name) for name in sorted(names)) + "]"
    asks = " || ".join(
        f"(has(object.spec.{field}) && object.spec.{field}.exists(c, has(c.resources) && ("
        + " || ".join(
            f"(has(c.resources.{kind}) && c.resources.{kind}.exists(n, n in {listed}))"
            for kind in ("requests", "limits")
        )
        + ")))"
        for field in ("containers", "initContainers")
    )
    return f"{asks} || {OUR_CLAIM}"
