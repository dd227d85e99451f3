"""Which tests stay together in one worker (`pytest -n 2`): those that share control planes, or a real node."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    import pytest
    from xdist.remote import Producer

ALONE = {
    *("test_examining", "test_demo", "test_operator_faults"),
    *("test_crashes", "test_leaving_and_missing", "test_replicas", "test_rights", "test_upgrade", "test_writes"),
}
"""Modules of `integration` and `e2e` that start control planes of their own."""

ON_SITES = {"test_thousand_pods", "test_tls", "test_webhook_input"}
"""Modules of `integration` on the sites that `e2e` is on."""


def together(nodeid: str) -> str:
    """Name what a test shares with tests of other modules; its module if it shares nothing.

    What shares a control plane and is not told apart here starts it once more, and is right all the same.
    """
    module = PurePath(nodeid.partition("::")[0])
    match module.parts:
        case ("tests", "e2e", "node", *_):
            return "a real node"
        case ("tests", "e2e", _) if module.stem.startswith("test_bind"):
            return "a site with Bind"
        case ("tests", "integration", _) if module.stem.startswith("test_bind"):
            return "a bare API server"
        case ("tests", "integration" | "e2e", _) if module.stem in ALONE:
            return str(module)
        case ("tests", "integration", _) if module.stem not in ON_SITES:
            return "bare control planes"
        case ("tests", "integration" | "e2e", _):
            return "sites"
        case _:
            return str(module)


class Sharing(LoadScopeScheduling):
    """Gives a worker all tests that share something, in the order of the session."""

    def __init__(self, config: pytest.Config, log: Producer | None = None) -> None:
        config.option.loadscopereorder = False
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        return together(nodeid)
