"""A DeviceClass that does not serve the name it declares is told so."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AsyncExitStack

from cluster_site import CLASSES, Site
from upstream.api import wait_for


async def said(site: Site, device_class: str, reason: str) -> str:
    """The note of an event about a DeviceClass; events about cluster-scoped objects are in `default`."""

    async def look() -> str:
        events = (await site.api.call("GET", "/apis/events.k8s.io/v1/namespaces/default/events"))["items"]
        notes = (
            str(each["note"])
            for each in events
            if each["reason"] == reason and each["regarding"]["name"] == device_class
        )
        return next(notes, "")

    return await wait_for(look, f"an event {reason} about DeviceClass {device_class}")


async def add_class(site: Site, name: str, annotation: str, undo: AsyncExitStack) -> None:
    body = {
        "metadata": {"name": name, "annotations": {"drabridge.io/extended-resource-name": annotation}},
        "spec": {"selectors": [{"cel": {"expression": "true"}}]},
    }
    await site.api.call("POST", CLASSES, body)
    undo.push_async_callback(site.api.request, "DELETE", f"{CLASSES}/{name}")


async def test_an_annotation_that_is_no_name_is_told_to_its_class(
    ours: Site, unique: Callable[[], str], afterwards: AsyncExitStack
) -> None:
    name = unique()
    await add_class(ours, name, "gpu", afterwards)
    note = await said(ours, name, "NameInvalid")
    assert "metadata.annotations['drabridge.io/extended-resource-name'] is gpu" in note
    assert "example.com/gpu" in note


async def test_a_class_that_loses_its_name_to_another_is_told(
    ours: Site, unique: Callable[[], str], afterwards: AsyncExitStack
) -> None:
    names = sorted([unique(), unique()])
    resource = f"{names[0]}.example.com/gpu"
    for name in names:
        await add_class(ours, name, resource, afterwards)
    classes = [await ours.api.call("GET", f"{CLASSES}/{name}") for name in names]
    created = [each["metadata"]["creationTimestamp"] for each in classes]
    winner = names[0] if created[0] >= created[1] else names[1]
    [loser] = set(names) - {winner}
    assert f"{resource} is served by DeviceClass {winner}" in await said(ours, loser, "NameCollision")


async def test_a_class_whose_name_was_dropped_is_told_the_command_that_cures_it(
    ours: Site, unique: Callable[[], str], afterwards: AsyncExitStack
) -> None:
    """Where the gate is on, nothing is dropped; `test_upgrade` shows what is said there about classes from before."""
    name = unique()
    body = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"extendedResourceName": f"{name}.example.com/gpu", "selectors": [{"cel": {"expression": "true"}}]},
    }
    await ours.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(body))
    afterwards.push_async_callback(ours.api.request, "DELETE", f"{CLASSES}/{name}")
    stored = await ours.api.call("GET", f"{CLASSES}/{name}")
    if stored["spec"].get("extendedResourceName"):
        return
    note = await said(ours, name, "ExtendedResourceNameLost")
    command = f"kubectl annotate deviceclass {name} drabridge.io/extended-resource-name={name}.example.com/gpu"
    assert command in note
    await ours.cluster.kubectl(*command.split()[1:])
    mapped = await ours.api.call("GET", f"{CLASSES}/{name}")
    assert mapped["metadata"]["annotations"]["drabridge.io/extended-resource-name"] == f"{name}.example.com/gpu"
