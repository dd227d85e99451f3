"""DeviceClasses that do not serve the name they declare: said on them. Lease holder only."""

from __future__ import annotations

import asyncio

from drabridge.core.classmap import NAME_ANNOTATION
from drabridge.core.reasons import CURES, Reason
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
        told: tuple[int, int] | None = None
        while not stop.is_set():
            versions = (self._caches.classes.version, self._caches.policies.version)
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

    def _record(self, device_class: str, reason: Reason, note: str) -> None:
        view = self._caches.classes.get(device_class)
        if view:
            ref = ObjectRef("DeviceClass", "resource.k8s.io/v1", "", view.name, view.uid)
            self._recorder.record(ref, reason, f"{note}. Cure: {CURES[reason]}.", "Warning", "MapName")
