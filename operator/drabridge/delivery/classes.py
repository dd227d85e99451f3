"""DeviceClasses that do not serve the name they declare: said on them. Lease holder only."""

from __future__ import annotations

import asyncio
import json

from drabridge.core.classmap import NAME_ANNOTATION, ClassView
from drabridge.core.cluster import ClusterView, Gate
from drabridge.core.reasons import Reason, with_cure
from drabridge.kube.caches import Caches
from drabridge.kube.clock import SYSTEM, Clock
from drabridge.kube.recorder import ObjectRef, Recorder

LOOK_EVERY = 5.0


class ClassNotices:
    """Looks whether classes or policies have changed every few seconds; it is cheap if not, and they seldom do."""

    def __init__(self, caches: Caches, recorder: Recorder, *, clock: Clock = SYSTEM) -> None:
        self._caches = caches
        self._recorder = recorder
        self._clock = clock

    async def run(self, stop: asyncio.Event) -> None:
        """Look until `stop` is set; a new Lease holder begins with everything."""
        told: tuple[int, int, Gate] | None = None
        while not stop.is_set():
            versions = (self._caches.classes.version, self._caches.policies.version, self._caches.gate)
            if versions != told:
                self._tell()
                told = versions
            await self._clock.pause(stop, LOOK_EVERY)

    def _tell(self) -> None:
        cluster = self._caches.cluster()
        for problem in cluster.classes.problems:
            note = f"metadata.annotations['{NAME_ANNOTATION}'] is {problem.name}: {problem.problem}"
            self._record(problem.device_class, Reason.NAME_INVALID, note)
        for name, classes in cluster.classes.collisions().items():
            if name not in cluster.policies:
                for loser in classes[1:]:
                    self._record(loser, Reason.NAME_COLLISION, f"{name} is served by DeviceClass {classes[0]}")

        for view in self._caches.classes:
            if view.lost_name is not None:
                self._record(view.name, Reason.NAME_LOST, *self._lost(view, cluster))

    def _lost(self, view: ClassView, cluster: ClusterView) -> tuple[str, str]:
        """What happened and the command that cures it, with a stand-in for a name that nobody kept."""
        policies = [name for name, policy in sorted(cluster.policies.items()) if policy.device_class == view.name]
        name = next(iter([*filter(None, (view.lost_name, view.annotated_name)), *policies]), "NAME")
        note = "spec.extendedResourceName was set and the API server dropped it"
        if cluster.gate is Gate.ON:
            patch = json.dumps({"spec": {"extendedResourceName": name}})
            return note, f"kubectl patch deviceclass {view.name} --type=merge -p '{patch}'"
        if view.annotated_name or policies:
            return note, "nothing now, the name is served all the same; apply the class again once the gate is on"
        return note, f"kubectl annotate deviceclass {view.name} {NAME_ANNOTATION}={name}"

    def _record(self, device_class: str, reason: Reason, note: str, cure: str = "") -> None:
        view = self._caches.classes.get(device_class)
        if view:
            ref = ObjectRef("DeviceClass", "resource.k8s.io/v1", "", view.name, view.uid)
            self._recorder.record(
                ref, reason, f"{note}. Cure: {cure}." if cure else with_cure(note, reason), "Warning", "MapName"
            )
