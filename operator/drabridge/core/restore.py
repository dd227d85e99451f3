"""What admission does when a rewritten Pod is updated: put back what an apply of its original manifest would change.

`kubectl apply`, server-side apply and GitOps tools send the bare Pod again and again. Its names would come back into
requests and limits, which the API server refuses ("pod updates may not change fields"); a replace would also take our
claim, label and annotations away. Everything of ours is restored from the Pod as it is stored; what the user changes
besides is none of our business.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from drabridge.core import asked as annotation
from drabridge.core.errors import InvalidInput
from drabridge.core.names import is_explicit
from drabridge.core.podpatch import JSONPatch, set_annotations, set_entry, set_labels, set_resources
from drabridge.core.podview import Container, ContainerClaim, PodClaim, PodView
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
    asked = _asked(old)
    stored = {container.name: container for container in old.containers}
    patch: JSONPatch = []
    refused: list[str] = []
    for container in new.containers:
        if former := stored.get(container.name):
            served = sorted({name for names in asked.values() for name in names})
            quantities = {name: (former.requests.get(name), former.limits.get(name)) for name in served}
            patch += set_resources(container, quantities, _claims(container, former, entry.name))
            for name in served:
                refused += _changed(new, container, former, name, asked.get(container.name, {}).get(name))
    if refused:
        return Restored([], tuple(refused))
    patch += set_entry(new, entry.name, entry.claim_name, _place(new, old, entry))
    patch += set_labels(new, _former(old.labels, DELIVERY_LABEL))
    return Restored(patch + set_annotations(new, _former(old.annotations, annotation.ANNOTATION, ALLOCATION)))


def _asked(old: PodView) -> Mapping[str, Mapping[str, str]]:
    """Container -> resource -> quantity; nothing where the annotation is lost or spoilt."""
    try:
        asked = annotation.decode(old)
    except InvalidInput:
        return {}
    return asked.containers if asked else {}


def _claims(container: Container, former: Container, entry: str) -> Sequence[ContainerClaim]:
    """Ours at the place where they are stored: the API server compares the order, too."""
    ours = [claim for claim in former.claims if claim.name == entry]
    if not ours:
        return container.claims
    others = [claim for claim in container.claims if claim.name != entry]
    if others == [claim for claim in former.claims if claim.name != entry]:
        return former.claims
    return [*others, *ours]  # the user changes others, which the API server will refuse


def _place(new: PodView, old: PodView, entry: PodClaim) -> int | None:
    """The index of our entry among others that are the same ones."""
    index = old.resource_claims.index(entry)
    others = old.resource_claims[:index] + old.resource_claims[index + 1 :]
    return index if new.resource_claims == others else None


def _changed(new: PodView, container: Container, former: Container, resource: str, quantity: str | None) -> list[str]:
    """What is wrong if `resource` comes back with neither the quantity it was created with nor the stored one."""
    back = [
        text
        for present, stored in ((container.requests, former.requests), (container.limits, former.limits))
        if (text := present.get(resource)) is not None and not _same(text, stored.get(resource))
    ]
    if not is_explicit(resource):
        back = back[:1]  # its limit may be above the request, and says nothing then
    for text in back:
        if not _same(text, quantity):
            asked = f"{new.described}: {container.field} was created with {quantity or 'no'} {resource}"
            return [f"{asked} and cannot change to {text}; delete the Pod and create it again"]
    return []


def _same(text: str, other: str | None) -> bool:
    try:
        return other is not None and Quantity.parse(text) == Quantity.parse(other)
    except ValueError:
        return False


def _former(present: Mapping[str, str], *keys: str) -> dict[str, str]:
    return {key: present[key] for key in keys if key in present}
