"""A verb of the control-plane program that is asked line by line: JSON in, JSON out."""

from __future__ import annotations

import json
import select
import subprocess
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self


class Oracle:
    """A running verb. Not for use by several threads. Without an answer in time it is begun anew."""

    def __init__(self, command: Sequence[str], patience: float) -> None:
        self._command = command
        self._patience = patience
        self._start()

    def _start(self) -> None:
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._questions, self._answers = self._process.stdin, self._process.stdout

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def _stop(self) -> None:
        self._process.kill()
        self._process.wait()
        self._questions.close()
        self._answers.close()

    def exchange(self, question: Mapping[str, Any]) -> dict[str, Any] | None:
        """Give the answer to a question, None if there is none within `patience` seconds."""
        self._questions.write(json.dumps(question).encode() + b"\n")
        line = b""
        while not line.endswith(b"\n"):
            if not select.select([self._answers], [], [], self._patience)[0]:
                self._stop()
                self._start()
                return None
            piece = self._answers.read(1 << 20)
            if not piece:
                raise RuntimeError(
                    f"the oracle ended (exit code {self._process.wait()}) at {question.get('id', question)}"
                )
            line += piece
        answer: dict[str, Any] = json.loads(line)
        return answer
