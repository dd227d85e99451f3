"""The tree of our exceptions. Each class says what the one who catches it should do.

DrabridgeError
├── InvalidInput        the user must change something; carries object, path, problem and cure
├── Missing             the object is not there (404); decide whether that is fine
├── Conflict            somebody else wrote first (409): read again, decide again
│   └── AlreadyExists   the name is taken: look whose object it is, then decide again
├── Refused             the API server says no, and will until something changes (400, 403, 422): report it
├── Unavailable         try later, with back-off (429, 5xx, no connection)
├── NotLeader           the Lease may belong to somebody else by now: write nothing more
└── Bug                 we were wrong: stop this piece of work and ask for a report
"""

from __future__ import annotations

_SHOWN = 120
"""Characters of a foreign value that a message shows: enough to recognise it, too few to fill an event."""

_PART = 400
"""Characters of one part of a message. An Event's message may have 1024, and has three such parts at most."""


class DrabridgeError(Exception):
    """Everything that drabridge raises on purpose."""


class InvalidInput(DrabridgeError):
    """Something a user wrote is broken, and only a user can repair it.

    `object` is kind and name ("Pod default/web"), `path` the field ("spec.containers[0].name", "" for the whole
    object), `problem` what is wrong with it, `cure` what to do.
    """

    def __init__(self, obj: str, path: str, problem: str, cure: str) -> None:
        super().__init__(obj, path, problem, cure)
        self.object = obj
        self.path = path
        self.problem = problem
        self.cure = cure

    def __str__(self) -> str:
        where = f"{self.object}: {self.path}" if self.path else self.object
        return f"{_line(where)}: {_line(self.problem)}; {_line(self.cure)}"


class Missing(DrabridgeError):
    """The object is not there (HTTP 404)."""


class Conflict(DrabridgeError):
    """Somebody wrote first (HTTP 409): read again and decide again, do not repeat the write."""


class AlreadyExists(Conflict):
    """An object of this name is there already (HTTP 409, reason AlreadyExists). It may be somebody else's."""


class Refused(DrabridgeError):
    """The API server says no, and will say so again until something in the cluster changes.

    `status` is the HTTP code, `reason` and `message` are those of the API server's metav1.Status.
    """

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(status, reason, message)
        self.status = status
        self.reason = reason
        self.message = message

    def __str__(self) -> str:
        return f"refused by the API server ({self.status} {self.reason}): {_line(self.message)}"


class Unavailable(DrabridgeError):
    """Try later, with back-off. `retry_after` is what the server asked for, in seconds; None if it did not say."""

    def __init__(self, problem: str, retry_after: float | None = None) -> None:
        super().__init__(problem, retry_after)
        self.problem = problem
        self.retry_after = retry_after

    def __str__(self) -> str:
        return _line(self.problem)


class NotLeader(DrabridgeError):
    """The Lease may have passed to another replica: write nothing, and wait to be elected again."""


class Bug(DrabridgeError):
    """A state that drabridge believed to be impossible."""

    def __str__(self) -> str:
        return f"{_line(super().__str__())} (this is a bug in drabridge, please report it)"


def quoted(value: object) -> str:
    """Show a foreign value in a message: quoted if text, on one line, ASCII, and cut if it is long."""
    if isinstance(value, str) and len(value) > _SHOWN:
        return f"{value[:_SHOWN]!a}... ({len(value)} characters)"
    text = ascii(value)
    return text if len(text) <= 2 * _SHOWN else text[:_SHOWN] + "..."


def _line(text: str) -> str:
    line = "".join(char if char.isprintable() else " " for char in text[: _PART + 1])
    return line if len(line) <= _PART else line[: _PART - 3] + "..."
