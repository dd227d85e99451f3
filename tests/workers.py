"""Which tests stay together in one worker (`pytest -n 2`): those that share control planes, or a real node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    import pytest
    from xdist.remote import Producer

TOGETHER = {
    "tests/integration/test_bind": "a bare API server",
    "tests/integration/test_examining": "a control plane of its own",
    "tests/integration/test_operator_faults": "a control plane of its own, which it breaks",
    "tests/integration": "bare control planes",
    "tests/e2e/node": "a real node",
    "tests/e2e/test_bind": "a site with Bind",
    "tests/e2e/test_native": "a site that goes native",
    "tests/e2e/test_replicas": "a site with more replicas",
    "tests/e2e": "sites",
}
"""How a module's path begins -> what its tests share; the first that fits. Other modules share nothing."""


def shared(nodeid: str) -> str:
    """Name what a test shares with others, or else its module."""
    module = nodeid.partition("::")[0]
    return next((what for start, what in TOGETHER.items() if module.startswith(start)), module)


class Sharing(LoadScopeScheduling):
    """Gives a worker all tests that share something, in the order of the session."""

    def __init__(self, config: pytest.Config, log: Producer | None = None) -> None:
        config.option.loadscopereorder = False
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        return shared(nodeid)
