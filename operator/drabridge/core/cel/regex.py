"""Regular expressions with the syntax and semantics of Go's regexp package, which is RE2's.

The pattern is parsed here, whatever matches it in the end: so errors are Go's, and what Python's `re` takes but RE2
does not (look-around, back references, possessive repetition) is refused. The parser writes the pattern anew in a
spelling that leaves nothing to interpretation (each class as ranges, each anchor by its exact meaning) in one of two
dialects: that of the `re2` module if it can be imported, else that of `re`. RE2 matches in linear time, `re` does not;
the fallback is for development, and it knows no Unicode scripts.
"""

from __future__ import annotations

import importlib
import re
import sys
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final

from drabridge.core.cel.values import CelError

_MAX_REPEAT: Final = 1000
_MAX_HEIGHT: Final = 1000
_MAX_SIZE: Final = (128 << 20) // 40
"""Go's limit on compiled instructions."""

_MAX_MEMORY: Final = 16 << 20
"""Bytes that RE2 may use for one pattern."""

_MAX_STEPS: Final = 150_000
_MAX_STEPS_AT_ALL: Final = 2_000_000
_FREE_INSTRUCTIONS: Final = 200
_INSTRUCTIONS_PER_CHARACTER: Final = 12
"""Counted repetition makes short patterns large, and upstream charges by the pattern's length. Patterns of more
instructions than this are applied to short text only, as device attributes are, so that time is bounded by the cost."""

_CACHE: Final = 64
_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class InvalidRegex(ValueError):
    """A pattern that Go refuses. The text is Go's."""

    def __init__(self, fault: str, excerpt: str) -> None:
        super().__init__(f"error parsing regexp: {fault}: `{excerpt}`")


@dataclass(frozen=True, slots=True)
class Pattern:
    """A compiled pattern. One engine searches text, the other one bytes of UTF-8: a subject is either."""

    _encode: Callable[[str], Any]
    _text: Callable[[Any], str]
    _search: Callable[[Any, int], tuple[int, int] | None]
    _instructions: int
    _compact: bool

    def matches(self, text: str) -> bool:
        """Whether the pattern matches somewhere in the text. Raises CelError where that would take too long."""
        return self._search(self._subject(text), 0) is not None

    def find(self, text: str) -> str:
        """The leftmost match; empty if there is none. Raises CelError as `matches` does."""
        subject = self._subject(text)
        span = self._search(subject, 0)
        return "" if span is None else self._text(subject[span[0] : span[1]])

    def find_all(self, text: str, limit: int = -1) -> list[str]:
        """The matches that do not overlap, `limit` at most; all of them if that is negative.

        As in Go, an empty match right behind another match does not count. Raises CelError as `matches` does.
        """
        subject = self._subject(text)
        found: list[str] = []
        at, previous = 0, -1
        while at <= len(subject) and (limit < 0 or len(found) < limit):
            span = self._search(subject, at)
            if span is None:
                break
            start, end = span
            if end > start or start != previous:
                found.append(self._text(subject[start:end]))
            at, previous = (end if end > at else at + 1), end
        return found

    def _subject(self, text: str) -> Any:
        if self._instructions * len(text) > (_MAX_STEPS_AT_ALL if self._compact else _MAX_STEPS):
            raise CelError(f"a text of {len(text)} characters is too long for this large a regular expression")
        return self._encode(text)


@lru_cache(maxsize=_CACHE)
def compile_regex(pattern: str) -> Pattern:
    """Compile a pattern. Raises InvalidRegex with Go's text."""
    return _compiled(pattern, _engine())


def _compiled(pattern: str, engine: Any) -> Pattern:
    dialect = _RE if engine is None else _RE2
    node = _Parser(_clean(pattern), dialect).parse()
    compact = node.size <= _FREE_INSTRUCTIONS + _INSTRUCTIONS_PER_CHARACTER * len(pattern)
    if engine is None:
        return Pattern(_clean, str, _search_re(node.text, pattern), node.size, compact)
    return Pattern(_encoded, _decoded, _search_re2(engine, node.text, pattern), node.size, compact)


@lru_cache(maxsize=1)
def _engine() -> Any:
    """The module of RE2, or None if it is not installed."""
    try:
        return importlib.import_module("re2")
    except ImportError:
        return None


def _search_re(translated: str, pattern: str) -> Callable[[str, int], tuple[int, int] | None]:
    try:
        compiled = re.compile(translated)
    except (re.error, RecursionError, OverflowError) as error:
        raise InvalidRegex("expression nests too deeply", pattern) from error

    def search(text: str, start: int) -> tuple[int, int] | None:
        found = compiled.search(text, start)
        return None if found is None else found.span()

    return search


def _search_re2(engine: Any, translated: str, pattern: str) -> Callable[[bytes, int], tuple[int, int] | None]:
    options = engine.Options()
    options.max_mem = _MAX_MEMORY
    options.log_errors = False
    options.never_capture = True
    try:
        compiled = engine.compile(translated, options=options)
    except engine.error as error:
        raise InvalidRegex("expression too large", pattern) from error

    def search(text: bytes, start: int) -> tuple[int, int] | None:
        while True:
            found = compiled.search(text, start)
            if found is None:
                return None
            span: tuple[int, int] = found.span()
            if span[0] == len(text) or text[span[0]] & 0xC0 != 0x80:
                return span
            start = span[0] + 1  # an empty match within a character: RE2 looks at bytes there, Go does not

    return search


def _clean(text: str) -> str:
    """The text with Go's mark of an error for surrogates, which UTF-8 cannot hold."""
    return text if text.isascii() else _LONE_SURROGATE.sub("\ufffd", text)


def _encoded(text: str) -> bytes:
    return _clean(text).encode()


def _decoded(text: bytes) -> str:
    return text.decode("utf-8", "replace")


# Classes of characters


_Ranges = list[tuple[int, int]]

_PERL: Final[dict[str, _Ranges]] = {
    "d": [(0x30, 0x39)],
    "s": [(0x09, 0x0A), (0x0C, 0x0D), (0x20, 0x20)],
    "w": [(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)],
}
_POSIX: Final[dict[str, _Ranges]] = {
    "alnum": [(0x30, 0x39), (0x41, 0x5A), (0x61, 0x7A)],
    "alpha": [(0x41, 0x5A), (0x61, 0x7A)],
    "ascii": [(0x00, 0x7F)],
    "blank": [(0x09, 0x09), (0x20, 0x20)],
    "cntrl": [(0x00, 0x1F), (0x7F, 0x7F)],
    "digit": [(0x30, 0x39)],
    "graph": [(0x21, 0x7E)],
    "lower": [(0x61, 0x7A)],
    "print": [(0x20, 0x7E)],
    "punct": [(0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E)],
    "space": [(0x09, 0x0D), (0x20, 0x20)],
    "upper": [(0x41, 0x5A)],
    "word": [(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)],
    "xdigit": [(0x30, 0x39), (0x41, 0x46), (0x61, 0x66)],
}
_CATEGORY_NAMES: Final = """
    C Cc Cf Cn Co Cs L LC Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No P Pc Pd Pe Pf Pi Po Ps S Sc Sk Sm So Z Zl Zp Zs
    """
_CATEGORIES: Final = frozenset(_CATEGORY_NAMES.split())
_ALIASES: Final = {
    "other": "C", "control": "Cc", "cntrl": "Cc", "format": "Cf", "unassigned": "Cn", "privateuse": "Co",
    "surrogate": "Cs", "letter": "L", "casedletter": "LC", "lowercaseletter": "Ll", "modifierletter": "Lm",
    "otherletter": "Lo", "titlecaseletter": "Lt", "uppercaseletter": "Lu", "mark": "M", "combiningmark": "M",
    "spacingmark": "Mc", "enclosingmark": "Me", "nonspacingmark": "Mn", "number": "N", "decimalnumber": "Nd",
    "digit": "Nd", "letternumber": "Nl", "othernumber": "No", "punctuation": "P", "punct": "P",
    "connectorpunctuation": "Pc", "dashpunctuation": "Pd", "closepunctuation": "Pe", "finalpunctuation": "Pf",
    "initialpunctuation": "Pi", "otherpunctuation": "Po", "openpunctuation": "Ps", "symbol": "S",
    "currencysymbol": "Sc", "modifiersymbol": "Sk", "mathsymbol": "Sm", "othersymbol": "So", "separator": "Z",
    "lineseparator": "Zl", "paragraphseparator": "Zp", "spaceseparator": "Zs",
}  # fmt: skip
_SCRIPT_NAMES: Final = """
    Adlam Ahom Arabic Armenian Avestan Balinese Bamum Batak Bengali Bhaiksuki Bopomofo Brahmi Braille Buginese Buhid
    Carian Chakma Cham Cherokee Chorasmian Common Coptic Cuneiform Cypriot Cyrillic Deseret Devanagari Dogra
    Duployan Elbasan Elymaic Ethiopic Georgian Glagolitic Gothic Grantha Greek Gujarati Gurmukhi Han Hangul Hanunoo
    Hatran Hebrew Hiragana Inherited Javanese Kaithi Kannada Katakana Kawi Kharoshthi Khmer Khojki Khudawadi Lao
    Latin Lepcha Limbu Lisu Lycian Lydian Mahajani Makasar Malayalam Mandaic Manichaean Marchen Medefaidrin Miao
    Modi Mongolian Mro Multani Myanmar Nabataean Nandinagari Newa Nko Nushu Ogham Oriya Osage Osmanya Palmyrene
    Phoenician Rejang Runic Samaritan Saurashtra Sharada Shavian Siddham Sinhala Sogdian Soyombo Sundanese Syriac
    Tagalog Tagbanwa Takri Tamil Tangsa Tangut Telugu Thaana Thai Tibetan Tifinagh Tirhuta Toto Ugaritic Vai
    Vithkuqi Wancho Yezidi Yi
    """
_SCRIPTS: Final = frozenset(_SCRIPT_NAMES.split())
"""Go's scripts. It looks names up without their underscores, so that it finds none of those that have one."""

_MAX_RUNE: Final = sys.maxunicode
_SURROGATES: Final = (0xD800, 0xDFFF)
_ALL: Final = f"\x00-{chr(_MAX_RUNE)}"
_NOTHING: Final = f"[^{_ALL}]"


def _negated(ranges: Iterable[tuple[int, int]]) -> _Ranges:
    """All characters but those."""
    gaps, start = [], 0
    for low, high in sorted(ranges):
        if start < low:
            gaps.append((start, low - 1))
        start = max(start, high + 1)
    if start <= _MAX_RUNE:
        gaps.append((start, _MAX_RUNE))
    return gaps


def _folded(ranges: _Ranges) -> _Ranges:
    """A class of ASCII with all that differs in case only; two letters have a third form beyond ASCII."""
    codes = {code for low, high in ranges for code in range(low, high + 1)}
    codes |= {ord(chr(code).swapcase()) for code in codes}
    more = [(ord(other), ord(other)) for letter, other in (("s", "\u017f"), ("k", "\u212a")) if ord(letter) in codes]
    return [(code, code) for code in sorted(codes)] + more


def _spelled(ranges: Iterable[tuple[int, int]]) -> str:
    """Ranges as they stand in a class."""
    spelled = []
    for low, high in ranges:
        first = _SURROGATES[1] + 1 if _SURROGATES[0] <= low <= _SURROGATES[1] else low
        last = _SURROGATES[0] - 1 if _SURROGATES[0] <= high <= _SURROGATES[1] else high
        if first <= last:
            spelled.append(_escaped(first) if first == last else f"{_escaped(first)}-{_escaped(last)}")
    return "".join(spelled)


def _escaped(code: int) -> str:
    character = chr(code)
    return (
        f"\\{character}" if character.isascii() and not character.isalnum() and character in _PUNCTUATION else character
    )


_PUNCTUATION: Final = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^`{|}~")


@lru_cache(maxsize=64)
def _category(name: str) -> tuple[tuple[int, int], ...]:
    """The characters of a general category, from Python's tables."""
    wanted = ("Lu", "Ll", "Lt") if name == "LC" else (name,)
    ranges: _Ranges = []
    for code in range(_MAX_RUNE + 1):
        if unicodedata.category(chr(code)).startswith(wanted) and not _SURROGATES[0] <= code <= _SURROGATES[1]:
            if ranges and ranges[-1][1] == code - 1:
                ranges[-1] = (ranges[-1][0], code)
            else:
                ranges.append((code, code))
    return tuple(ranges)


@dataclass(frozen=True, slots=True)
class _Dialect:
    """Where the spellings of the two engines differ. `unicode` spells a category or script inside of a class."""

    end: str
    boundary: str
    no_boundary: str
    unicode: Callable[[str, bool], str | None]


def _unicode_re2(name: str, negated: bool) -> str | None:
    if name == "Cn":
        return _unicode_re(name, negated)
    if name == "LC":
        return _unicode_re(name, negated) if negated else r"\p{Lu}\p{Ll}\p{Lt}"
    return f"\\{'P' if negated else 'p'}{{{name}}}"


def _unicode_re(name: str, negated: bool) -> str | None:
    if name not in _CATEGORIES:
        return None
    ranges = _category(name)
    return _spelled(_negated(ranges) if negated else ranges)


_RE2: Final = _Dialect(r"\z", r"\b", r"\B", _unicode_re2)
_RE: Final = _Dialect(r"\Z", r"(?a:\b)", r"(?a:\B)", _unicode_re)


# The parser


@dataclass(frozen=True, slots=True)
class _Flags:
    fold: bool = False
    lines: bool = False
    dot_all: bool = False
    lazy: bool = False


@dataclass(frozen=True, slots=True)
class _Node:
    """A part of the pattern in its new spelling. `copies` is the smallest limit of repetitions it passes.

    `single` says that a repetition may follow as it is; `run` that it is plain text.
    """

    text: str
    height: int = 1
    size: int = 1
    copies: int = 0
    single: bool = True
    run: bool = False


@dataclass(slots=True)
class _Frame:
    """A group that is open: its finished alternatives, the parts of the last one, and the flags around it."""

    flags: _Flags
    capture: bool = False
    alternatives: list[_Node] = field(default_factory=list)
    parts: list[_Node] = field(default_factory=list)


_EMPTY: Final = _Node("(?:)")


class _Parser:
    """One walk over the pattern, with a stack of its own: hostile patterns nest deep."""

    def __init__(self, pattern: str, dialect: _Dialect) -> None:
        self._pattern = pattern
        self._dialect = dialect
        self._at = 0
        self._flags = _Flags()
        self._frames = [_Frame(self._flags)]

    def parse(self) -> _Node:
        """The whole pattern in its new spelling, with its size."""
        last_repeat = None
        while self._at < len(self._pattern):
            start = self._at
            bounds = self._bounds()
            if bounds is None:
                self._step(self._pattern[start])
                last_repeat = None
            else:
                self._repeat(bounds, start, last_repeat)
                last_repeat = start
        node = self._alternation()
        if len(self._frames) > 1:
            raise InvalidRegex("missing closing )", self._pattern)
        return node

    def _step(self, character: str) -> None:
        """Read one thing that is no repetition."""
        special = {
            "(": self._open,
            ")": self._close,
            "|": self._bar,
            "^": self._start_anchor,
            "$": self._end_anchor,
            ".": self._dot,
            "[": self._class,
            "\\": self._backslash,
        }.get(character)
        if special is None:
            self._literal(ord(character))
            self._at += 1
        else:
            special()

    def _push(self, node: _Node) -> None:
        self._frames[-1].parts.append(node)

    def _literal(self, code: int) -> None:
        if _SURROGATES[0] <= code <= _SURROGATES[1]:
            self._push(_Node(_NOTHING))
        elif self._flags.fold and chr(code).lower() + chr(code).upper() != chr(code) * 2:
            self._push(_Node(f"(?i:{_escaped(code)})", run=True))
        else:
            self._push(_Node(_escaped(code), run=True))

    def _start_anchor(self) -> None:
        self._at += 1
        self._push(_Node("(?m:^)" if self._flags.lines else r"\A", single=False))

    def _end_anchor(self) -> None:
        self._at += 1
        self._push(_Node("(?m:$)" if self._flags.lines else self._dialect.end, single=False))

    def _dot(self) -> None:
        self._at += 1
        self._push(_Node(f"[{_ALL}]" if self._flags.dot_all else r"[^\n]"))

    # Groups

    def _open(self) -> None:
        if self._pattern.startswith("(?", self._at):
            self._perl_group()
        else:
            self._at += 1
            self._frames.append(_Frame(self._flags, capture=True))

    def _perl_group(self) -> None:
        """Read a named group, a group without capture, or flags."""
        start, rest = self._at, self._pattern[self._at :]
        if (rest.startswith("(?P<") and len(rest) > 4) or (rest.startswith("(?<") and len(rest) > 3):
            name, closed, _ = rest[rest.index("<") + 1 :].partition(">")
            end = start + rest.index("<") + len(name) + 2
            if not closed:
                raise InvalidRegex("invalid named capture", rest)
            if not re.fullmatch("[0-9A-Za-z_]+", name):
                raise InvalidRegex("invalid named capture", self._pattern[start:end])
            self._at = end
            self._frames.append(_Frame(self._flags, capture=True))
            return
        match = re.compile(r"([imsU]*)(-[imsU]+)?([:)])").match(self._pattern, start + 2)
        if match is None:
            raise InvalidRegex("invalid or unsupported Perl syntax", self._refused_flags(start))
        flags = self._flags
        for letters, value in ((match[1], True), (match[2] or "", False)):
            for letter in letters.removeprefix("-"):
                flags = replace(flags, **{_FLAG_NAMES[letter]: value})
        if match[3] == ":":
            self._frames.append(_Frame(self._flags))
        self._flags = flags
        self._at = match.end()

    def _refused_flags(self, start: int) -> str:
        """The excerpt of Go's error: up to and with the first character that cannot stand there."""
        match = re.compile("[imsU]*(?:-[imsU]*)?").match(self._pattern, start + 2)
        return self._pattern[start : (match.end() if match else start) + 1]

    def _bar(self) -> None:
        self._at += 1
        frame = self._frames[-1]
        frame.alternatives.append(self._concatenation())
        frame.parts = []

    def _close(self) -> None:
        if len(self._frames) == 1:
            raise InvalidRegex("unexpected )", self._pattern)
        self._at += 1
        node = self._alternation()
        frame = self._frames.pop()
        self._flags = frame.flags
        if frame.capture:
            node = replace(node, height=node.height + 1, size=node.size + 2, run=False)
        self._push(self._limited(node))

    def _concatenation(self) -> _Node:
        parts = self._frames[-1].parts
        if len(parts) < 2:
            return parts[0] if parts else _EMPTY
        run = all(part.run for part in parts)
        return self._limited(
            _Node(
                "".join(part.text for part in parts),
                height=1 if run else 1 + max(part.height for part in parts),
                size=sum(part.size for part in parts),
                copies=max(part.copies for part in parts),
                single=False,
                run=run,
            )
        )

    def _alternation(self) -> _Node:
        choices = [*self._frames[-1].alternatives, self._concatenation()]
        if len(choices) == 1:
            return choices[0]
        return self._limited(
            _Node(
                f"(?:{'|'.join(choice.text for choice in choices)})",
                height=1 + max(choice.height for choice in choices),
                size=sum(choice.size for choice in choices) + len(choices) - 1,
                copies=max(choice.copies for choice in choices),
            )
        )

    def _limited(self, node: _Node) -> _Node:
        if node.height > _MAX_HEIGHT:
            raise InvalidRegex("expression nests too deeply", self._pattern)
        if node.size > _MAX_SIZE:
            raise InvalidRegex("expression too large", self._pattern)
        return node

    # Repetitions

    def _bounds(self) -> tuple[int, int, str] | None:
        """Read a repetition: how often at least, at most (-1: no limit), and its spelling. None if there is none.

        Braces that are no repetition are characters.
        """
        character = self._pattern[self._at]
        if character in _REPEATS:
            self._at += 1
            return *_REPEATS[character], character
        match = _BRACES.match(self._pattern, self._at) if character == "{" else None
        if match is None:
            return None
        self._at = match.end()
        digits = (match["low"], match["high"] or match["low"])
        low, high = (int(number) if len(number) < 9 else _MAX_REPEAT + 1 for number in digits)
        if match["open"] is not None:
            high = -1
        if low > _MAX_REPEAT or high > _MAX_REPEAT or 0 <= high < low:
            raise InvalidRegex("invalid repeat count", match[0])
        return low, high, f"{{{low},{'' if high < 0 else high}}}"

    def _repeat(self, bounds: tuple[int, int, str], start: int, last_repeat: int | None) -> None:
        low, high, spelling = bounds
        lazy = self._flags.lazy
        if self._pattern.startswith("?", self._at):
            self._at += 1
            lazy = not lazy
        if last_repeat is not None:
            raise InvalidRegex("invalid nested repetition operator", self._pattern[last_repeat : self._at])
        parts = self._frames[-1].parts
        if not parts:
            raise InvalidRegex("missing argument to repetition operator", self._pattern[start : self._at])
        part = parts.pop()
        copies, size = part.copies, part.size + (2 if spelling == "*" else 1)
        if spelling.startswith("{"):
            count = low if high < 0 else high
            copies = max(count, count * copies) if count else (0 if high == 0 else copies)
            size = max(1, count * part.size + (1 if high < 0 else high - low))
            if copies > _MAX_REPEAT and max(low, high) >= 2:
                raise InvalidRegex("invalid repeat count", self._pattern[start : self._at])
        text = f"{part.text if part.single else f'(?:{part.text})'}{spelling}{'?' if lazy else ''}"
        self._push(self._limited(_Node(text, part.height + 1, size, copies, single=False)))

    # Escapes

    def _backslash(self) -> None:
        pair = self._pattern[self._at : self._at + 2]
        anchor = {
            r"\A": r"\A",
            r"\b": self._dialect.boundary,
            r"\B": self._dialect.no_boundary,
            r"\z": self._dialect.end,
        }.get(pair)
        if anchor is not None:
            self._at += 2
            self._push(_Node(anchor, single=False))
        elif pair == r"\Q":
            literal, _, _ = self._pattern[self._at + 2 :].partition(r"\E")
            self._at = min(self._at + len(literal) + 4, len(self._pattern))
            for character in literal:
                self._literal(ord(character))
        elif (members := self._escaped_class()) is not None:
            self._push(_Node(self._spell(members, negated=False)))
        else:
            self._literal(self._escape())

    def _escape(self) -> int:
        """Read an escaped character."""
        start, text = self._at, self._pattern
        if start + 1 >= len(text):
            raise InvalidRegex("trailing backslash at end of expression", "")
        character = text[start + 1]
        self._at = start + 2
        if character in _C_ESCAPES:
            return _C_ESCAPES[character]
        if octal := _OCTAL.match(text, start + 1):
            self._at = octal.end()
            return int(octal[0], 8)
        if character == "x":
            return self._hex(start)
        if character.isascii() and not character.isalnum():
            return ord(character)
        raise InvalidRegex("invalid escape sequence", text[start : self._at])

    def _hex(self, start: int) -> int:
        r"""Read what follows \x: two digits, or some in braces."""
        text = self._pattern
        if text.startswith("{", self._at):
            self._at += 1
            value = digits = 0
            while self._at < len(text):
                character = text[self._at]
                self._at += 1
                if character == "}" and digits:
                    return value
                if character not in _HEX_DIGITS:
                    break
                value, digits = value * 16 + int(character, 16), digits + 1
                if value > _MAX_RUNE:
                    break
        else:
            pair = text[self._at : self._at + 2]
            self._at += len(pair)
            if len(pair) == 2 and set(pair) <= _HEX_DIGITS:
                return int(pair, 16)
        raise InvalidRegex("invalid escape sequence", text[start : self._at])

    # Classes

    def _class(self) -> None:
        start = self._at
        self._at += 1
        negated = self._pattern.startswith("^", self._at)
        self._at += negated
        members: list[str] = []
        first = True
        while first or not self._pattern.startswith("]", self._at):
            first = False
            members.append(self._member(start))
        self._at += 1
        self._push(_Node(self._spell("".join(members), negated=negated)))

    def _spell(self, members: str, *, negated: bool) -> str:
        if not members:
            return f"[{_ALL}]" if negated else _NOTHING
        spelled = f"[{'^' if negated else ''}{members}]"
        return f"(?i:{spelled})" if self._flags.fold else spelled

    def _member(self, class_start: int) -> str:
        """Read a named class, an escaped class, a character or a range of the class."""
        if (named := self._named_class()) is not None:
            return named
        if (escaped := self._escaped_class()) is not None:
            return escaped
        start = self._at
        low = high = self._class_character(class_start)
        rest = self._pattern[self._at : self._at + 2]
        if len(rest) == 2 and rest[0] == "-" and rest[1] != "]":
            self._at += 1
            high = self._class_character(class_start)
            if high < low:
                raise InvalidRegex("invalid character class range", self._pattern[start : self._at])
        return _spelled([(low, high)])

    def _class_character(self, class_start: int) -> int:
        if self._at >= len(self._pattern):
            raise InvalidRegex("missing closing ]", self._pattern[class_start:])
        if self._pattern[self._at] == "\\":
            return self._escape()
        self._at += 1
        return ord(self._pattern[self._at - 1])

    def _named_class(self) -> str | None:
        """Read [:alpha:] or [:^alpha:]."""
        end = self._pattern.find(":]", self._at + 2) if self._pattern.startswith("[:", self._at) else -1
        if end < 0:
            return None
        name = self._pattern[self._at + 2 : end]
        ranges = _POSIX.get(name.removeprefix("^"))
        if ranges is None:
            raise InvalidRegex("invalid character class range", self._pattern[self._at : end + 2])
        self._at = end + 2
        return self._group(ranges, negated=name.startswith("^"))

    def _escaped_class(self) -> str | None:
        r"""Read \d and the like, \pN or \p{Greek}."""
        pair = self._pattern[self._at : self._at + 2]
        letter = pair[1:] if pair.startswith("\\") else ""
        if letter.lower() in _PERL and letter:
            self._at += 2
            return self._group(_PERL[letter.lower()], negated=letter.isupper())
        return self._unicode_class() if letter in {"p", "P"} else None

    def _group(self, ranges: _Ranges, *, negated: bool) -> str:
        if self._flags.fold:
            ranges = _folded(ranges)
        return _spelled(_negated(ranges) if negated else ranges)

    def _unicode_class(self) -> str | None:
        start, text = self._at, self._pattern
        end = start + 3
        name = text[start + 2 : end]
        if name == "{":
            end = text.find("}", start) + 1
            if not end:
                raise InvalidRegex("invalid character class range", text[start:])
            name = text[start + 3 : end - 1]
        negated = (text[start + 1] == "P") != name.startswith("^")
        canonical = _canonical(name.removeprefix("^"))
        if canonical == "Any":
            spelled: str | None = "" if negated else _ALL
        elif canonical == "Ascii":
            spelled = self._group([(0, 0x7F)], negated=negated)
        elif canonical == "Assigned":
            spelled = self._dialect.unicode("Cn", not negated)
        else:
            known = canonical in _CATEGORIES or canonical in _SCRIPTS
            spelled = self._dialect.unicode(canonical, negated) if known else None
        if spelled is None:
            raise InvalidRegex("invalid character class range", text[start:end])
        self._at = end
        return spelled


def _canonical(name: str) -> str:
    """A name of a category or script as Go looks it up: blanks, hyphens and underscores do not count, nor does case."""
    letters = re.sub("[ _-]", "", name)
    canonical = letters.title() if letters.isascii() else letters  # a digit or the like is in no name
    return "LC" if canonical == "Lc" else _ALIASES.get(canonical.lower(), canonical)


_REPEATS: Final = {"*": (0, -1), "+": (1, -1), "?": (0, 1)}
_BRACES: Final = re.compile(r"\{(?P<low>0|[1-9][0-9]*)(?:,(?:(?P<high>0|[1-9][0-9]*)|(?P<open>)))?\}")
_OCTAL: Final = re.compile("0[0-7]{0,2}|[1-7][0-7]{1,2}")
_HEX_DIGITS: Final = frozenset("0123456789abcdefABCDEF")
_C_ESCAPES: Final = {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_FLAG_NAMES: Final = {"i": "fold", "m": "lines", "s": "dot_all", "U": "lazy"}
