"""An object on its way from extended resources to claims: what changes in its text, and what is said of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from drabridge.core.convert import forward, tree, versions
from drabridge.core.convert.change import PodChange
from drabridge.core.convert.findings import Outcome
from drabridge.core.convert.forward import Remark
from drabridge.core.convert.layout import Edit, Layout
from drabridge.core.convert.piece import TEMPLATE_KIND, Step, at
from drabridge.core.convert.podspecs import NO_CLAIMS, POD_SPECS, elsewhere, misshapen, pod_specs
from drabridge.core.convert.shape import Shape, Template, template
from drabridge.core.convert.tree import Node, Path
from drabridge.core.podview import DEFAULT_SCHEDULER, MIRROR
from drabridge.core.reasons import Reason
from drabridge.core.rewrite import OPT_OUT

_RAY: Final = "ray.io"


class Forward(Step):
    """An object on its way from extended resources to claims."""

    def decide(self) -> bool:
        """Find out which Pod templates become what, and say what stays."""
        serving = self.run.conversion.serving
        self.wanted: dict[Path, forward.Wanted] = {}
        known = POD_SPECS.get((self.object.group, self.object.kind))
        for path in pod_specs(self.object.value):
            verdict = forward.decide(at(self.object.value, path), serving, certain=path == known)
            for remark in verdict.left:
                self.say(Outcome.LEFT, remark, path)
            if verdict.wanted and (objection := self._objection_of_pod(path)):
                self.say(Outcome.LEFT, objection, path)
            elif verdict.wanted:
                self.wanted[path] = verdict.wanted
        if odd := misshapen((self.object.group, self.object.kind), self.object.value):
            self.say(Outcome.LEFT, Remark(Reason.INVALID_POD, odd[1]), odd[0])
        for each in elsewhere(self.object.value, serving.serves, (self.object.group, self.object.kind)):
            self.say(Outcome.LEFT, Remark(each.reason, each.detail), each.path)
        if self.wanted and (objection := self._objection()):
            self.say(Outcome.LEFT, objection, next(iter(self.wanted)))
            return False
        self._plan()
        return bool(self.wanted)

    def _objection_of_pod(self, path: Path) -> Remark | None:
        """Why a Pod is to be left alone by what the metadata beside its PodSpec say, as admission reads them."""
        metadata = at(self.object.value, path[:-1]).get("metadata") if path[-1:] == ("spec",) else None
        annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
        said = annotations if isinstance(annotations, dict) else {}
        if MIRROR in said:
            return Remark(Reason.MIRROR_POD, "it mirrors a static Pod")
        if str(said.get(OPT_OUT, "")).lower() == "false":
            return Remark(Reason.OPTED_OUT, f"the Pod's annotation {OPT_OUT} is false")
        return None

    def _objection(self) -> Remark | None:
        """Why no Pod template of this object can use claims."""
        if why := NO_CLAIMS.get((self.object.group, self.object.kind)):
            return Remark(Reason.CANNOT_EXPRESS_CLAIMS, why)
        if self.object.kind.startswith("Cluster") and self.object.group and not self.namespace():
            return Remark(Reason.CLUSTER_SCOPED, f"{self.object.kind} has no namespace, and its Pods get one elsewhere")
        return None

    def _plan(self) -> None:
        namespace = self.namespace()
        self.planned: dict[tuple[str, str], Template] = {}
        changes: dict[Path, PodChange] = {}
        for path, each in self.wanted.items():
            made = template(each.shape, each.claim, namespace, self._tolerated(path, each.shape))
            made = self._named(made, namespace)
            self.planned[namespace, made.name] = made
            dropped = at(self.object.value, path).get("runtimeClassName") == self.run.conversion.runtime_class
            fields = frozenset({"runtimeClassName"}) if dropped and self.run.conversion.runtime_class else frozenset()
            changes[path] = replace(each.change(made.name), drop_fields=fields)
        self.changes = changes

    def _tolerated(self, path: Path, shape: Shape) -> frozenset[str]:
        """The names whose toleration is there already, looking like ours, in flow style."""
        node = tree.followed(tree.find(self.piece.root, (*self.object.path, *path, "tolerations")))
        if not isinstance(node, tree.Sequence) or not node.flow:
            return frozenset()
        present = at(self.object.value, path)["tolerations"]
        return frozenset(name for each in shape.counts for name in each if forward.toleration(name) in present)

    def done(self) -> None:
        """Say what has changed, and add the templates."""
        for path, each in self.wanted.items():
            change = self.changes[path]
            name = change.entries[0]["resourceClaimTemplateName"]
            self.say(Outcome.CHANGED, Remark(Reason.CONVERTED, f"{each.asked} by {TEMPLATE_KIND} {name}"), path)
            for toleration in each.tolerations:
                self.say(
                    Outcome.NOTE,
                    Remark(Reason.TOLERATION_ADDED, f"toleration of {toleration['key']}:NoSchedule added"),
                    path,
                )
            for note in self._notes(path, each):
                self.say(Outcome.NOTE, note, path)
            self.say_anchors(path, change)
        for key, made in self.planned.items():
            self._add(key, made)

    def _notes(self, path: Path, wanted: forward.Wanted) -> Iterator[Remark]:
        yield from wanted.notes
        spec = self.object.value.get("spec")
        scheduler = spec.get("schedulerName") if isinstance(spec, dict) and path != ("spec",) else None
        if isinstance(scheduler, str) and scheduler not in ("", DEFAULT_SCHEDULER):
            yield Remark(Reason.SCHEDULER, f"spec.schedulerName of the {self.object.kind} is {scheduler}")
        if not self._ray_counts(path):
            yield Remark(Reason.DEVICES_COUNTED, "rayStartParams has no num-gpus or resources")

    def _ray_counts(self, path: Path) -> bool:
        """Whether Ray will know its devices: by the limits, which go, unless rayStartParams of the group say it."""
        group = at(self.object.value, path[:-2]) if path[-2:] == ("template", "spec") else None
        said = group.get("rayStartParams") if isinstance(group, dict) else None
        if self.object.group != _RAY and not isinstance(said, dict):
            return True
        return isinstance(said, dict) and bool({"num-gpus", "resources"} & set(said))

    def _named(self, made: Template, namespace: str) -> Template:
        """Give it a name under which the files have nothing else."""
        base, count = made.name, 1
        while True:
            key = (namespace, made.name)
            ours = self.planned.get(key) or self.run.collected.get(key)
            there = self.run.present.get(key) or self.run.conversion.templates.get(key) or (ours.body if ours else None)
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


class Upgrade(Step):
    """An object of resource.k8s.io on its way to v1."""

    def decide(self) -> bool:
        """Find out whether it is of a version that can be written as v1."""
        version = self.object.api_version
        if version not in (versions.V1, *versions.FROM):
            self.say(Outcome.LEFT, Remark(Reason.API_VERSION_LEFT, f"it is {version}", ("apiVersion",)))
        return version in versions.FROM

    def edits(self, layout: Layout, root: Node, *, write_out: bool) -> list[Edit]:  # noqa: ARG002 - nothing is shared
        """The changes as edits of the piece's text. Raises Unsafe."""
        return versions.upgrade_edits(layout, root, self.object.path, self.object.value)

    def after(self, value: Any) -> Any:
        """What the document means with the object as v1."""
        return versions.replaced(value, self.object.path, versions.upgraded(self.object.value))

    def done(self) -> None:
        """Say that it is v1 now."""
        self.say(Outcome.CHANGED, Remark(Reason.UPGRADED, f"{self.object.api_version} is v1 now", ("apiVersion",)))

    def failed(self) -> None:
        """Say that it could not be done."""
        self.say(Outcome.LEFT, Remark(Reason.EDIT_UNSAFE, "it cannot be written as v1 in place", ("apiVersion",)))
