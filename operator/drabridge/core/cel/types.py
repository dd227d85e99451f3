"""The types of CEL's checker: what a declaration says of its arguments and its result."""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Type:
    """A type. `name` is CEL's ("int", "list", "kubernetes.Quantity"); `args` are the parameters of list, map, …."""

    name: str
    args: "tuple[Type, ...]" = ()

    def __str__(self) -> str:
        if self.is_parameter:
            return self.name[1:]
        return f"{self.name}({', '.join(map(str, self.args))})" if self.args else self.name

    @property
    def is_parameter(self) -> bool:
        """Whether this is a type parameter of a declaration, such as the A of list(A)."""
        return self.name.startswith("$")

    def parameters(self) -> Iterator[str]:
        """The names of all type parameters in it."""
        if self.is_parameter:
            yield self.name
        for arg in self.args:
            yield from arg.parameters()


BOOL, INT, UINT, DOUBLE, STRING, BYTES = map(Type, ("bool", "int", "uint", "double", "string", "bytes"))
NULL, DYN, ERROR = Type("null_type"), Type("dyn"), Type("error")
ANY = Type("google.protobuf.Any")
TIMESTAMP, DURATION = Type("google.protobuf.Timestamp"), Type("google.protobuf.Duration")
QUANTITY, SEMVER, DEVICE = Type("kubernetes.Quantity"), Type("kubernetes.Semver"), Type("kubernetes.DRADevice")
URL, IP, CIDR = Type("kubernetes.URL"), Type("net.IP"), Type("net.CIDR")
NAMED_FORMAT = Type("kubernetes.NamedFormat")


def list_of(element: Type) -> Type:
    """list(element)."""
    return Type("list", (element,))


def map_of(key: Type, value: Type) -> Type:
    """map(key, value)."""
    return Type("map", (key, value))


def optional_of(value: Type) -> Type:
    """optional_type(value)."""
    return Type("optional_type", (value,))


def type_of(value: Type) -> Type:
    """type(value): the type of a type."""
    return Type("type", (value,))


def parameter(name: str) -> Type:
    """A type parameter of a declaration."""
    return Type(f"${name}")


def wrapper_of(value: Type) -> Type:
    """wrapper(value): the value or null, the type of google.protobuf.Int64Value and the like."""
    return Type("wrapper", (value,))
