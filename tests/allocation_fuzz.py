"""Our allocator against upstream's over random scenarios: where do they differ? `make fuzz` prints a report as JSON.

Every scenario is answered by upstream, by ours as it is, by ours with one technique of the search switched off or only
that one on, without all bounds, with none (that must take upstream's steps), and by the plain model if it is small. A
difference is another outcome, an exception, no answer in time, or no decision where upstream comes to one. Texts that
depend on the order of Go's maps are none: upstream is asked again, and any of its answers is good. Differences are made
as small as they get before they are shown; they are written to files as well.
"""

from __future__ import annotations

import argparse
import copy
import dataclasses
import json
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

sys.path.insert(0, str(Path(__file__).parent))

import allocation_model
from allocation_answers import Outcome
from allocation_scenarios import Dice, scenario
from drabridge.core.allocation import scenario as ours
from drabridge.core.allocation.techniques import STEP_BUDGET, Techniques
from drabridge.core.allocation.upstream_faults import UpstreamFaults
from drabridge.core.quantity import Quantity
from upstream.allocator import TIMEOUT, Oracle
from upstream.build import binary

Scenario = dict[str, Any]
Answer = Mapping[str, Any]

UPSTREAM_SECONDS = 1
"""What upstream cannot decide in this time need not be decided by us, but is."""
PATIENCE_SECONDS = 30
SLOW_SECONDS = 2.0
UNDECIDED = "filter operation aborted"
ASKED_AGAIN = 40
MOST_MODEL_STEPS, MOST_PLAIN_STEPS = 200, 3_000
EXAMPLES = 3
ATTEMPTS, MINIMIZING_SECONDS = 2_000, 60
"""How often a difference is asked about while it is made smaller, and for how long."""
MINIMIZED = 5
"""So many differences of a kind."""

TECHNIQUES = tuple(each.name for each in dataclasses.fields(Techniques))
BOUNDS = tuple(name for name in TECHNIQUES if name.endswith("_bound"))
WAYS: Mapping[str, Techniques] = {
    "as it is": Techniques(),
    **{f"without {name}": dataclasses.replace(Techniques(), **{name: False}) for name in TECHNIQUES},
    **{f"only {name}": dataclasses.replace(Techniques.none(), **{name: True}) for name in TECHNIQUES},
    "without bounds": dataclasses.replace(Techniques(), **dict.fromkeys(BOUNDS, False)),
    "plainly": Techniques.none(),
}
SINGLE = tuple(name for name in WAYS if name not in ("as it is", "without bounds", "plainly"))
UPSTREAM, MODEL = "upstream", "model"


@dataclass(frozen=True, slots=True)
class Difference:
    """`way` answered otherwise than upstream. Two that look alike have the same `kind`."""

    kind: str
    way: str
    scenario: Scenario
    theirs: Answer
    given: Answer

    def text(self) -> str:
        said = [
            f"{name}: {json.dumps({key: each.get(key) for key in ('results', 'error', 'errorOnNodeOnly')})}"
            f" in {each.get('allocateOneInvocations')} steps"
            for name, each in ((UPSTREAM, self.theirs), (self.way, self.given))
        ]
        return "\n".join((f"{self.kind} ({self.scenario['id']})", *said)) + "\n"


@dataclass(slots=True)
class Findings:
    """The sums of a run, which can be added up."""

    count: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    themes: Counter[str] = field(default_factory=Counter)
    answered: Counter[str] = field(default_factory=Counter)
    """How many scenarios in which way."""
    only_ours: int = 0
    order_of_maps: int = 0
    steps: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[Scenario]] = field(default_factory=dict)
    slowest: tuple[float, str] = (0.0, "")
    most_steps: tuple[int, str] = (0, "")

    def add(self, other: Findings) -> None:
        """Take over what another run found."""
        self.count += other.count
        self.only_ours += other.only_ours
        self.order_of_maps += other.order_of_maps
        for name in ("outcomes", "themes", "answered", "steps", "kinds"):
            getattr(self, name).update(getattr(other, name))
        for kind, examples in other.examples.items():
            self.examples.setdefault(kind, []).extend(examples)
        self.slowest = max(self.slowest, other.slowest)
        self.most_steps = max(self.most_steps, other.most_steps)

    def json(self) -> dict[str, Any]:
        return {
            "count": self.count,
            "outcomes": dict(self.outcomes.most_common()),
            "themes": dict(self.themes.most_common()),
            "answered": dict(self.answered),
            "decidedByUsOnly": self.only_ours,
            "decidedByOrderOfMaps": self.order_of_maps,
            "steps": dict(self.steps),
            "mostSteps": {"steps": self.most_steps[0], "scenario": self.most_steps[1]},
            "slowest": {"seconds": round(self.slowest[0], 3), "scenario": self.slowest[1]},
            "kinds": [
                {"kind": kind, "count": count, "examples": self.examples.get(kind, [])[:EXAMPLES]}
                for kind, count in self.kinds.most_common()
            ],
        }


def answered(question: Scenario, way: str, *, budget: int | None = STEP_BUDGET) -> tuple[Answer, float]:
    """Ours, and the seconds it took. An exception is an answer, and none in time as well."""

    def too_late(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, too_late)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE_SECONDS)
    began = time.perf_counter()
    answer: Answer
    try:
        answer = ours.answer(question, techniques=WAYS[way], faults=UpstreamFaults.all(), budget=budget)
    except TimeoutError:
        answer = {"error": "hang"}
    except Exception as crash:
        where = traceback.extract_tb(crash.__traceback__)[-1]
        answer = {"error": f"crash: {type(crash).__name__}: {str(crash)[:200]} ({Path(where.filename).name})"}
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return answer, time.perf_counter() - began


def modelled(question: Scenario) -> Answer:
    """The plain model's answer."""
    try:
        return allocation_model.answer(question, most_steps=10 * MOST_MODEL_STEPS)
    except Exception as crash:
        return {"error": f"crash: {type(crash).__name__}: {str(crash)[:200]}"}


def difference(way: str, theirs: Answer, given: Answer) -> str | None:
    """Say how an answer differs from upstream's, None if it does not."""
    error = given.get("error") or ""
    if error == "hang" or error.startswith("crash: "):
        return f"{way}: {error}"
    undecided = error.startswith(UNDECIDED)
    if theirs["error"] == TIMEOUT:
        return None
    if undecided:
        # With techniques switched off, a search may well be too long.
        return f"{way}: undecided" if way == "as it is" else None
    wanted, got = Outcome.of(theirs), Outcome.of(given)
    if wanted != got:
        return f"{way}: {wanted.kind} -> {got.kind}{_which(wanted, got)}"
    steps = theirs["allocateOneInvocations"]
    if way in (MODEL, "plainly") and wanted.error is None and steps != given["allocateOneInvocations"]:
        return f"{way}: steps"
    return None


def _which(wanted: Outcome, got: Outcome) -> str:
    if wanted.kind != got.kind:
        return ""
    return " (text)" if wanted.error is not None else " (results)"


class Upstream(Protocol):
    """Who is right."""

    def ask(self, scenario: Mapping[str, Any], /) -> dict[str, Any]:
        """Answer a scenario."""


class Comparison:
    """Asks all of them, and keeps the sums."""

    def __init__(self, oracle: Upstream, directory: Path) -> None:
        self.findings = Findings()
        self._oracle = oracle
        self._directory = directory
        self._reported: Outcome | None = None
        """What was wrong already, so that other ways that say the same are not reported beside it."""

    def compare(self, question: Scenario, number: int) -> Answer:
        """Ask about one scenario. Gives upstream's answer."""
        theirs = self._oracle.ask(question)
        self._reported = None
        findings = self.findings
        findings.count += 1
        timed_out = theirs["error"] == TIMEOUT
        findings.outcomes["none in time" if timed_out else Outcome.of(theirs).kind] += 1
        findings.themes[question["tags"][0]] += 1
        steps = theirs.get("allocateOneInvocations") or 0
        given, took = answered(question, "as it is")
        findings.slowest = max(findings.slowest, (took, question["id"]))
        our_steps = given.get("allocateOneInvocations") or 0
        findings.most_steps = max(findings.most_steps, (our_steps, question["id"]))
        findings.steps["upstream"] += 0 if timed_out else steps
        findings.steps["ours"] += 0 if timed_out else our_steps
        findings.only_ours += timed_out and not (given.get("error") or "").startswith(UNDECIDED)
        if took > SLOW_SECONDS and not timed_out:
            self._found(Difference("slow", "as it is", question, theirs, given))
        self._check("as it is", question, theirs, given)
        if timed_out and not (given.get("error") or "").startswith(UNDECIDED):
            theirs = {**given, "variant": "ours"}  # then at least all our ways must agree
        # Bounds end most searches, and with them hide what memory and symmetry may do wrong.
        for way in (SINGLE[number % len(SINGLE)], "without bounds"):
            self._check(way, question, theirs, answered(question, way)[0])
        if not timed_out and steps <= MOST_PLAIN_STEPS:
            self._check("plainly", question, theirs, answered(question, "plainly", budget=None)[0])
        if not timed_out and steps <= MOST_MODEL_STEPS:
            self._check(MODEL, question, theirs, modelled(question))
        return theirs

    def _check(self, way: str, question: Scenario, theirs: Answer, given: Answer) -> None:
        self.findings.answered[way] += 1
        kind = difference(way, theirs, given)
        if kind is None or Outcome.of(given) == self._reported:
            return
        if kind.endswith("(text)") and any(
            not difference(way, self._oracle.ask(question), given) for _ in range(ASKED_AGAIN)
        ):
            self.findings.order_of_maps += 1
            return
        if Outcome.of(given) != Outcome.of(theirs):
            self._reported = Outcome.of(given)
        self._found(Difference(kind, way, question, theirs, given))

    def _found(self, found: Difference) -> None:
        findings = self.findings
        findings.kinds[found.kind] += 1
        if findings.kinds[found.kind] > MINIMIZED:
            return
        small = found if "hang" in found.kind or found.kind == "slow" else Minimizer(self._oracle, found).smallest()
        findings.examples.setdefault(found.kind, []).append(small.scenario)
        name = "".join(each if each.isalnum() else "-" for each in f"{found.kind[:60]}-{found.scenario['id']}")
        self._directory.mkdir(parents=True, exist_ok=True)
        (self._directory / f"{name}.json").write_text(json.dumps(small.scenario, indent=1) + "\n")
        (self._directory / f"{name}.txt").write_text(small.text())


KEPT = frozenset(
    {
        *("id", "node", "metadata", "name", "spec", "driver", "pool", "generation", "resourceSliceCount", "devices"),
        *("requests", "exactly", "firstAvailable", "deviceClassName", "allocationMode", "count", "expression", "cel"),
        *("key", "effect", "operator", "value", "default", "counterSet", "counters"),
    }
)
"""What is not taken away: without it, the difference would be another."""


class Minimizer:
    """Takes pieces away from a scenario for as long as the difference stays of the same kind."""

    def __init__(self, oracle: Upstream, found: Difference) -> None:
        self._oracle = oracle
        self._best = found
        self._left = ATTEMPTS
        self._end = time.monotonic() + MINIMIZING_SECONDS

    def smallest(self) -> Difference:
        """Give the smallest difference found."""
        while any(self._is_same(candidate) for candidate in smaller(self._best.scenario)):
            pass
        return self._best

    def _is_same(self, question: Scenario) -> bool:
        self._left -= 1
        if self._left <= 0 or time.monotonic() > self._end:
            return False
        way = self._best.way
        theirs = self._oracle.ask(question)
        if theirs["error"] == TIMEOUT or (theirs["error"] or "").startswith(("bad scenario", "panic")):
            return False
        given = modelled(question) if way == MODEL else answered(question, way, budget=_budget(way))[0]
        if difference(way, theirs, given) != self._best.kind:
            return False
        self._best = Difference(self._best.kind, way, question, theirs, given)
        return True


def _budget(way: str) -> int | None:
    return None if way == "plainly" else STEP_BUDGET


def smaller(question: Scenario) -> Iterator[Scenario]:
    """Scenarios with something taken away, the large pieces first."""
    paths = sorted(_removable(question, ()), key=len)
    for path in paths:
        candidate = copy.deepcopy(question)
        holder = _at(candidate, path[:-1])
        if path[-2:-1] == ("slices",):
            _uncount(candidate, holder[path[-1]])
        del holder[path[-1]]
        yield candidate
    for path, value in _numbers(question, ()):
        for less in {value // 2, value - 1} - {value}:
            if less >= 0:
                candidate = copy.deepcopy(question)
                _at(candidate, path[:-1])[path[-1]] = less
                yield candidate


def _uncount(question: Scenario, gone: Mapping[str, Any]) -> None:
    """A slice less in a pool, a slice less expected."""
    for each in question["slices"]:
        pool = each["spec"]["pool"]
        if (each["spec"]["driver"], pool["name"]) == (gone["spec"]["driver"], gone["spec"]["pool"]["name"]):
            pool["resourceSliceCount"] = max(0, pool.get("resourceSliceCount", 0) - 1)


def _removable(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            if name not in KEPT or path[-1:] in (("labels",), ("attributes",), ("capacity",), ("counters",)):
                yield (*path, name)
            yield from _removable(inner, (*path, name))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield (*path, index)
            yield from _removable(inner, (*path, index))


def _numbers(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], int]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        if isinstance(inner, int) and not isinstance(inner, bool):
            yield (*path, key), inner
        yield from _numbers(inner, (*path, key))


def _at(value: Any, path: Iterable[Any]) -> Any:
    for key in path:
        value = value[key]
    return value


def follow_up(question: Scenario, answer: Answer, dice: Dice) -> Scenario:
    """The same claims again, with what was given out in use; sometimes on another node."""
    following = copy.deepcopy(question)
    following["id"] += "+"
    dedicated = list(following.get("allocatedDevices") or ())
    shares = list(following.get("allocatedSharedDeviceIDs") or ())
    aggregate = dict(following.get("aggregatedCapacity") or {})
    for result in answer["results"]:
        for device in result["devices"].get("results") or ():
            id_ = f"{device['driver']}/{device['pool']}/{device['device']}"
            if device.get("adminAccess"):
                continue
            if "shareID" not in device:
                dedicated.append(id_)
                continue
            shares.append(f"{id_}/{question['id']}-{device['shareID']}")
            if device.get("consumedCapacity"):
                aggregate[id_] = _added(aggregate.get(id_, {}), device["consumedCapacity"])
    following |= {
        "allocatedDevices": dedicated,
        "allocatedSharedDeviceIDs": shares,
        "aggregatedCapacity": aggregate,
    }
    if dice.percent(30):
        following["node"] = {"metadata": {"name": "node-2", "labels": {"zone": "b"}}}
    return following


def _added(amounts: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, str]:
    names = (*amounts, *(name for name in more if name not in amounts))
    return {name: str(_quantity(amounts.get(name, "0")) + _quantity(more.get(name, "0"))) for name in names}


def _quantity(written: Any) -> Quantity:
    return Quantity.parse(str(written))


def run(
    seed: int, numbers: range, directory: Path, *, theme: str | None = None, progress: bool = False, until: float = 0
) -> Findings:
    """Compare these scenarios of that seed; past `until` (time.monotonic), no more are begun."""
    with Oracle(binary(), timeout=UPSTREAM_SECONDS) as oracle:
        comparison = Comparison(oracle, directory)
        for number in numbers:
            if until and time.monotonic() > until:
                break
            question = scenario(seed, number, theme)
            dice = Dice(question["id"])
            for _ in range(3):
                answer = comparison.compare(question, number)
                if not answer.get("results") or dice.percent(60):
                    break
                question = follow_up(question, answer, dice)
            if progress and number % 1000 == 999:
                sys.stderr.write(f"{number + 1} of seed {seed}\n")
    return comparison.findings


def main(arguments: Iterable[str] | None = None) -> int:
    """Run it from the command line; the exit code says whether there is any difference."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first scenario")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--theme", help="one only")
    parser.add_argument("--jobs", type=int, default=2, help="processes that share the scenarios")
    parser.add_argument("--seconds", type=float, default=0, help="begin no more scenarios after this time")
    parser.add_argument("--findings", type=Path, help="directory for the smallest scenarios that differ")
    options = parser.parse_args(list(arguments) if arguments is not None else None)
    directory = options.findings or Path(tempfile.mkdtemp(prefix="allocation-findings-"))
    binary()  # once, before several ask for it
    began = time.perf_counter()
    until = time.monotonic() + options.seconds if options.seconds else 0
    total = Findings()
    with ProcessPoolExecutor(options.jobs) as pool:
        shares = [
            range(options.first + job, options.first + options.count, options.jobs) for job in range(options.jobs)
        ]
        work: Callable[..., Any] = pool.submit
        for found in [
            work(run, options.seed, share, directory, theme=options.theme, progress=True, until=until)
            for share in shares
        ]:
            total.add(found.result())
    report = {"seed": options.seed, "seconds": round(time.perf_counter() - began, 1), **total.json()}
    json.dump(report, sys.stdout, indent=2, ensure_ascii=False)
    sys.stdout.write("\n")
    if total.kinds:
        sys.stderr.write(f"the smallest scenarios that differ are in {directory}\n")
    return 1 if total.kinds else 0


if __name__ == "__main__":
    sys.exit(main())
