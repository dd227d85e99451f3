"""Which resource names are extended, and what a name must look like (KEP-5004, k8s.io/apimachinery validation)."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

IMPLICIT_PREFIX: Final = "deviceclass.resource.kubernetes.io/"
"""Every DeviceClass answers to this prefix and its own name (`ResourceDeviceClassPrefix` in resource.k8s.io)."""

_NATIVE: Final = "kubernetes.io/"
_QUOTA: Final = "requests."
"""How a ResourceQuota names a resource; a resource name must stay valid behind it."""

_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(rf"{_LABEL.pattern}(?:\.{_LABEL.pattern})*")
_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?")


def is_dns_label(text: str) -> bool:
    """RFC 1123 label: 1 to 63 of a-z, 0-9 and "-", with no "-" at either end."""
    return len(text) <= 63 and _LABEL.fullmatch(text) is not None


def is_dns_subdomain(text: str) -> bool:
    """RFC 1123 subdomain: labels joined by dots, 253 characters at most (the API does not limit a single label)."""
    return len(text) <= 253 and _SUBDOMAIN.fullmatch(text) is not None


def is_label_value(text: str) -> bool:
    """Value of a label: empty, or like the name part of a qualified name."""
    return not text or _is_name_part(text)


def is_qualified_name(text: str) -> bool:
    """`IsQualifiedName`, the form of label keys: a name part of up to 63 characters, perhaps a DNS subdomain before."""
    prefix, slash, name = text.rpartition("/")
    return _is_name_part(name) and (not slash or is_dns_subdomain(prefix))


def _is_name_part(text: str) -> bool:
    return len(text) <= 63 and _NAME.fullmatch(text) is not None


@lru_cache(maxsize=1024)
def is_explicit(name: str) -> bool:
    """`IsExtendedResourceName`: with a domain that is not Kubernetes' own, and still valid as a name of a quota."""
    return "/" in name and _NATIVE not in name and not name.startswith(_QUOTA) and is_qualified_name(_QUOTA + name)


def is_extended(name: str) -> bool:
    """`IsDRAExtendedResourceName`: an explicit extended name, or anything that starts like an implicit one."""
    return "/" in name and (name.startswith(IMPLICIT_PREFIX) or is_explicit(name))


def implicit_name(class_name: str) -> str:
    """Return the name that a DeviceClass answers to without declaring one."""
    return IMPLICIT_PREFIX + class_name


def implicit_class(name: str) -> str | None:
    """Return the DeviceClass that an implicit name means.

    None for other names, and where no Pod can ask by this name: a DeviceClass' name may have 253 characters, the name
    part of a resource name 63 (KEP-5004, "Implicit Extended Resource Name").
    """
    class_name = name.removeprefix(IMPLICIT_PREFIX)
    return class_name if class_name != name and len(class_name) <= 63 and is_dns_subdomain(class_name) else None


def explicit_name_problems(name: str) -> list[str]:
    """Say what keeps `name` from being an explicit extended resource name; nothing if it is one.

    The rules are those of the API server for `DeviceClass.spec.extendedResourceName` (format
    k8s-extended-resource-name).
    """
    problems = []
    prefix, slash, part = name.rpartition("/")
    if not slash:
        problems.append("it has no domain before a slash, as example.com/gpu has")
    if _NATIVE in name:
        problems.append(f'it contains "{_NATIVE}", which is kept for Kubernetes itself')
    if name.startswith(_QUOTA):
        problems.append(f'it starts with "{_QUOTA}", which is how quotas name resources')
    if slash and not is_dns_subdomain(_QUOTA + prefix):
        problems.append(
            f"what is before the last slash is not a lower-case DNS name of at most {253 - len(_QUOTA)} characters"
        )
    if not _is_name_part(part):
        problems.append(
            "what is after the slash is not 1 to 63 letters, digits, '-', '_' or '.', "
            "with a letter or digit at both ends"
        )
    return problems
