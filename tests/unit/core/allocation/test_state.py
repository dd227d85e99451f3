"""Allocated state: commit and release, and what two claims cannot hold at once."""

from __future__ import annotations

from typing import Any

import pytest

from drabridge.core.allocation.state import AllocatedState, Holding, claim_label, holdings
from drabridge.core.errors import InvalidInput

WHOLE = Holding("gpu.example.com", "node-1", "gpu-0")
OTHER = Holding("gpu.example.com", "node-1", "gpu-1")
ELSEWHERE = Holding("gpu.example.com", "node-2", "gpu-0")
SHARE = Holding("nic.example.com", "node-1", "nic-0", "share-a", (("bandwidth", 3 * 10**9),))
SECOND = Holding("nic.example.com", "node-1", "nic-0", "share-b", (("bandwidth", 4 * 10**9),))


def allocated(name: str, *results: dict[str, Any]) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "default"},
        "status": {"allocation": {"devices": {"results": list(results)}}},
    }


def result(device: str, **more: Any) -> dict[str, Any]:
    return {"request": "r", "driver": "gpu.example.com", "pool": "node-1", "device": device, **more}


def test_a_committed_device_is_in_use_and_known_by_its_claim() -> None:
    state = AllocatedState().commit("default/a", [WHOLE, ELSEWHERE])
    use = state.pool(WHOLE.key)
    assert use is not None
    assert use.dedicated == {"gpu-0": "default/a"}
    assert use.holds("gpu-0")
    assert not use.holds("gpu-1")
    assert state.holdings("default/a") == (WHOLE, ELSEWHERE)
    assert list(state.claims()) == ["default/a"]


def test_shares_add_up() -> None:
    state = AllocatedState().commit("default/a", [SHARE]).commit("default/b", [SECOND])
    use = state.pool(SHARE.key)
    assert use is not None
    assert use.shares == {"nic-0": {"share-a": "default/a", "share-b": "default/b"}}
    assert use.amounts == {"nic-0": {"bandwidth": 7 * 10**9}}


@pytest.mark.parametrize("held", [[WHOLE], [SHARE], [WHOLE, OTHER, ELSEWHERE], [SHARE, OTHER], []])
@pytest.mark.parametrize("before", [[], [SECOND], [Holding("x.example.com", "p", "d")]])
def test_a_release_undoes_a_commit(held: list[Holding], before: list[Holding]) -> None:
    state = AllocatedState().commit("default/first", before)
    assert state.commit("default/a", held).release("default/a") == state
    assert state.commit("default/a", held) == state.commit("default/a", held)
    if held:
        assert state.commit("default/a", held) != state


def test_states_do_not_change() -> None:
    state = AllocatedState().commit("default/a", [SHARE])
    state.commit("default/b", [SECOND])
    state.release("default/a")
    assert state == AllocatedState().commit("default/a", [SHARE])


OVERLAPS = {
    "a device twice": ([WHOLE], [WHOLE]),
    "a device of which there are shares": ([SHARE], [SHARE._replace(share="")]),
    "a share of a device that is in use as a whole": ([SHARE._replace(share="")], [SHARE]),
    "a share twice": ([SHARE], [SHARE]),
}


@pytest.mark.parametrize(("first", "second"), OVERLAPS.values(), ids=OVERLAPS)
def test_overlapping_allocations_name_both_claims(first: list[Holding], second: list[Holding]) -> None:
    state = AllocatedState().commit("default/a", first)
    with pytest.raises(InvalidInput, match=r"in use by claim default/a .* claim default/b as well") as error:
        state.commit("default/b", second)
    assert error.value.object == "ResourceClaim default/b"


def test_a_claim_is_committed_once_and_released_once() -> None:
    state = AllocatedState().commit("default/a", [WHOLE])
    with pytest.raises(InvalidInput, match="allocated already"):
        state.commit("default/a", [OTHER])
    with pytest.raises(InvalidInput, match="is not allocated"):
        state.release("default/b")


def test_a_state_is_rebuilt_from_claims() -> None:
    share = {"shareID": "s", "consumedCapacity": {"memory": "10Gi"}}
    state = AllocatedState.of_claims(
        [
            allocated("a", result("gpu-0"), result("gpu-1", **share)),
            {"metadata": {"name": "waiting", "namespace": "default"}},
            allocated("admin", result("gpu-0", adminAccess=True)),
        ]
    )
    assert state.holdings("default/admin") == ()
    assert state.holdings("default/waiting") is None
    use = state.pool(("gpu.example.com", "node-1"))
    assert use is not None
    assert use.dedicated == {"gpu-0": "default/a"}
    assert use.amounts == {"gpu-1": {"memory": 10 * 2**30 * 10**9}}


def test_without_consumable_capacity_a_share_is_a_whole_device() -> None:
    claim = allocated("a", result("gpu-1", shareID="s", consumedCapacity={"memory": "1"}))
    state = AllocatedState.of_claims([claim], consumable_capacity=False)
    use = state.pool(("gpu.example.com", "node-1"))
    assert use is not None
    assert use.dedicated == {"gpu-1": "default/a"}


def test_broken_claims_are_named() -> None:
    with pytest.raises(InvalidInput, match=r"ResourceClaim default/a: status.allocation.devices.results\[0\].device"):
        AllocatedState.of_claims([allocated("a", {**result("x"), "device": 7})])
    assert claim_label({"metadata": {"name": "n"}}) == "n"
    assert holdings({}, "x") == ()
