from __future__ import annotations

import pytest

from drabridge.core.names import (
    explicit_name_problems,
    implicit_class,
    implicit_name,
    is_dns_label,
    is_dns_subdomain,
    is_explicit,
    is_extended,
    is_label_value,
    is_qualified_name,
)

LABELS = ".".join(["a" * 60] * 4)  # 243 characters; with "requests." in front 252
IMPLICIT = "deviceclass.resource.kubernetes.io/"

# sentence -> name, explicit, extended, a piece of what is wrong with it as an explicit name ("" if nothing is)
NAMES: dict[str, tuple[str, bool, bool, str]] = {
    "a vendor's name": ("nvidia.com/gpu", True, True, ""),
    "a name with dots, dashes and capitals": ("amd.com/GPU_x-1.y", True, True, ""),
    "a resource of Kubernetes itself": ("cpu", False, False, "no domain"),
    "a name without domain": ("gpu", False, False, "no domain"),
    "hugepages": ("hugepages-2Mi", False, False, "no domain"),
    "a domain of Kubernetes": ("kubernetes.io/gpu", False, False, "kept for Kubernetes"),
    "a domain below that of Kubernetes": ("attachable.kubernetes.io/gpu", False, False, "kept for Kubernetes"),
    "a domain that ends the same way": ("notkubernetes.io/gpu", False, False, "kept for Kubernetes"),
    "an implicit name": (f"{IMPLICIT}gpu", False, True, "kept for Kubernetes"),
    "an implicit name that no class can have": (f"{IMPLICIT}Gpu!", False, True, "kept for Kubernetes"),
    "a name of a quota": ("requests.example.com/gpu", False, False, "how quotas"),
    "two slashes": ("example.com/gpu/a", False, False, "before the last slash"),
    "nothing before the slash": ("/gpu", False, False, "before the last slash"),
    "nothing after the slash": ("example.com/", False, False, "after the slash"),
    "a domain in capitals": ("Example.com/gpu", False, False, "before the last slash"),
    "a name that ends in a dash": ("example.com/gpu-", False, False, "after the slash"),
    "unicode": ("example.com/gpü", False, False, "after the slash"),
    "unicode digits": ("example.com/٣", False, False, "after the slash"),
    "a line break at the end": ("example.com/gpu\n", False, False, "after the slash"),
    "63 characters after the slash": ("example.com/" + "a" * 63, True, True, ""),
    "64 characters after the slash": ("example.com/" + "a" * 64, False, False, "1 to 63"),
    "244 characters before the slash": (f"{LABELS}a/gpu", True, True, ""),
    "245 characters before the slash": (f"{LABELS}aa/gpu", False, False, "at most 244"),
    "nothing": ("", False, False, "no domain"),
}


@pytest.mark.parametrize(("name", "explicit", "extended", "problem"), NAMES.values(), ids=NAMES)
def test_names_are_told_apart(name: str, explicit: bool, extended: bool, problem: str) -> None:
    assert is_explicit(name) == explicit
    assert is_extended(name) == extended
    problems = explicit_name_problems(name)
    assert (not problems) == explicit
    assert problem in "; ".join(problems)


CLASSES = {
    "an ordinary class": ("gpu.nvidia.com", "gpu.nvidia.com"),
    "63 characters": ("a" * 63, "a" * 63),
    "64 characters cannot be requested": ("a" * 64, None),
    "capitals are no class": ("GPU", None),
    "nothing is no class": ("", None),
}


@pytest.mark.parametrize(("name", "found"), CLASSES.values(), ids=CLASSES)
def test_an_implicit_name_leads_to_its_class(name: str, found: str | None) -> None:
    assert implicit_class(implicit_name(name)) == found


def test_an_explicit_name_is_not_implicit() -> None:
    assert implicit_class("example.com/gpu") is None


# text -> DNS label, DNS subdomain, qualified name, label value
FORMS = {
    "a": (True, True, True, True),
    "a-1": (True, True, True, True),
    "a.b": (False, True, True, True),
    "a..b": (False, False, True, True),
    "A_b": (False, False, True, True),
    "-a": (False, False, False, False),
    "a/b": (False, False, True, False),
    "a/b/c": (False, False, False, False),
    "": (False, False, False, True),
    "a" * 64: (False, True, False, False),
    ("a." * 127) + "a": (False, False, False, False),
}


@pytest.mark.parametrize("text", FORMS)
def test_the_forms_of_names(text: str) -> None:
    assert (is_dns_label(text), is_dns_subdomain(text), is_qualified_name(text), is_label_value(text)) == FORMS[text]
