"""Which types go together: cel-go's checker/types.go, with the bindings of type parameters kept in one place."""

from __future__ import annotations

from typing import Final

from drabridge.core.cel.types import ANY, DYN, ERROR, NULL, Type, parameter

_PRIMITIVES: Final = frozenset({"bool", "int", "uint", "double", "string", "bytes"})
_NOT_NULLABLE: Final = _PRIMITIVES | {"list", "map", "type", "dyn", "error"}
_DYNAMIC: Final = frozenset({DYN.name, ANY.name, ERROR.name})


def is_dyn(type_: Type) -> bool:
    """Whether nothing is known of the type."""
    return type_.name in (DYN.name, ANY.name)


class Bindings:
    """What type parameters stand for. A try that fails leaves no trace."""

    __slots__ = ("_bound", "_fresh", "_trail")

    def __init__(self) -> None:
        self._bound: dict[str, Type] = {}
        self._trail: list[tuple[str, Type | None]] = []
        self._fresh = 0

    def fresh(self) -> Type:
        """Make a type parameter that nothing else has."""
        self._fresh += 1
        return parameter(f"_var{self._fresh - 1}")

    def assignable(self, to: Type, source: Type) -> bool:
        """Whether one type is assignable to another, in cel-go's sense (t1 = to, t2 = source); binds parameters."""
        return self.all_assignable((to,), (source,))

    def all_assignable(self, to: tuple[Type, ...], source: tuple[Type, ...]) -> bool:
        """Whether all pairs are assignable together."""
        self._trail.clear()
        if self._pairs(to, source):
            return True
        for name, old in reversed(self._trail):
            if old is None:
                del self._bound[name]
            else:
                self._bound[name] = old
        return False

    def substitute(self, type_: Type, *, free_to_dyn: bool = False) -> Type:
        """Put in what parameters stand for; those that stand for nothing become dyn on demand."""
        while type_.is_parameter:
            bound = self._bound.get(type_.name)
            if bound is None:
                return DYN if free_to_dyn else type_
            type_ = bound
        if not type_.args:
            return type_
        return Type(type_.name, tuple([self.substitute(arg, free_to_dyn=free_to_dyn) for arg in type_.args]))

    def _bind(self, name: str, type_: Type) -> None:
        self._trail.append((name, self._bound.get(name)))
        self._bound[name] = type_

    def _pairs(self, to: tuple[Type, ...], source: tuple[Type, ...]) -> bool:
        if len(to) != len(source):
            return False
        for one, other in zip(to, source, strict=True):  # noqa: SIM110 -- a generator would double the depth of calls
            if not self._assignable(one, other):
                return False
        return True

    def _assignable(self, one: Type, other: Type) -> bool:
        if other.is_parameter:
            valid, bound = self._valid(one, other)
            if valid or bound:
                return valid
        if one.is_parameter:
            return self._valid(other, one)[0]
        if one.name in _DYNAMIC or other.name in _DYNAMIC:
            return True
        return self._known_assignable(one, other)

    def _known_assignable(self, one: Type, other: Type) -> bool:
        if NULL in (one, other):
            return _nullable(other if one == NULL else one)
        one, other = _unwrapped(one), _unwrapped(other)
        if one.name != other.name:
            return False
        return one.name == "type" or self._pairs(one.args, other.args)

    def _valid(self, type_: Type, param: Type) -> tuple[bool, bool]:
        """Whether the type may stand for the parameter, and whether the parameter stood for something before."""
        if type_ == param:
            return True, True
        bound = self._bound.get(param.name)
        if bound is None:
            if self._occurs(param, type_):
                return False, False
            self._bind(param.name, type_)
            return True, False
        if type_ == bound:
            return True, True
        if not self._assignable(type_, bound):
            return False, True
        general = most_general(type_, bound)
        if not self._occurs(param, general):
            self._bind(param.name, general)
        return True, True

    def _occurs(self, param: Type, within: Type) -> bool:
        if param == within:
            return True
        if within.is_parameter:
            bound = self._bound.get(within.name)
            return bound is not None and self._occurs(param, bound)
        for arg in within.args:  # noqa: SIM110 -- as above
            if self._occurs(param, arg):
                return True
        return False


def _unwrapped(type_: Type) -> Type:
    return type_.args[0] if type_.name == "wrapper" else type_


def _nullable(type_: Type) -> bool:
    return type_.name not in _NOT_NULLABLE


def most_general(one: Type, other: Type) -> Type:
    """Return the one of two types that says less."""
    return one if _less_specific(one, other) else other


def _less_specific(one: Type, other: Type) -> bool:
    if is_dyn(one) or one.is_parameter:
        return True
    if is_dyn(other) or other.is_parameter:
        return False
    if "wrapper" in (one.name, other.name):
        return _unwrapped(one) == _unwrapped(other)
    if one.name != other.name or len(one.args) != len(other.args):
        return False
    if one.name == "type":
        return True
    for a, b in zip(one.args, other.args, strict=True):  # noqa: SIM110 -- as above
        if not _less_specific(a, b):
            return False
    return True


def equivalent(one: Type, other: Type) -> bool:
    """Whether two types are the same but for the names of parameters; a wrapper is taken for what it wraps."""
    one, other = _unwrapped(one), _unwrapped(other)
    if one.is_parameter or other.is_parameter:
        return one.is_parameter and other.is_parameter
    if one.name != other.name or len(one.args) != len(other.args):
        return False
    for a, b in zip(one.args, other.args, strict=True):  # noqa: SIM110 -- as above
        if not equivalent(a, b):
            return False
    return True


_SHORT: Final = {
    ANY.name: "any",
    "google.protobuf.Duration": "duration",
    "google.protobuf.Timestamp": "timestamp",
    ERROR.name: "!error!",
    NULL.name: "null",
}


def described(type_: Type) -> str:
    """Write a type as the checker's messages do."""
    if type_.is_parameter:
        return type_.name[1:]
    name = _SHORT.get(type_.name, type_.name)
    return f"{name}({', '.join(map(described, type_.args))})" if type_.args else name
