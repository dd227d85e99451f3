"""The one door to the API server."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType


def _leave_out_the_typed_api() -> None:
    """Have kubernetes_asyncio imported without its 850 modules of typed APIs and models.

    Bodies are raw JSON here, and of the package only configuration and credentials are used. Its
    `__init__` modules import all the rest, which costs 65 MB in each replica, and more than a second at each start, of
    each verb. So its two packages are entered without running these: submodules are found by `__path__` all the same.
    """
    found = importlib.util.find_spec("kubernetes_asyncio")
    if "kubernetes_asyncio" in sys.modules or found is None or not found.submodule_search_locations:
        return
    for name, parts in (("kubernetes_asyncio", ""), ("kubernetes_asyncio.client", "/client")):
        package = ModuleType(name)
        package.__path__ = [where + parts for where in found.submodule_search_locations]
        sys.modules[name] = package
    client = sys.modules["kubernetes_asyncio.client"]
    setattr(sys.modules["kubernetes_asyncio"], "client", client)  # noqa: B010 -- a module has no such attribute to mypy
    configuration = importlib.import_module("kubernetes_asyncio.client.configuration")
    setattr(client, "Configuration", configuration.Configuration)  # noqa: B010 -- as above
    # The loader of kubeconfigs imports it for functions that give a client of the typed API; we call none of those.
    setattr(client, "ApiClient", object)  # noqa: B010 -- as above


_leave_out_the_typed_api()
