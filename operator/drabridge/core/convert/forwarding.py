"""An object on its way from extended resources to claims: what changes in its text, and what is said of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from drabridge.core.convert import forward, versions
from drabridge.core.convert.change import PodChange
from drabridge.core.convert.edits import Unsafe, applied
from drabridge.core.convert.findings import Outcome
from drabridge.core.convert.forward import Remark
from drabridge.core.convert.piece import TEMPLATE_KIND, Step, at
from drabridge.core.convert.podspecs import NO_CLAIMS, elsewhere, pod_specs
from drabridge.core.convert.shape import Template, template
from drabridge.core.convert.tree import Path
from drabridge.core.podview import DEFAULT_SCHEDULER
from drabridge.core.reasons import Reason

_RAY: Final = "ray.io"


class Forward(Step):
    """An object on its way from extended resources to claims."""

    def take(self) -> None:
        """Convert what can be, and say what cannot."""
        if self.object.group == versions.GROUP:
            self._upgrade()
            return
        serving = self.run.conversion.serving
        wanted: dict[Path, forward.Wanted] = {}
        for path in pod_specs(self.object.value):
            verdict = forward.decide(at(self.object.value, path), serving)
            for remark in verdict.left:
                self.say(Outcome.LEFT, remark, path)
            if verdict.wanted:
                wanted[path] = verdict.wanted
        if wanted and (objection := self._objection()):
            self.say(Outcome.LEFT, objection, next(iter(wanted)))
        elif wanted:
            self._convert(wanted)
        for each in elsewhere(self.object.value, serving.serves, (self.object.group, self.object.kind)):
            self.say(Outcome.LEFT, Remark(each.reason, each.detail), each.path)

    def _objection(self) -> Remark | None:
        """Why no Pod template of this object can use claims."""
        if why := NO_CLAIMS.get((self.object.group, self.object.kind)):
            return Remark(Reason.CANNOT_EXPRESS_CLAIMS, why)
        if self.object.kind.startswith("Cluster") and self.object.group and not self.namespace():
            return Remark(Reason.CLUSTER_SCOPED, f"{self.object.kind} has no namespace, and its Pods get one elsewhere")
        return None

    def _convert(self, wanted: Mapping[Path, forward.Wanted]) -> None:
        namespace = self.namespace()
        planned: dict[tuple[str, str], Template] = {}
        changes: dict[Path, PodChange] = {}
        for path, each in wanted.items():
            made = self._named(template(each.shape, each.claim, namespace), namespace, planned)
            planned[namespace, made.name] = made
            changes[path] = each.change(made.name)
        if not self.edit(changes):
            for path in wanted:
                detail = "the text cannot be changed there without changing what something else means"
                self.say(Outcome.LEFT, Remark(Reason.EDIT_UNSAFE, detail), path)
            return
        for path, each in wanted.items():
            name = changes[path].entries[0]["resourceClaimTemplateName"]
            self.say(Outcome.CHANGED, Remark(Reason.CONVERTED, f"{each.asked} by {TEMPLATE_KIND} {name}"), path)
            for toleration in each.tolerations:
                self.say(Outcome.NOTE, Remark(Reason.TOLERATION_ADDED, f"of {toleration['key']}:NoSchedule"), path)
            for note in self._notes(path, each):
                self.say(Outcome.NOTE, note, path)
        for key, made_template in planned.items():
            self._add(key, made_template)

    def _notes(self, path: Path, wanted: forward.Wanted) -> Iterator[Remark]:
        yield from wanted.notes
        spec = self.object.value.get("spec")
        scheduler = spec.get("schedulerName") if isinstance(spec, dict) and path != ("spec",) else None
        if isinstance(scheduler, str) and scheduler not in ("", DEFAULT_SCHEDULER):
            yield Remark(Reason.SCHEDULER, f"spec.schedulerName of the {self.object.kind} is {scheduler}")
        if self.object.group == _RAY and not self._ray_counts(path):
            yield Remark(Reason.DEVICES_COUNTED, "rayStartParams has no num-gpus or resources")

    def _ray_counts(self, path: Path) -> bool:
        """KubeRay tells Ray how many devices a group has by the limits, unless rayStartParams say it."""
        group = at(self.object.value, path[:-2]) if path[-2:] == ("template", "spec") else None
        said = group.get("rayStartParams") if isinstance(group, dict) else None
        return isinstance(said, dict) and bool({"num-gpus", "resources"} & set(said))

    def _named(self, made: Template, namespace: str, planned: Mapping[tuple[str, str], Template]) -> Template:
        """Give it a name under which the file has nothing else."""
        base, count = made.name, 1
        while True:
            key = (namespace, made.name)
            there = self.run.present.get(key) or (planned[key].body if key in planned else None)
            there = there or (self.run.collected[key].body if key in self.run.collected else None)
            if there is None or there.get("spec") == made.body["spec"]:
                return made
            count += 1
            made = made.renamed(f"{base}-{count}")

    def _add(self, key: tuple[str, str], made: Template) -> None:
        if key in self.run.present or key in self.run.collected:
            return
        if self.run.conversion.collect:
            self.run.collected[key] = made
        else:
            self.run.present[key] = made.body
            self.piece.before.append(made)
        self.say(Outcome.CHANGED, Remark(Reason.TEMPLATE_WRITTEN, f"{TEMPLATE_KIND} {made.name}"))

    def _upgrade(self) -> None:
        version = self.object.api_version
        if version == versions.V1:
            return
        if version not in versions.FROM:
            self.say(Outcome.LEFT, Remark(Reason.API_VERSION_LEFT, f"it is {version}", ("apiVersion",)))
            return
        root = self.piece.root
        value = at(self.piece.value, self.object.path)
        expected = versions.replaced(self.piece.value, self.object.path, versions.upgraded(value))
        try:
            if root is not None:
                made = versions.upgrade_edits(self.layout(), root, self.object.path, value)
                if self.accept(applied(self.piece.text, made), expected):
                    self.say(Outcome.CHANGED, Remark(Reason.UPGRADED, f"{version} is v1 now", ("apiVersion",)))
                    return
        except Unsafe:
            pass
        self.say(Outcome.LEFT, Remark(Reason.EDIT_UNSAFE, "it cannot be written as v1 in place", ("apiVersion",)))
