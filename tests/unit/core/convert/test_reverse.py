"""The way back: what claims can be said by extended resources, and which cannot."""

from __future__ import annotations

import pytest

import convert_cases
from convert_cases import conversion, source, wanted
from drabridge.core.convert.file import convert
from drabridge.core.convert.findings import Outcome
from drabridge.core.convert.piece import Direction
from drabridge.core.reasons import Reason

TEMPLATE = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata:
  name: gpus
spec:
  spec:
    devices:
      requests:
      - name: one
        exactly:
          deviceClassName: gpu.nvidia.com
          count: 2{more}
---
"""

POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: p
spec:
  resourceClaims:
  - name: gpu
    resourceClaimTemplateName: gpus
  containers:
  - name: a
    image: a
    resources:
      claims: # two of them
      - name: gpu
"""


def restored(text: str) -> tuple[str, list[Reason]]:
    result = convert(text, conversion(text, Direction.REVERSE))
    return result.text, [each.reason for each in result.findings if each.outcome is not Outcome.NOTE]


def test_claims_that_somebody_wrote_become_the_name_of_their_class() -> None:
    text, reasons = restored(TEMPLATE.format(more="") + POD)
    assert text.removeprefix(TEMPLATE.format(more="")) == (
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\nspec:\n  containers:\n  - name: a\n    image: a\n"
        "    resources:\n      limits: # two of them\n        nvidia.com/gpu: 2\n"
    )
    assert reasons == [Reason.CONVERTED]


def test_a_template_of_somebody_stays_though_nothing_uses_it() -> None:
    text, _ = restored(TEMPLATE.format(more="") + POD)
    assert text.startswith(TEMPLATE.format(more=""))


NOT_EXPRESSIBLE = {
    "selectors": TEMPLATE.format(more="\n          selectors:\n          - cel: {expression: 'true'}") + POD,
    "all devices": TEMPLATE.format(more="\n          allocationMode: All") + POD,
    "tolerations": TEMPLATE.format(more="\n          tolerations:\n          - operator: Exists") + POD,
    "constraints": TEMPLATE.format(more="\n      constraints:\n      - matchAttribute: a.example/b") + POD,
    "a list of alternatives": TEMPLATE.format(more="").replace("exactly:", "other:") + POD,
    "devices that two containers share": TEMPLATE.format(more="")
    + POD
    + "  - name: b\n    image: b\n    resources:\n      claims:\n      - name: gpu\n",
    "devices that no container uses": TEMPLATE.format(more="")
    + POD.replace("      - name: gpu\n", "      - name: other\n"),
    "a request that is not there": TEMPLATE.format(more="") + POD + "        request: two\n",
}


@pytest.mark.parametrize("text", NOT_EXPRESSIBLE.values(), ids=NOT_EXPRESSIBLE)
def test_what_extended_resources_cannot_say_stays(text: str) -> None:
    assert restored(text) == (text, [Reason.NOT_EXPRESSIBLE])


def test_a_template_that_is_not_among_the_files_is_named() -> None:
    assert restored(POD) == (POD, [Reason.CLAIM_TEMPLATE_UNKNOWN])


def test_a_template_without_a_namespace_may_be_meant_for_that_of_the_pod() -> None:
    text = TEMPLATE.format(more="") + POD.replace("  name: p\n", "  name: p\n  namespace: team\n")
    assert restored(text)[1] == [Reason.CONVERTED]


def test_a_named_claim_is_shared_on_purpose_and_stays() -> None:
    text = POD.replace("resourceClaimTemplateName", "resourceClaimName")
    assert restored(text) == (text, [])


def test_a_container_that_was_put_before_the_others_is_no_reason_to_guess() -> None:
    text = wanted("job-init-container-reuses.yaml")
    changed = text.replace("      - name: small\n", "      - name: new\n        image: n\n      - name: small\n")
    back, reasons = restored(changed)
    assert sorted(reasons) == [Reason.TEMPLATE_REMOVED, Reason.CONVERTED]
    assert back.count("nvidia.com/gpu: 5") == 1  # the larger init container sees all five
    assert back.count("nvidia.com/gpu: 2") == 3  # the smaller one sees the two that it reuses, and may


OWN = '{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}'
IN_JSON = {
    "without tolerations": "",
    "with an empty list of them": '"tolerations": [], ',
    "with another one": '"tolerations": [{"key": "a", "operator": "Exists"}], ',
    "with its own for the resource": f'"tolerations": [{OWN}], ',
    "with one that tolerates all": '"tolerations": [{"operator": "Exists"}], ',
}


@pytest.mark.parametrize("tolerations", IN_JSON.values(), ids=IN_JSON)
@pytest.mark.parametrize("wrapper", ["{}", '# above\n{{"apiVersion": "v1", "kind": "List", "items": [{}]}}\n'])
def test_json_comes_back_to_the_byte(tolerations: str, wrapper: str) -> None:
    pod = '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {' + tolerations
    pod += '"containers": [{"name": "c", "resources": {"limits": {"cpu": 1, "nvidia.com/gpu": 2}}}]}}'
    text = wrapper.format(pod)
    forth = convert(text, conversion(text)).text
    assert "ResourceClaimTemplate" in forth
    assert restored(forth)[0].replace('"tolerations": [], ', "") == text.replace('"tolerations": [], ', "")


def test_pods_with_and_without_a_toleration_of_their_own_may_come_back_from_one_file() -> None:
    line = "- {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}"
    pods = [
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n" + more + "  containers:\n"
        "  - {name: c, resources: {limits: {nvidia.com/gpu: 1}}}\n"
        for more in ("", f"  tolerations: [{line[2:]}]\n", f"  tolerations:\n  {line}\n")
    ]
    text = "---\n".join(pods)
    forth = convert(text, conversion(text)).text
    assert forth.count("kind: ResourceClaimTemplate\n") == 2
    assert restored(forth)[0] == text


def test_comments_on_what_goes_stay() -> None:
    lines = TEMPLATE.format(more="") + POD.replace(
        "  resourceClaims:\n  - name: gpu\n    resourceClaimTemplateName: gpus\n",
        "  resourceClaims: # one\n  # two\n  - name: gpu # three\n    resourceClaimTemplateName: gpus # four\n",
    )
    back = restored(lines)[0]
    assert "spec:\n  # one\n  # two\n  # three\n    # four\n  containers:\n" in back


TEXTS_THAT_COME_BACK = [
    name
    for name in convert_cases.NAMES
    if name.startswith(("pod-", "job", "mpi", "leader", "ray", "cron", "stateful", "tfjob", "volcano", "flow-style"))
    if source(name) != wanted(name)
]


@pytest.mark.parametrize("name", TEXTS_THAT_COME_BACK)
def test_there_and_back_leaves_no_trace_but_where_quantities_stand(name: str) -> None:
    back, _ = restored(wanted(name))
    mark = ("extended-resources", "drabridge.io/", "ResourceClaimTemplate\n", "ExtendedResourceToleration")
    if "taken" not in name:
        assert not [each for each in mark if each in back.replace("drabridge.io/v1alpha1", "")]
    again = convert(back, conversion(back))
    assert sorted(again.text) == sorted(wanted(name))
