"""Fields of raw objects. Objects come from an API server or from a file that claims to: a field may be missing or null.

What has another shape than the API's raises Misshapen, and the object counts as unreadable.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from drabridge.core.errors import quoted
from drabridge.core.quantity import Quantity

Raw = Mapping[str, Any]

_TEXT: Final = {str}

LARGEST: Final = 100_000
"""Values of an object. The API server stores objects of up to some megabytes, which have fewer."""


class Misshapen(TypeError):
    """`field` of `parent`, an object somewhere in the object that is read, is not what the API has there."""

    def __init__(self, parent: Raw, field: str, problem: str) -> None:
        super().__init__(f"{field} {problem}")
        self.parent = parent
        self.field = field
        self.problem = problem

    def path(self, raw: Raw) -> str:
        """Where in `raw` the field stands: "spec.devices[0].name"; the field alone if `raw` is another object."""
        waiting: list[tuple[Any, str]] = [(raw, "")]
        while waiting:
            value, path = waiting.pop()
            if value is self.parent:
                return f"{path}{_step(self.field)}".removeprefix(".")
            if isinstance(value, Mapping):
                waiting += [(each, f"{path}{_step(name)}") for name, each in value.items()]
            elif isinstance(value, list):
                waiting += [(each, f"{path}[{index}]") for index, each in enumerate(value)]
        return self.field


def _step(name: str) -> str:
    return f".{name}" if name.partition("[")[0].isidentifier() else f"['{name}']"


def part(raw: Raw, *names: str) -> Raw:
    """The object at this path, {} if it is missing. Raises Misshapen where something else stands."""
    for name in names:
        value = raw.get(name)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise Misshapen(raw, name, f"is {quoted(value)}, not an object")
        raw = value
    return raw


def parts(raw: Raw, name: str) -> Iterator[Raw]:
    """The objects of a list. Raises Misshapen where something else stands."""
    value = raw.get(name)
    if value is None:
        return
    if not isinstance(value, list):
        raise Misshapen(raw, name, f"is {quoted(value)}, not a list")
    for index, entry in enumerate(value):
        if not isinstance(entry, Mapping):
            raise Misshapen(raw, f"{name}[{index}]", f"is {quoted(entry)}, not an object")
        yield entry


def text(raw: Raw, name: str) -> str:
    """A text, "" if it is missing; numbers and booleans are shown as they are."""
    value = raw.get(name)
    if value is None:
        return ""
    if isinstance(value, (Mapping, list)):
        raise Misshapen(raw, name, f"is {quoted(value)}, not a text")
    return value if isinstance(value, str) else str(value)


def texts(raw: Raw, name: str) -> tuple[str, ...]:
    """A list of texts."""
    value = raw.get(name)
    if value is None:
        return ()
    if not isinstance(value, list):
        raise Misshapen(raw, name, f"is {quoted(value)}, not a list")
    return tuple(str(entry) for entry in value)


def named(raw: Raw) -> dict[str, str]:
    """Name -> text."""
    return {name: text(raw, name) for name in raw}


def number(raw: Raw, name: str, default: int = 0) -> int:
    """A whole number."""
    value = raw.get(name)
    try:
        return default if value is None else int(value)
    except (TypeError, ValueError):
        raise Misshapen(raw, name, f"is {quoted(value)}, not a whole number") from None


def quantity(raw: Raw, name: str) -> Quantity:
    """A quantity."""
    try:
        return Quantity.parse(text(raw, name))
    except ValueError as error:
        raise Misshapen(raw, name, str(error)) from None


def quantities(raw: Raw, *, value: str = "") -> dict[str, Quantity]:
    """Name -> quantity; `value` is the field that it stands in, if it has one of its own."""
    return {name: quantity(part(raw, name) if value else raw, value or name) for name in raw}


def key_of(raw: Raw) -> str:
    """namespace/name, or the name of an object without a namespace."""
    metadata = part(raw, "metadata")
    namespace, name = text(metadata, "namespace"), text(metadata, "name")
    return f"{namespace}/{name}" if namespace else name


def managers_of(raw: Raw, *path: str) -> frozenset[str]:
    """The field managers that own the field at this path of `fieldsV1` ("f:status", "f:resourceClaimStatuses")."""
    found = set()
    for entry in parts(part(raw, "metadata"), "managedFields"):
        fields: Any = entry.get("fieldsV1")
        for name in path:
            fields = fields.get(name) if isinstance(fields, Mapping) else None
        if fields is not None:
            found.add(text(entry, "manager"))
    return frozenset(found)


def check_values(raw: Raw, most: int = LARGEST) -> None:
    """Raise ValueError for an object of more than `most` values: YAML can say that in few words, by aliases.

    YAML also allows names of fields that are no texts, as JSON does not: TypeError.
    """
    waiting: list[Any] = [raw]
    count = 0
    while waiting:
        value = waiting.pop()
        count += len(value)
        if count > most:
            raise ValueError(f"it has more than {most} values")
        values = value
        if value.__class__ is dict:
            if value and set(map(type, value)) != _TEXT:
                raise TypeError("the name of a field is not a text")
            values = value.values()
        waiting += [each for each in values if each.__class__ is dict or each.__class__ is list]


def check_metadata(raw: Raw) -> None:
    """Raise Misshapen where names, times, labels or annotations are not of the API's types, ValueError without name."""
    metadata = part(raw, "metadata")
    for name in ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp"):
        value = metadata.get(name)
        if value is not None and not isinstance(value, str):
            raise Misshapen(metadata, name, f"is {quoted(value)}, not a text")
    if not metadata.get("name") and not metadata.get("generateName"):
        raise ValueError("it has no name")
    for name in ("labels", "annotations"):
        for key, value in part(metadata, name).items():
            if not isinstance(value, str):
                raise Misshapen(metadata, f"{name}['{key}']", f"is {quoted(value)}, not a text")


def names_in(value: Any) -> Iterator[str]:
    """All names of fields in a value, however deep; its size was checked before."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, Mapping):
            yield from map(str, each)
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each
