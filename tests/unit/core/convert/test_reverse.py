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
