"""What admission does when a rewritten Pod is updated: put back what an apply of its original manifest would change.

`kubectl apply`, server-side apply and GitOps tools send the bare Pod again and again. Its names would come back into
requests and limits, which the API server refuses ("pod updates may not change fields"); a replace would also take our
claim, label and annotations away. Everything of ours is restored from the Pod as it is stored; what the user changes
besides is none of our business.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from drabridge.core import asked as annotation
from drabridge.core.errors import InvalidInput
from drabridge.core.podpatch import JSONPatch, set_annotations, set_claims, set_entry, set_labels, set_quantity
from drabridge.core.podview import Container, PodView
from drabridge.core.quantity import Quantity
from drabridge.core.rewrite import ALLOCATION, DELIVERY_LABEL, our_claim


@dataclass(frozen=True, slots=True)
class Restored:
    """The patch that makes the update leave our part alone, and what cannot be helped, for the user to read."""

    patch: JSONPatch
    refused: tuple[str, ...] = ()


def restore(new: PodView, old: PodView) -> Restored:
    """Say what is to be put back into `new`, an update of the rewritten Pod `old`.

    A name that comes back with another quantity is left in: the API server refuses it, as it would for any Pod.
    """
    entry = our_claim(old)
    if entry is None or entry.claim_name is None:
        return Restored([])
    try:
        asked = annotation.decode(old)
    except InvalidInput:
        asked = None
    stored = {container.name: container for container in old.containers}
    pairs = [(container, stored[container.name]) for container in new.containers if container.name in stored]
    patch: JSONPatch = []
    refused: list[str] = []
    for container, former in pairs:
        for resource, quantity in asked.containers.get(container.name, {}).items() if asked else ():
            patch += _put_back(container, former, resource)
            refused += _changed(new, container, former, resource, quantity)
        if ours := [claim for claim in former.claims if claim.name == entry.name]:
            others = [claim for claim in container.claims if claim.name != entry.name]
            patch += set_claims(container, [*others, *ours])
    if refused:
        return Restored([], tuple(refused))
    patch += set_entry(new, entry.name, entry.claim_name)
    patch += set_labels(new, _former(old.labels, DELIVERY_LABEL))
    return Restored(patch + set_annotations(new, _former(old.annotations, annotation.ANNOTATION, ALLOCATION)))


def _put_back(container: Container, former: Container, resource: str) -> JSONPatch:
    """What is stored; a name that did not come back is not brought back either, defaulting does that."""
    requests = former.requests.get(resource) if resource in container.requests else None
    limits = former.limits.get(resource) if resource in container.limits else None
    return set_quantity(container, resource, requests, limits)


def _changed(new: PodView, container: Container, former: Container, resource: str, quantity: str) -> list[str]:
    for present, stored in ((container.requests, former.requests), (container.limits, former.limits)):
        text = present.get(resource)
        if text is not None and text != stored.get(resource) and not _same(text, quantity):
            asked = f"{new.described}: {container.field} was created with {quantity} {resource}"
            return [f"{asked} and cannot change to {text}; delete the Pod and create it again"]
    return []


def _same(text: str, quantity: str) -> bool:
    try:
        return Quantity.parse(text) == Quantity.parse(quantity)
    except ValueError:
        return False


def _former(present: Mapping[str, str], *keys: str) -> dict[str, str]:
    return {key: present[key] for key in keys if key in present}
