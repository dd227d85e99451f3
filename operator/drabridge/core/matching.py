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

    Limits need no look: the API server has made requests of them. The names stand in it once, because the length of an
    expression is limited, and are looked through for names with a slash only, because the cost of evaluating it is.
    """
    # ensure_ascii would write what is beyond the basic plane as surrogates, which CEL does not know.
    listed = "[" + ", ".join(json.dumps(name, ensure_ascii=False) for name in sorted(names)) + "]"
    return (
        f"({ALL_CONTAINERS}).exists(c, has(c.resources) && has(c.resources.requests) &&"
        f" c.resources.requests.exists(n, n.contains('/') && n in {listed})) || {OUR_CLAIM}"
    )
