"""Raw objects of the API, read with errors that name object, path and cure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from drabridge.core.errors import InvalidInput, quoted
from drabridge.core.quantity import Quantity

Raw = Mapping[str, Any]

LARGEST_EXPONENT: Final = 4000
"""Powers of ten up to which quantities are computed with: "1e2000000000" is a quantity, but fits no memory."""


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads the fields of one object. `object` is kind and name, as in "ResourceSlice gpu-node-1"."""

    object: str

    def invalid(self, path: str, problem: str, cure: str) -> InvalidInput:
        """Make the error for a field."""
        return InvalidInput(self.object, path, problem, cure)

    def mapping(self, raw: Any, path: str) -> Raw:
        """Read an object; what is absent is an empty one."""
        if raw.__class__ is dict:  # nearly always, and cheaper to find out
            known: Raw = raw
            return known
        if raw is None:
            return {}
        if not isinstance(raw, Mapping):
            raise self.invalid(path, f"is {quoted(raw)}, not an object", "write a mapping")
        return raw

    def items(self, raw: Any, path: str) -> Sequence[Raw]:
        """Read a list of objects; what is absent is an empty one."""
        values = self.sequence(raw, path)
        for index, value in enumerate(values):
            if value.__class__ is not dict and not isinstance(value, Mapping):
                raise self.invalid(f"{path}[{index}]", f"is {quoted(value)}, not an object", "write a mapping")
        return values

    def sequence(self, raw: Any, path: str) -> Sequence[Any]:
        """Read a list; what is absent is an empty one."""
        if raw is None:
            return ()
        if not isinstance(raw, (list, tuple)):
            raise self.invalid(path, f"is {quoted(raw)}, not a list", "write a list")
        return raw

    def strings(self, raw: Any, path: str) -> tuple[str, ...]:
        """Read a list of strings."""
        return tuple(self.text(value, f"{path}[{index}]") for index, value in enumerate(self.sequence(raw, path)))

    def text(self, raw: Any, path: str) -> str:
        """Read a string; what is absent is empty."""
        if raw is None:
            return ""
        if not isinstance(raw, str):
            raise self.invalid(path, f"is {quoted(raw)}, not a string", "write a string")
        return raw

    def whole(self, raw: Any, path: str) -> int:
        """Read an int64; what is absent is 0."""
        if raw is None:
            return 0
        if not isinstance(raw, int) or isinstance(raw, bool) or not -(2**63) <= raw < 2**63:
            raise self.invalid(path, f"is {quoted(raw)}, not an int64", "write a whole number")
        return raw

    def flag(self, raw: Any, path: str) -> bool | None:
        """Read a bool; None if it is absent."""
        if raw is None or isinstance(raw, bool):
            return raw
        raise self.invalid(path, f"is {quoted(raw)}, not a bool", "write true or false")

    def quantity(self, raw: Any, path: str) -> Quantity:
        """Read a quantity. Raises InvalidInput also for powers of ten that nobody can compute with."""
        try:
            return parse_quantity(written(raw))
        except ValueError as error:
            raise self.invalid(path, str(error), "write a quantity such as 40Gi") from None


def opened(kind: str, raw: Any) -> tuple[Reader, Raw, str, str]:
    """Begin to read an object: return a reader for it, its spec or {}, its namespace and its name."""
    reader = Reader(kind)
    if not isinstance(raw, Mapping):
        raise reader.invalid("", f"is {quoted(raw)}, not an object", "write an object")
    whole: Raw = raw
    metadata = reader.mapping(whole.get("metadata"), "metadata")
    name = reader.text(metadata.get("name"), "metadata.name")
    namespace = reader.text(metadata.get("namespace"), "metadata.namespace")
    reader = Reader(f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}")
    return reader, reader.mapping(whole.get("spec"), "spec"), namespace, name


def written(raw: Any) -> str:
    """Return a quantity's text; JSON may hold it as a number. Raises ValueError for anything else."""
    if isinstance(raw, str):
        return raw
    if isinstance(raw, int | float) and not isinstance(raw, bool):
        return str(raw)
    raise ValueError(f"{quoted(raw)} is not a quantity")


@lru_cache(maxsize=4096)
def parse_quantity(text: str) -> Quantity:
    """Read a quantity that is small enough to compute with. Raises ValueError."""
    quantity = Quantity.parse(text)
    if quantity.exponent > LARGEST_EXPONENT:
        raise ValueError(f"{quoted(text)} is larger than anything that devices have")
    return quantity
