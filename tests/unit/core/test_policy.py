from __future__ import annotations

from itertools import permutations

from builders import GPU, NIC, pod, policy
from drabridge.core.policy import PolicyView, effective

OLD, NEW = "2026-01-01T00:00:00Z", "2026-06-01T00:00:00Z"


def winners(*policies: PolicyView) -> dict[str, str]:
    """Give resource name -> name of the policy that counts, having seen that order does not matter."""
    found = {
        tuple(sorted((name, each.name) for name, each in effective(order).items())) for order in permutations(policies)
    }
    assert len(found) == 1
    return dict(found.pop())


def test_the_oldest_policy_of_a_name_counts() -> None:
    assert winners(policy(name="a", created=NEW), policy(name="b", created=OLD)) == {GPU: "b"}


def test_of_equally_old_policies_the_one_with_the_smaller_name_counts() -> None:
    assert winners(policy(name="c"), policy(name="a"), policy(name="b")) == {GPU: "a"}


def test_policies_of_different_names_do_not_compete() -> None:
    assert winners(policy(name="a"), policy(NIC, name="b", created=NEW)) == {GPU: "a", NIC: "b"}


def test_a_policy_without_selectors_selects_everything() -> None:
    assert policy().selects_namespace({})
    assert policy().selects_pod(pod().view())


def test_a_namespace_is_selected_by_its_labels() -> None:
    selective = policy(namespaces={"team": "ml"})
    assert selective.selects_namespace({"team": "ml", "env": "prod"})
    assert not selective.selects_namespace({"team": "web"})


def test_a_pod_is_selected_by_its_labels() -> None:
    selective = policy(pods={"tier": "batch"})
    assert selective.selects_pod(pod().labels(tier="batch").view())
    assert not selective.selects_pod(pod().annotations({"tier": "batch"}).view())
