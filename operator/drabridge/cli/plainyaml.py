"""YAML as machines write it, read twice as fast: a document without anchors, tags and merges.

The values are those of the loader it is made with; whatever is out of the ordinary is left to that loader, which knows
what to make of it, or how to complain.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import yaml

UNUSUAL: Final = object()
"""The answer for a document that is not plain."""

_WITH_PROPERTIES: Final = frozenset({yaml.ScalarEvent, yaml.MappingStartEvent, yaml.SequenceStartEvent})
_NEW: Final[dict[Any, Any]] = {yaml.MappingStartEvent: dict, yaml.SequenceStartEvent: list}
_ENDS: Final = frozenset({yaml.MappingEndEvent, yaml.SequenceEndEvent})

_DEEPEST: Final = 100
"""Containers in containers. Whoever walks through them may do so by recursion."""

_MOST_KNOWN: Final = 10_000
_NO_KEY: Final = object()


class PlainReader:
    """Reads plain documents; `loader` is the class of the loader that is asked what a plain scalar means."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader
        self._meaning = loader("")
        self._known: dict[str, Any] = {}

    def read(self, text: str) -> Any:
        """Give the document's value, or UNUSUAL. Raises nothing: errors are the other loader's to describe."""
        parser = self._loader(text)
        try:
            return self._document(parser.get_event)
        except (yaml.YAMLError, ValueError):
            return UNUSUAL
        finally:
            parser.dispose()

    def _document(self, following: Callable[[], Any]) -> Any:
        """The events of a document: its value, put together without recursion."""
        if following().__class__ is not yaml.StreamStartEvent or following().__class__ is not yaml.DocumentStartEvent:
            return UNUSUAL
        outer: list[tuple[Any, Any]] = []  # containers that are open, each with its key that waits for a value
        container: Any = None
        key: Any = _NO_KEY
        while True:
            event = following()
            kind = event.__class__
            if kind in _WITH_PROPERTIES and not (event.anchor is None and event.tag is None):
                return UNUSUAL
            if kind is yaml.ScalarEvent:
                value = self._scalar(event.value) if event.implicit[0] else event.value
            elif kind in _NEW and len(outer) < _DEEPEST:
                outer.append((container, key))
                container, key = _NEW[kind](), _NO_KEY
                continue
            elif kind in _ENDS and outer:
                value = container
                container, key = outer.pop()
            else:
                return UNUSUAL
            if container is None:
                return value if self._ends(following) else UNUSUAL
            key = _put(container, key, value)
            if key is UNUSUAL:
                return UNUSUAL

    def _ends(self, following: Callable[[], Any]) -> bool:
        return following().__class__ is yaml.DocumentEndEvent and following().__class__ is yaml.StreamEndEvent

    def _scalar(self, text: str) -> Any:
        """What a scalar without quotes means; most come again and again."""
        known = self._known.get(text, _NO_KEY)
        if known is not _NO_KEY:
            return known
        node = yaml.ScalarNode(self._meaning.resolve(yaml.ScalarNode, text, (True, False)), text)
        value = self._meaning.construct_object(node, deep=True)
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[text] = value
        return value


def _put(container: Any, key: Any, value: Any) -> Any:
    """Put a value into a list, or as a key or value into a map; give the key that waits now, or UNUSUAL."""
    if container.__class__ is list:
        container.append(value)
    elif key is not _NO_KEY:
        container[key] = value
    elif value.__class__ is str and value != "<<" and value not in container:
        return value
    else:
        return UNUSUAL
    return _NO_KEY
