"""Texts of rare shapes: what can be changed in them without harm, and what is left for that reason."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from convert_cases import conversion
from drabridge.core.convert.file import convert
from drabridge.core.convert.findings import Outcome
from drabridge.core.convert.piece import Direction
from drabridge.core.reasons import Reason
from manifests import values


@dataclass(frozen=True, slots=True)
class Case:
    """A text, lines that its conversion has, and the reasons for what is left."""

    text: str
    has: tuple[str, ...] = ()
    left: tuple[Reason, ...] = ()


def pod(spec: str) -> str:
    return f"apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\n{spec}"


ANCHOR_THAT_OTHERS_USE = """\
apiVersion: v1
kind: List
items:
- apiVersion: example.io/v1
  kind: Gang
  metadata: {name: shared}
  spec:
    limits: &limits
      nvidia.com/gpu: 1
      cpu: 1
    template:
      spec:
        containers:
        - name: c
          image: a
          resources:
            limits: *limits
- apiVersion: v1
  kind: Pod
  metadata: {name: plain}
  spec:
    containers:
    - name: c
      image: a
      resources:
        limits:
          nvidia.com/gpu: 1
"""

FLOW = (
    "spec: {containers: [{name: c, resources: {claims: [{name: extended-resources, request: container-0-request-0}]},},"
    "], resourceClaims: [{name: extended-resources, resourceClaimTemplateName: gpu-1-916a95}],"
    " tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}],}"
)

CLAIMS = "claims: [{name: extended-resources, request: container-0-request-0}]"

CASES = {
    "an anchor that somebody else uses is left alone, and its alias written out": Case(
        ANCHOR_THAT_OTHERS_USE,
        has=("      nvidia.com/gpu: 1", "            limits:", "              cpu: 1", "            claims:"),
        left=(Reason.OUTSIDE_CONTAINERS,),
    ),
    "a whole Pod template that somebody else uses cannot be changed, and the other object can": Case(
        ANCHOR_THAT_OTHERS_USE.replace("spec:\n    limits: &limits\n      nvidia.com/gpu: 1\n      cpu: 1\n", "spec:\n")
        .replace(
            "      spec:\n        containers:\n        - name: c\n",
            "      spec:\n        containers: &cs\n        - name: c\n",
        )
        .replace("limits: *limits\n", "limits:\n              nvidia.com/gpu: 1\n    copy: *cs\n"),
        has=("      resources:", "        claims:"),
        left=(Reason.EDIT_UNSAFE, Reason.OUTSIDE_CONTAINERS),
    ),
    "a quantity that is a list makes the Pod invalid": Case(
        pod("spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: [1]}}}]}\n"), left=(Reason.INVALID_POD,)
    ),
    "an invalid Pod is named though it asks for nothing: nobody knows what was meant": Case(
        pod("spec: {containers: [{name: c, resources: {limits: {cpu: [1]}}}]}\n"), left=(Reason.INVALID_POD,)
    ),
    "what only looks like a Pod and asks for nothing is not our business": Case(
        "apiVersion: example.io/v1\nkind: Crane\nspec: {containers: [{name: c, resources: {limits: {cpu: [1]}}}]}\n"
    ),
    "what only looks like a Pod and asks for devices is": Case(
        "apiVersion: example.io/v1\nkind: Crane\n"
        "spec: {containers: [{name: c}], initContainers: [{name: i, resources: {limits: [nvidia.com/gpu]}}]}\n",
        left=(Reason.INVALID_POD,),
    ),
    "a spec that is no object": Case(pod("spec: nothing\n"), left=(Reason.INVALID_POD,)),
    "containers that are no list": Case(pod("spec: {containers: {name: c, image: a}}\n"), left=(Reason.INVALID_POD,)),
    "a container that is no object": Case(pod("spec: {containers: [c]}\n"), left=(Reason.INVALID_POD,)),
    "a container without a name": Case(
        "apiVersion: apps/v1\nkind: Deployment\nspec: {template: {spec: {containers: [{command: [run]}]}}}\n",
        left=(Reason.INVALID_POD,),
    ),
    "a Deployment without a Pod template is a patch": Case(
        "apiVersion: apps/v1\nkind: Deployment\nspec: {replicas: 3}\n"
    ),
    "limits that are written otherwise": Case(
        pod("spec: {containers: [{name: c, resources: {limit: {nvidia.com/gpu: 1}}}]}\n"), left=(Reason.INVALID_POD,)
    ),
    "a Pod whose author has opted out": Case(
        pod("spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: 1}}}]}\n").replace(
            "{name: p}", '{name: p, annotations: {drabridge.io/rewrite: "False"}}'
        ),
        left=(Reason.OPTED_OUT,),
    ),
    "Pods of a workload whose author has opted out, which is said in the template": Case(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec:\n  template:\n"
        "    metadata: {annotations: {drabridge.io/rewrite: false}}\n"
        "    spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: 1}}}]}\n",
        left=(Reason.OPTED_OUT,),
    ),
    "an annotation of the workload itself, which admission does not see": Case(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d, annotations: {drabridge.io/rewrite: 'false'}}\n"
        "spec:\n  template:\n    spec:\n      containers: [{name: c, resources: {limits: {nvidia.com/gpu: 1}}}]\n",
        has=(f"      containers: [{{name: c, resources: {{{CLAIMS}}}}}]",),
    ),
    "less than zero": Case(
        pod("spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: -1}}}]}\n"), left=(Reason.INVALID_POD,)
    ),
    "words for a number": Case(
        pod("spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: two}}}]}\n"), left=(Reason.INVALID_POD,)
    ),
    "another program's placeholder": Case(
        pod("spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: __GPUS__}}}]}\n"),
        left=(Reason.PLACEHOLDER,),
    ),
    "keys with question marks stay as they are": Case(
        pod("spec:\n  containers:\n  - name: c\n    resources:\n      ? limits\n      : nvidia.com/gpu: 1\n"),
        left=(Reason.EDIT_UNSAFE,),
    ),
    "the list of containers begins in the line of a dash": Case(
        "apiVersion: example.io/v1\nkind: Gang\nmetadata: {name: g}\nspec:\n  pods:\n  - containers:\n"
        "    - name: c\n      resources:\n        limits:\n          nvidia.com/gpu: 1\n",
        has=("  - resourceClaims:", "    containers:", "        claims:"),
    ),
    "resources begin in the line of a dash": Case(
        pod("spec:\n  containers:\n  - resources:\n      limits:\n        nvidia.com/gpu: 1\n    name: c\n"),
        has=("  - resources:", "      claims:"),
    ),
    "limits are the first entry of a line with a dash, and nothing else is there": Case(
        pod("spec:\n  containers:\n  - resources: {limits: {nvidia.com/gpu: 1}}\n    name: c\n"),
        has=("  - resources: {claims: [{name: extended-resources, request: container-0-request-0}]}",),
    ),
    "tolerations are an alias": Case(
        "apiVersion: example.io/v1\nkind: Gang\nmetadata: {name: g}\nspec:\n  tolerations: &t\n"
        "  - {key: a, operator: Exists}\n  pod:\n"
        "    tolerations: *t\n    containers:\n    - name: c\n      resources:\n        limits:\n"
        "          nvidia.com/gpu: 1\n",
        has=("  - {key: a, operator: Exists}", "    tolerations:", "    - key: a", "    - key: nvidia.com/gpu"),
    ),
    "the PodSpec is merged together": Case(
        "apiVersion: example.io/v1\nkind: Gang\nmetadata: {name: g}\nspec:\n  base: &b\n    restartPolicy: Never\n"
        "    tolerations: [{key: a, operator: Exists}]\n"
        "  pod:\n    <<: *b\n    containers:\n    - name: c\n      resources:\n        limits:\n"
        "          nvidia.com/gpu: 1\n",
        has=("    tolerations: [{key: a, operator: Exists}]", "    - key: a", "    <<: *b"),
    ),
    "flow with an empty list and a comma at the end": Case(
        pod("spec: {tolerations: [], containers: [{name: c, resources: {limits: {nvidia.com/gpu: 1,},},},],}\n"),
        has=(FLOW,),
    ),
    "flow over several lines with comments": Case(
        pod(
            "spec:\n  containers:\n  - name: c\n    resources: {\n      # hard\n      limits: {\n"
            "        nvidia.com/gpu: 1, # one\n        cpu: 1\n      }\n    }\n"
        ),
        has=("        cpu: 1", "      # hard", "        # one", "      },"),
    ),
    "flow over several lines, and nothing but comments is left of what goes": Case(
        pod(
            "spec:\n  containers:\n  - name: c\n    resources: {\n      limits: { # open\n        # above\n"
            "        nvidia.com/gpu: 1 # behind\n        # below\n      }, # closed\n      requests: { # two\n"
            "        nvidia.com/gpu: 1, cpu: 1, # three\n      } # four\n    }\n"
        ),
        has=(
            "      # open",
            "      # above",
            "      # behind",
            "      # below",
            "      # closed",
            "        cpu: 1, # three",
        ),
    ),
    "flow in which the last entry goes": Case(
        pod(
            "spec:\n  containers:\n  - name: c\n    resources:\n      limits: {cpu: 1, # first\n"
            "        nvidia.com/gpu: 1, # last\n        example.org/x: 1 # other\n      } # end\n"
        ),
        has=("      limits: {cpu: 1, # first", "        # last", "        example.org/x: 1 # other", "      } # end"),
        left=(Reason.NOT_SERVED,),
    ),
    "flow in a block in which all goes": Case(
        pod(
            "spec:\n  containers:\n  - name: c\n    resources:\n      limits: { # open\n        # above\n"
            "        'nvidia.com/gpu': '1' # behind\n      } # end\n"
        ),
        has=("        # above", "      # open", "      # behind", "      # end"),
    ),
    "comments in what is written out of an anchor": Case(
        ANCHOR_THAT_OTHERS_USE.replace("          resources:\n", "          resources: # what\n").replace(
            "            limits: *limits\n", "            # above\n            limits: *limits # as there\n"
        ),
        has=("            # what", "            # above", "              request: container-0-request-0 # as there"),
        left=(Reason.OUTSIDE_CONTAINERS,),
    ),
    "a text that means a number is quoted in what is written anew": Case(
        pod("spec:\n  containers: [{name: c, resources: {limits: {nvidia.com/gpu: 1}}}]\n").replace(
            "{name: p}", '{name: p, namespace: "1e3"}'
        ),
        has=("  namespace: '1e3'",),
    ),
    "old Mac line ends": Case(
        pod("spec:\n  containers:\n  - name: c\n    resources:\n      limits:\n        nvidia.com/gpu: 1\n").replace(
            "\n", "\r"
        ),
        left=(Reason.LINE_ENDS,),
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_rare_texts(case: Case) -> None:
    result = convert(case.text, conversion(case.text))
    lines = result.text.split("\n")
    assert [each.reason for each in result.findings if each.outcome is Outcome.LEFT] == list(case.left)
    assert [line for line in case.has if line not in lines] == []
    assert (result.text == case.text) == (not case.has)
    values(result.text)


def test_new_lines_end_as_the_line_before_them_where_a_file_has_both_ends() -> None:
    text = pod(
        "spec:\n  containers:\r\n  - name: c\n    resources:\r\n      limits:\n        cpu: 1\r\n"
        "        nvidia.com/gpu: 1\r\n"
    )
    lines = convert(text, conversion(text)).text.split("\n")
    kept = [line for line in text.split("\n") if line and "nvidia" not in line]
    assert [line for line in lines if line in kept and line != "  spec:"][-len(kept) :] == kept
    assert "  resourceClaims:" in lines
    assert lines[-4:-2] == ["      claims:\r", "      - name: extended-resources\r"]


def test_it_is_said_which_anchors_hold_something_else_and_which_aliases_were_written_out() -> None:
    resources = "resources: &r {limits: {nvidia.com/gpu: 1}}"
    text = pod(f"spec:\n  containers:\n  - name: a\n    {resources}\n  - name: b\n    resources: *r\n")
    found = convert(text, conversion(text)).findings
    assert [each.detail for each in found if each.reason is Reason.ANCHOR_CHANGED] == [
        "what &r holds has changed",
        "the alias *r is written out",
    ]


def test_an_anchor_that_keeps_what_it_holds_is_not_spoken_of() -> None:
    text = ANCHOR_THAT_OTHERS_USE.replace("limits: *limits", "limits: {nvidia.com/gpu: 1}")
    assert "&limits" in text
    found = convert(text, conversion(text)).findings
    assert not [each for each in found if each.reason is Reason.ANCHOR_CHANGED]


def test_a_request_of_v1beta1_that_cannot_be_wrapped_in_place_is_left() -> None:
    text = (
        "apiVersion: resource.k8s.io/v1beta1\nkind: ResourceClaim\nmetadata: {name: c}\nspec:\n  devices:\n"
        "    requests:\n    - deviceClassName: a\n      ? name\n      : b\n      count: 2\n"
    )
    result = convert(text, conversion(text))
    assert (result.text, [each.reason for each in result.findings]) == (text, [Reason.EDIT_UNSAFE])


def test_templates_in_a_json_list_go_when_nobody_uses_them() -> None:
    text = (
        '{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},'
    )
    text += ' "spec": {"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}}]}'
    forth = convert(text, conversion(text)).text
    back = convert(forth, conversion(forth, Direction.REVERSE)).text
    assert "ResourceClaimTemplate" in forth
    assert [each["kind"] for each in values(back)[0]["items"]] == ["Pod"]
    assert '"limits": {"nvidia.com/gpu": 1}' in back
