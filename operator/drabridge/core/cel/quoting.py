"""Text between double quotes as Go's %q prints it: upstream's error texts quote what they refuse."""

from typing import Final

_NAMED: Final = {
    "\a": r"\a",
    "\b": r"\b",
    "\f": r"\f",
    "\n": r"\n",
    "\r": r"\r",
    "\t": r"\t",
    "\v": r"\v",
    '"': r"\"",
    "\\": r"\\",
}


def quote(text: str) -> str:
    """The text, quoted; what cannot be printed is escaped."""
    return f'"{"".join(map(_character, text))}"'


def _character(character: str) -> str:
    if character in _NAMED:
        return _NAMED[character]
    if character.isprintable():
        return character
    code = ord(character)
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
