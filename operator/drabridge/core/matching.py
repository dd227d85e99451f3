"""The CEL expression by which API servers pick the Pods that strict mode is asked about."""

import json
from collections.abc import Iterable

OUR_CLAIM = (
    "(has(object.spec.resourceClaims) && object.spec.resourceClaims.exists(c,"
    " has(c.resourceClaimName) && c.resourceClaimName.startsWith('drabridge-')))"
)


ALL_CONTAINERS = " + ".join(
    f"(has(object.spec.{field}) ? object.spec.{field} : [])" for field in ("containers", "initContainers")
)


def created_condition(names: Iterable[str]) -> str:
    """An expression that is true of Pods that ask for one of `names` or carry a claim of ours.

    The names stand in it once, since the length of an expression is limited, and are looked up in the Pod's maps, since
    a search through the names for each of a Pod's would go beyond the cost limit of an evaluation.
    """
    # ensure_ascii would write what is beyond the basic plane as surrogates, which CEL does not know.
    listed = "[" + ", ".join(json.dumps(name, ensure_ascii=False) for name in sorted(names)) + "]"
    asks = " || ".join(f"(has(c.resources.{kind}) && n in c.resources.{kind})" for kind in ("requests", "limits"))
    return f"({ALL_CONTAINERS}).exists(c, has(c.resources) && {listed}.exists(n, {asks})) || {OUR_CLAIM}"
