r"""Regular expressions with the syntax and semantics of Go's regexp package, by the library that it is a port of: RE2.

RE2 parses, matches and refuses as Go does; its errors have other words. The pattern is written anew where the two
differ: Unicode classes have more names in Go, groups' names are stricter there, `\C` is refused, and so are patterns
that nest too deeply.

RE2 takes linear time, but the factor is the size of the pattern's program, which counted repetition makes large, while
upstream charges by the length of the pattern. So what one compilation or one evaluation does by regular expressions is
counted, and bounded: see `work`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import re2

from drabridge.core.cel.work import prepared, spend

_STEPS_PER_CHARACTER: Final = 64
"""Besides one for each instruction: texts that RE2 has seen before need less, and none needs more."""

_STEPS_PER_MATCH: Final = 400
_CHARACTERS_PER_STEP: Final = 4
"""Of the rest of a text that is searched once more."""

_STEPS_TO_COMPILE: Final = 10_000
_STEPS_PER_SIGN: Final = 200
_STEPS_PER_INSTRUCTION: Final = 80
_STEPS_IN_VAIN: Final = 4_000_000
"""Of a pattern that turns out to be too large."""

_MAX_HEIGHT: Final = 1000
_MAX_REPEAT: Final = 1000

_MAX_MEMORY: Final = 2 << 20
"""Bytes that RE2 may use for one pattern; it keeps 128 of them."""

_CACHE: Final = 64
_LONGEST_KEPT: Final = 64
"""Characters; an attribute has no more (DeviceAttributeMaxValueLength)."""

_MOST_KEPT: Final = 1024
_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class InvalidRegex(ValueError):
    """A pattern that Go refuses. The text is Go's."""

    def __init__(self, fault: str, excerpt: str) -> None:
        super().__init__(f"error parsing regexp: {fault}: `{excerpt}`")
        self.too_large = fault == _TOO_LARGE


@dataclass(frozen=True, slots=True)
class Pattern:
    """A compiled pattern. `instructions` is the size of RE2's program."""

    instructions: int
    _search: Callable[[bytes, int], tuple[int, int] | None]
    _answers: dict[str, tuple[bool, int]] = field(default_factory=dict, compare=False, repr=False)
    """Short texts that were asked for, whether they match, and their length in bytes. Devices of one model all have the
    same texts, and looking an answer up takes a tenth of the time of RE2's wrapper."""

    def matches(self, text: str) -> bool:
        """Whether the pattern matches somewhere in the text. Raises Overworked."""
        if (known := self._answers.get(text)) is not None:
            self._spend(known[1])
            return known[0]
        subject = self._subject(text)
        answer = self._search(subject, 0) is not None
        if len(text) <= _LONGEST_KEPT and len(self._answers) < _MOST_KEPT:
            self._answers[text] = answer, len(subject)
        return answer

    def find(self, text: str) -> str:
        """The leftmost match; empty if there is none. Raises Overworked."""
        subject = self._subject(text)
        span = self._search(subject, 0)
        return "" if span is None else _decoded(subject[span[0] : span[1]])

    def find_all(self, text: str, limit: int = -1) -> list[str]:
        """The matches that do not overlap, `limit` at most; all of them if that is negative. Raises Overworked.

        As in Go, an empty match right behind another match does not count.
        """
        subject = self._subject(text)
        found: list[str] = []
        at, previous = 0, -1
        while at <= len(subject) and (limit < 0 or len(found) < limit):
            spend(_STEPS_PER_MATCH + (len(subject) - at) // _CHARACTERS_PER_STEP)
            span = self._search(subject, at)
            if span is None:
                break
            start, end = span
            if end > start or start != previous:
                found.append(_decoded(subject[start:end]))
            at, previous = (end if end > at else at + 1), end
        return found

    def _subject(self, text: str) -> bytes:
        subject = _clean(text).encode()
        self._spend(len(subject))
        return subject

    def _spend(self, length: int) -> None:
        spend((length + 1) * (self.instructions + _STEPS_PER_CHARACTER))


def pattern(source: str) -> Pattern:
    """Compile a pattern within an evaluation, or give it once more. Raises InvalidRegex with Go's text, and Overworked.

    What is counted does not depend on what other evaluations have compiled before.
    """
    kept = prepared()
    known = kept.get(source)
    if known is None:
        spend(_STEPS_TO_COMPILE + _STEPS_PER_SIGN * len(source))
        try:
            known = compile_regex(source)
            spend(_STEPS_PER_INSTRUCTION * known.instructions)
        except InvalidRegex as error:
            known = error
            spend(_STEPS_IN_VAIN if error.too_large else 0)
        if len(kept) >= _CACHE:
            kept.clear()
        kept[source] = known
    if isinstance(known, InvalidRegex):
        raise known
    compiled: Pattern = known
    return compiled


@lru_cache(maxsize=_CACHE)
def compile_regex(pattern: str) -> Pattern:
    """Compile a pattern. Raises InvalidRegex with Go's text."""
    source = _clean(pattern)
    compiled = _translated(source)

    def search(text: bytes, start: int) -> tuple[int, int] | None:
        while True:
            found = compiled.search(text, start)
            if found is None:
                return None
            span: tuple[int, int] = found.span()
            if span[0] == len(text) or text[span[0]] & 0xC0 != 0x80:
                return span
            start = span[0] + 1  # an empty match within a character: RE2 looks at bytes there, Go does not

    return Pattern(compiled.programsize, search)


def _translated(source: str) -> Any:
    translated = _Translation(source).text()
    try:
        return _by_re2(translated, source)
    except InvalidRegex as error:
        if translated != source and not error.too_large:
            _by_re2(_Translation(source, masked=True).text(), source)  # the same fault, but its excerpt is the source's
        raise


def _by_re2(translated: str, source: str) -> Any:
    options = re2.Options()
    options.max_mem = _MAX_MEMORY
    options.log_errors = False
    options.never_capture = True
    try:
        return re2.compile(translated, options=options)
    except re2.error as error:
        raise _refused(_decoded(error.args[0]), source) from None


_TOO_LARGE: Final = "expression too large"
_FAULTS: Final = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "invalid perl operator": "invalid or unsupported Perl syntax",
}
"""Go's words for RE2's; other faults have the same words in both."""


def _refused(fault: str, source: str) -> InvalidRegex:
    """Make Go's error of RE2's."""
    words, _, excerpt = fault.partition(": ")
    if words == "trailing \\":
        return InvalidRegex("trailing backslash at end of expression", "")
    if words.startswith("pattern too large"):
        return InvalidRegex(_TOO_LARGE, source)
    if words in ("missing )", "unexpected )"):
        excerpt = source
    elif words == "missing ]":
        excerpt = source[-len(excerpt) :]
    return InvalidRegex(_FAULTS.get(words, words), excerpt)


def _clean(text: str) -> str:
    """The text with Go's mark of an error for surrogates, which UTF-8 cannot hold."""
    return text if text.isascii() else _LONE_SURROGATE.sub("\ufffd", text)


def _decoded(text: bytes) -> str:
    return text.decode("utf-8", "replace")


# What is written anew

_IN_CLASS: Final = r"\\[pP](?:\{[^}]*\}?|[^{])?|\\x\{[0-9A-Fa-f]*\}?|\\.?|\[:\^?[a-z]{0,8}:\]|[^\\\]]"
_TOKENS: Final = re.compile(
    rf"""
      (?P<quoted>\\Q.*?(?:\\E|\Z))
    | (?P<unicode>\\[pP](?:\{{[^}}]*\}}?|[^{{])?)
    | (?P<escape>\\x\{{[0-9A-Fa-f]*\}}?|\\.?)
    | (?P<class>\[\^?\]?(?:{_IN_CLASS})*\]?)
    | (?P<named>\(\?P?<(?=.)[^>]*>?)
    | (?P<flags>\(\?[imsU-]*\))
    | (?P<open>\((?:\?[imsU-]*:?)?)
    | (?P<close>\))
    | (?P<bar>\|)
    | (?P<repeat>(?:[*+?]|\{{(?:0|[1-9][0-9]*)(?:,(?:0|[1-9][0-9]*)?)?\}})\??)
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_UNICODE: Final = re.compile(rf"(?:{_IN_CLASS})", re.DOTALL)


@dataclass(slots=True)
class _Group:
    """A group that is open, and how high the trees of its alternatives are."""

    captures: bool = False
    alternatives: int = 1
    tallest: int = 1
    parts: int = 0
    highest: int = 1
    last: int = 1

    def add(self, height: int) -> None:
        """Take up another part of the last alternative."""
        self.parts += 1
        self.last = height
        self.highest = max(self.highest, height)
        if self.height() > _MAX_HEIGHT:
            raise _TooDeep

    def bar(self) -> None:
        """Begin another alternative."""
        self.tallest = self._alternative()
        self.alternatives += 1
        self.parts, self.highest = 0, 1

    def height(self) -> int:
        """How high the tree of the group is."""
        return self._alternative() + (self.alternatives > 1) + self.captures

    def _alternative(self) -> int:
        return max(self.tallest, self.highest + (self.parts > 1))


class _TooDeep(Exception):
    pass


@dataclass(slots=True)
class _Translation:
    """One walk over the tokens of a pattern. What is wrong with it in RE2's eyes, too, is left as it is.

    `masked`: Unicode classes become something simple that is as long as they are.
    """

    source: str
    masked: bool = False
    _groups: list[_Group] = field(default_factory=lambda: [_Group()])

    def text(self) -> str:
        """The pattern for RE2. Raises InvalidRegex for what only Go refuses."""
        try:
            return "".join(map(self._token, _TOKENS.finditer(self.source)))
        except _TooDeep:
            raise InvalidRegex("expression nests too deeply", self.source) from None

    def _token(self, token: re.Match[str]) -> str:
        text = token[0]
        match token.lastgroup:
            case "named":
                self._groups.append(_Group(captures=True))
                return self._named(token)
            case "open":
                self._groups.append(_Group(captures=text == "("))
            case "close" if len(self._groups) > 1:
                self._groups[-2].add(self._groups.pop().height())
            case "bar":
                self._groups[-1].bar()
            case "repeat":
                self._groups[-1].add(self._groups[-1].last + 1)
                self._groups[-1].parts -= 1
                self._counted(token)
            case "flags" | "close":
                pass
            case _:
                self._groups[-1].add(1)
                return self._part(token)
        return text

    def _part(self, token: re.Match[str]) -> str:
        text = token[0]
        match token.lastgroup:
            case "class":
                return _UNICODE.sub(lambda part: self._unicode(part, token.start()), text)
            case "unicode":
                return self._unicode(token, 0, alone=True)
            case "escape" if text == r"\C":
                raise self._first_fault(token.start(), "invalid escape sequence", text)
            case "escape" if text.startswith(r"\x{") and not text.endswith("}"):
                # RE2 says that it is no UTF-8 if nothing follows.
                excerpt = self.source[token.start() : token.end() + 1]
                raise self._first_fault(token.start(), "invalid escape sequence", excerpt)
        return text

    def _named(self, token: re.Match[str]) -> str:
        """Read the beginning of a group with a name, which nobody asks for."""
        text = token[0]
        if not text.endswith(">"):
            raise self._first_fault(token.start(), "invalid named capture", self.source[token.start() :])
        if not re.fullmatch("[0-9A-Za-z_]+", text[text.index("<") + 1 : -1]):
            raise self._first_fault(token.start(), "invalid named capture", text)
        return text if self.masked else "("

    def _counted(self, token: re.Match[str]) -> None:
        """Refuse a count before RE2 does, which looks for other faults first and takes nine digits for no count."""
        text = token[0].removesuffix("?")
        counts = [int(digits) if len(digits) < 9 else _MAX_REPEAT + 1 for digits in re.findall("[0-9]+", text)]
        if counts and (max(counts) > _MAX_REPEAT or counts[0] > counts[-1]):
            raise self._first_fault(token.start(), "invalid repeat count", text)

    def _unicode(self, token: re.Match[str], offset: int, *, alone: bool = False) -> str:
        text = token[0]
        if not text.startswith((r"\p", r"\P")) or (text[2:3] == "{") != text.endswith("}"):
            return text
        name = text[2:].removeprefix("{").removesuffix("}")
        negated = (text[1] == "P") != name.startswith("^")
        members = _members(_canonical(name.removeprefix("^")), negated=negated and not alone)
        if members is None:
            raise self._first_fault(offset + token.start(), "invalid character class range", text)
        if self.masked:
            return r"\pL".ljust(len(text), "a")
        return f"[{'^' if negated else ''}{members}]" if alone else members

    def _first_fault(self, at: int, fault: str, excerpt: str) -> InvalidRegex:
        """The error, unless there is another one before it."""
        try:
            _by_re2(_Translation(self.source[: at + 1], masked=True).text(), self.source)
        except InvalidRegex as earlier:
            if not any(end in str(earlier) for end in ("missing closing", "trailing backslash")):
                return earlier
        return InvalidRegex(fault, excerpt)


# Unicode classes

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

_ASSIGNED: Final = r"\p{L}\p{M}\p{N}\p{P}\p{S}\p{Z}\p{C}"


def _canonical(name: str) -> str:
    """A name of a category or script as Go looks it up: blanks, hyphens and underscores do not count, nor does case."""
    letters = re.sub("[ _-]", "", name)
    canonical = letters.title() if letters.isascii() else letters  # a digit or the like is in no name
    return "LC" if canonical == "Lc" else _ALIASES.get(canonical.lower(), canonical)


def _members(name: str, *, negated: bool) -> str | None:
    """What stands for a Unicode class within brackets in RE2; None if there is no such class."""
    match name:
        case "Ascii":
            return r"\x{80}-\x{10FFFF}" if negated else r"\x00-\x7F"
        case "LC":
            return r"\P{L}\p{Lm}\p{Lo}" if negated else r"\p{Lu}\p{Ll}\p{Lt}"
        case "Assigned" | "Cn":
            return _ASSIGNED if (name == "Cn") is negated else _unassigned()
        case _ if name == "Any" or name in _CATEGORIES or name in _SCRIPTS:
            return f"\\{'P' if negated else 'p'}{{{name}}}"
        case _:
            return None


@lru_cache(maxsize=1)
def _unassigned() -> str:
    """The ranges of characters without a category, by RE2's own tables."""
    everything = "".join(map(chr, (*range(0xD800), *range(0xE000, 0x110000))))
    runs = re2.compile(f"[^{_ASSIGNED}]+").finditer(everything)
    return "".join(f"\\x{{{ord(run[0][0]):x}}}-\\x{{{ord(run[0][-1]):x}}}" for run in runs)
