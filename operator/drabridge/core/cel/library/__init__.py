"""The extension libraries of Kubernetes' CEL, at the versions that k8s.io/dynamic-resource-allocation v0.37 uses."""

from typing import Final

from drabridge.core.cel.declarations import Library
from drabridge.core.cel.library import (
    cidr,
    formats,
    ip,
    kubernetes_lists,
    lists,
    optionals,
    quantity,
    regex,
    semver,
    sets,
    strings,
    urls,
)

LIBRARIES: Final[tuple[Library, ...]] = (
    urls.LIBRARY,
    regex.LIBRARY,
    optionals.LIBRARY,
    quantity.LIBRARY,
    strings.LIBRARY,
    sets.LIBRARY,
    ip.LIBRARY,
    cidr.LIBRARY,
    formats.LIBRARY,
    semver.LIBRARY,
    lists.LIBRARY,
    kubernetes_lists.LIBRARY,
)
"""In the order in which upstream's environment adds them: overloads of one function follow each other in it."""
