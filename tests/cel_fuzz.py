"""Our CEL against upstream's over random expressions: where do they differ? `make fuzz` prints a report as JSON.

A difference is a different outcome: match, no match, compile error, run-time error. Costs and error texts are compared
as well and reported beside it. Whatever Go's order of maps decides is none: upstream is asked again, and any of its
answers is good. Differences are made as small as they get before they are shown.

The cases come in slices, each from a seed of its own: `--seed N --count 5000` asks once more about the slice N.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from cel_engine import ask, ask_slowly
from cel_grammar import Case, cases, tokens
from drabridge.core.cel.plan import LIMIT_EXCEEDED
from upstream.build import binary
from upstream.cel import PATIENCE_SECONDS, STORED, Answer, Oracle, Question

REAL: Sequence[dict[str, Any]] = json.loads((Path(__file__).parent / "data" / "cel_corpus.json").read_text())
ASKED_AGAIN = 40
COST_TOLERANCE = 0.1
"""Of upstream's cost. Less than a few units is not worth speaking of."""
COST_UNITS = 2
SLOW_SECONDS = 1.0
EXAMPLES = 3
SLICE = 5_000
ATTEMPTS = 600
MINIMIZING_SECONDS = 20
"""How often a difference is asked about while it is made smaller, and for how long."""


@dataclass(frozen=True, slots=True)
class Difference:
    """What kind of difference: two that look alike have the same `kind`."""

    kind: str
    question: Question
    theirs: Answer
    ours: Answer

    def json(self) -> dict[str, Any]:
        return {
            "expression": self.question.expression,
            "driver": self.question.driver,
            "device": self.question.device,
            **({} if self.question.environment == STORED else self.question.environment.json()),
            "theirs": _shown(self.theirs),
            "ours": _shown(self.ours),
        }


@dataclass(slots=True)
class Findings:
    """The sums of a run, which can be added up."""

    count: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    order_of_maps: int = 0
    costs: Counter[str] = field(default_factory=Counter)
    texts: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    wordings: list[dict[str, Any]] = field(default_factory=list)
    slowest: tuple[float, str] = (0.0, "")

    def add(self, other: Findings) -> None:
        """Take over what another run found."""
        self.count += other.count
        self.order_of_maps += other.order_of_maps
        for mine, theirs in (
            (self.outcomes, other.outcomes),
            (self.costs, other.costs),
            (self.texts, other.texts),
            (self.kinds, other.kinds),
        ):
            mine.update(theirs)
        self.wordings.extend(other.wordings)
        for kind, examples in other.examples.items():
            self.examples.setdefault(kind, []).extend(examples)
        self.slowest = max(self.slowest, other.slowest)

    def json(self) -> dict[str, Any]:
        return {
            "count": self.count,
            "outcomes": dict(self.outcomes.most_common()),
            "decidedByOrderOfMaps": self.order_of_maps,
            "costs": dict(self.costs),
            "texts": dict(self.texts),
            "differentTexts": self.wordings[: 10 * EXAMPLES],
            "slowest": {"seconds": round(self.slowest[0], 3), "expression": self.slowest[1][:300]},
            "kinds": [
                {"kind": kind, "count": count, "examples": self.examples[kind][:EXAMPLES]}
                for kind, count in self.kinds.most_common()
            ],
        }


class TooLate(BaseException):
    """Nothing between may take this for an error of its own."""


def answered(question: Question) -> tuple[Answer, float]:
    """Ours, and the CPU seconds it took. No answer in time is an answer, too."""

    def too_late(*_: object) -> None:
        raise TooLate

    before = signal.signal(signal.SIGVTALRM, too_late)
    signal.setitimer(signal.ITIMER_VIRTUAL, PATIENCE_SECONDS)
    began = time.process_time()
    try:
        answer = ask(question)
    except TooLate:
        answer = Answer(None, f"no answer within {PATIENCE_SECONDS} s of CPU time", "hang")
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    return answer, time.process_time() - began


class Comparison:
    """Asks both, and keeps the sums."""

    def __init__(self, oracle: Oracle) -> None:
        self.findings = Findings()
        self._oracle = oracle

    def compare(self, number: int, case: Case) -> None:
        """Ask both about one case."""
        question = Question(str(number), case.expression, case.driver, case.device, case.environment)
        ours, took = answered(question)
        theirs = self._oracle.ask(question)
        findings = self.findings
        findings.count += 1
        findings.outcomes[theirs.outcome] += 1
        findings.slowest = max(findings.slowest, (took, case.expression))
        if took > SLOW_SECONDS:
            self._found(Difference("slow", question, theirs, ours))
        elif not _same(slowly := ask_slowly(question), ours):
            self._found(Difference("compiled -> walked", question, ours, slowly))
        if kind := difference(theirs, ours):
            if "hang" not in kind and self._also_said(question, lambda again: not difference(again, ours)):
                findings.order_of_maps += 1
                return
            self._found(Difference(kind, question, theirs, ours))
            return
        findings.texts[(text := _compare_texts(theirs, ours))] += 1
        if text.startswith("differ"):
            findings.wordings.append(Difference(text, question, theirs, ours).json())
        findings.costs[self._compare_costs(question, theirs, ours)] += 1

    def _compare_costs(self, question: Question, theirs: Answer, ours: Answer) -> str:
        if theirs.cost == ours.cost:
            return "equal"
        if theirs.cost is None or ours.cost is None:
            return "only theirs" if ours.cost is None else "only ours"
        if self._also_said(question, lambda again: again.cost == ours.cost):
            return "equal"
        off = abs(theirs.cost - ours.cost)
        if off <= max(COST_UNITS, theirs.cost * COST_TOLERANCE):
            return "within tolerance"
        kind = f"cost: {'more' if ours.cost > theirs.cost else 'less'} than theirs"
        self._found(Difference(kind, question, theirs, ours))
        return "beyond tolerance"

    def _also_said(self, question: Question, good: Callable[[Answer], bool]) -> bool:
        return any(good(self._oracle.ask(question)) for _ in range(ASKED_AGAIN))

    def _found(self, found: Difference) -> None:
        # What is shown decides the kind: the functions in the smallest expression that still differs in the same way.
        small = found
        if self.findings.kinds.total() < 500 and "hang" not in (found.theirs.stage, found.ours.stage):
            small = Minimizer(self._oracle, found).smallest()
        functions = sorted(set(re.findall(r"\w+(?=\()", small.question.expression)))
        kind = small.kind if small.theirs.error and small.ours.error else f"{small.kind}[{' '.join(functions)}]"
        self.findings.kinds[kind] += 1
        self.findings.examples.setdefault(kind, []).append(small.json())


def _same(walked: Answer, compiled: Answer) -> bool:
    """Whether plan and function agree; the function stops at the limit itself, the plan behind what went beyond."""
    if LIMIT_EXCEEDED in (walked.error, compiled.error):
        return walked.error == compiled.error
    return walked == compiled


def difference(theirs: Answer, ours: Answer) -> str | None:
    """Say how the outcomes differ, None if they do not."""
    if theirs.outcome == "hang":
        return None if ours.outcome != "hang" else "both hang"
    if theirs.outcome == ours.outcome:
        return None
    if theirs.error.startswith("panic: ") and ours.outcome not in ("hang", "crash"):
        return None
    said = " / ".join(_normal(each.error) for each in (theirs, ours) if each.error)
    return f"{theirs.outcome} -> {ours.outcome}: {said}"


class Minimizer:
    """Takes pieces away from expression and device for as long as the difference stays of the same kind."""

    def __init__(self, oracle: Oracle, found: Difference) -> None:
        self._oracle = oracle
        self._best = found
        self._left = ATTEMPTS
        self._end = time.monotonic() + MINIMIZING_SECONDS

    def smallest(self) -> Difference:
        """Give the smallest difference found."""
        while self._shorter() or self._device_shorter():
            pass
        return self._best

    def _shorter(self) -> bool:
        pieces = tokens(self._best.question.expression)
        for candidate in _without_some(pieces):
            if self._same(replace(self._best.question, expression="".join(candidate))):
                return True
        return False

    def _device_shorter(self) -> bool:
        question = self._best.question
        for section, values in question.device.items():
            if not isinstance(values, dict):
                continue
            for name in values:
                rest = {each: value for each, value in values.items() if each != name}
                if self._same(replace(question, device=question.device | {section: rest})):
                    return True
        return False

    def _same(self, question: Question) -> bool:
        self._left -= 1
        if self._left <= 0 or time.monotonic() > self._end:
            return False
        ours, took = answered(question)
        theirs = self._oracle.ask(question)
        if self._kind(question, theirs, ours, took) != self._best.kind:
            return False
        self._best = Difference(self._best.kind, question, theirs, ours)
        return True

    def _kind(self, question: Question, theirs: Answer, ours: Answer, took: float) -> str | None:
        if self._best.kind == "slow":
            return "slow" if took > SLOW_SECONDS else None
        if self._best.kind == "compiled -> walked":
            return self._best.kind if not _same(ask_slowly(question), ours) else None
        if self._best.kind.startswith("cost: "):
            if theirs.outcome != ours.outcome or theirs.cost is None or ours.cost is None or theirs.cost == ours.cost:
                return None
            return f"cost: {'more' if ours.cost > theirs.cost else 'less'} than theirs"
        return difference(theirs, ours)


def _without_some(pieces: list[str]) -> Iterator[list[str]]:
    """Shorter expressions: without a stretch, or with a bracketed part instead of the whole, the shortest first."""
    pairs = list(_brackets(pieces))
    for opened, closed in sorted(pairs, key=lambda pair: pair[0] - pair[1]):
        if closed - opened < len(pieces) - 1:
            yield pieces[opened : closed + 1]
        yield pieces[opened + 1 : closed]
        yield [*pieces[:opened], *pieces[closed + 1 :]]
        yield [*pieces[:opened], *pieces[opened + 1 : closed], *pieces[closed + 1 :]]
    length = len(pieces) // 2
    while length:
        for start in range(0, len(pieces) - length + 1, max(1, length // 2)):
            yield [*pieces[:start], *pieces[start + length :]]
        length //= 2
    for opened, closed in pairs:
        for simple in ("true", "1", "'a'", "[1]", "{}"):
            start = opened - 1 if opened and re.match(r"\w", pieces[opened - 1]) else opened
            if closed - start > 1:
                yield [*pieces[:start], simple, *pieces[closed + 1 :]]


def _brackets(pieces: list[str]) -> Iterator[tuple[int, int]]:
    open_ones: list[int] = []
    for at, piece in enumerate(pieces):
        if piece in ("(", "[", "{"):
            open_ones.append(at)
        elif piece in (")", "]", "}") and open_ones:
            yield open_ones.pop(), at


def _normal(text: str) -> str:
    first = re.split(r"\n|; ", text)[0].removeprefix("compilation failed: ")
    return re.sub(r"'[^']*'|\"[^\"]*\"|\d+", "_", first)[:100]


def _compare_texts(theirs: Answer, ours: Answer) -> str:
    if not theirs.error:
        return "none"
    if theirs.stage == "hang" or theirs.error.startswith("panic: "):
        return f"theirs is a {'hang' if theirs.stage == 'hang' else 'panic'}"
    if theirs.error == ours.error:
        return "equal"
    return "syntax error worded differently" if "Syntax error" in theirs.error else f"differ ({theirs.outcome})"


def _shown(answer: Answer) -> dict[str, Any]:
    shown = {"match": answer.match, "error": answer.error[:600], "stage": answer.stage, "cost": answer.cost}
    return {name: value for name, value in shown.items() if value not in (None, "")}


def run(program: Path, seed: int, count: int) -> Findings:
    """Compare so many cases of that seed."""
    gc.freeze()  # what a test session holds is not walked through meanwhile: that would count as time of ours
    try:
        with Oracle(program) as oracle:
            comparison = Comparison(oracle)
            for number, case in enumerate(itertools.islice(cases(seed, REAL), count)):
                comparison.compare(number, case)
    finally:
        gc.unfreeze()
    return comparison.findings


def main(arguments: Iterable[str] | None = None) -> int:
    """Run it from the command line; the exit code says whether there is any difference in outcome."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--jobs", type=int, default=2, help="processes that share the slices")
    options = parser.parse_args(list(arguments) if arguments is not None else None)
    program = binary()
    began = time.perf_counter()
    shares = [min(SLICE, options.count - start) for start in range(0, options.count, SLICE)]
    seeds = range(options.seed, options.seed + len(shares))
    total = Findings()
    with ProcessPoolExecutor(options.jobs) as pool:
        for seed, found in zip(seeds, pool.map(partial(run, program), seeds, shares), strict=True):
            total.add(found)
            sys.stderr.write(f"seed {seed}: {dict(found.kinds) or 'no difference'}\n")
    report = {
        "seeds": {"first": seeds[0], "last": seeds[-1], "casesOfEach": SLICE},
        "seconds": round(time.perf_counter() - began, 1),
        **total.json(),
    }
    json.dump(report, sys.stdout, indent=2, ensure_ascii=False)
    sys.stdout.write("\n")
    return 1 if any(not kind.startswith("cost: ") for kind in total.kinds) else 0


if __name__ == "__main__":
    sys.exit(main())
