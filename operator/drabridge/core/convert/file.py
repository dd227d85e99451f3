"""One file's text -> its new text, and what was found in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from drabridge.core.convert import forward, tree, versions
from drabridge.core.convert.documents import Chunk, Document, Object, Parse, Unreadable, chunks
from drabridge.core.convert.findings import Finding, Outcome, dotted
from drabridge.core.convert.forwarding import Forward, Upgrade
from drabridge.core.convert.joining import joined, without_marker
from drabridge.core.convert.piece import TEMPLATE_KIND, Conversion, Direction, Piece, Run, Step, at, settle
from drabridge.core.convert.podspecs import elsewhere, pod_specs
from drabridge.core.convert.restoring import Backward, remove_templates
from drabridge.core.convert.serving import Serving
from drabridge.core.convert.shape import Template
from drabridge.core.convert.tree import Path
from drabridge.core.reasons import Reason

_SKIPPED: Final = frozenset({Reason.TEMPLATE_TEXT})


@dataclass(frozen=True, slots=True)
class Converted:
    """The new text, which is the old one where nothing is to be done; `templates` only where they are collected."""

    text: str
    findings: tuple[Finding, ...]
    templates: tuple[Template, ...] = ()


def read(text: str, parse: Parse) -> tuple[list[Document], list[Finding], list[Chunk]]:
    """Read all documents; what cannot be read is found instead. A template anywhere makes the whole file one."""
    documents: list[Document] = []
    findings: list[Finding] = []
    parts = chunks(text)
    for chunk in parts:
        try:
            documents.append(Document.read(chunk, parse))
        except Unreadable as problem:
            outcome = Outcome.SKIPPED if problem.reason in _SKIPPED else Outcome.BROKEN
            findings.append(Finding(outcome, problem.reason, problem.line + 1, "", "", problem.problem))
    if templates := [each for each in findings if each.outcome is Outcome.SKIPPED]:
        return [], templates[:1], parts
    return documents, findings, parts


def inventory(documents: Iterable[Document]) -> Iterator[Object]:
    """Give the objects that say something about others: classes, policies and templates, as v1 where that is known."""
    for document in documents:
        for each in document.objects():
            if each.group == versions.GROUP:
                known = each.api_version in versions.FROM
                yield Object(each.path, versions.upgraded(each.value)) if known else each
            elif each.group == "drabridge.io":
                yield each


def references(documents: Iterable[Document]) -> Iterator[tuple[str, str]]:
    """Give namespace and name of the ResourceClaimTemplates that Pods use; one without a namespace may be meant."""
    for document in documents:
        for each in document.objects():
            for path in pod_specs(each.value):
                entries = at(each.value, path).get("resourceClaims")
                for entry in entries if isinstance(entries, list) else ():
                    if isinstance(entry, dict) and isinstance(entry.get("resourceClaimTemplateName"), str):
                        yield each.namespace, entry["resourceClaimTemplateName"]
                        yield "", entry["resourceClaimTemplateName"]


def convert(text: str, conversion: Conversion) -> Converted:
    """Convert the text of one file (without its byte order mark). Never raises for what stands in it."""
    documents, findings, parts = read(text, conversion.parse)
    if all(document.value is None for document in documents):
        if not findings:
            findings.append(Finding(Outcome.SKIPPED, Reason.EMPTY, 0, "", "", "there is no document in it"))
        return Converted(text, tuple(findings))
    newline = "\r\n" if "\r\n" in text[: text.find("\n") + 1] else "\n"
    present = {(each.namespace, each.name): each.value for each in inventory(documents) if each.kind == TEMPLATE_KIND}
    single_json = len(parts) == 1 and documents[0].json and not text.startswith("---")
    run = Run(conversion, newline, single_json, present, findings)
    pieces = [_piece(document, run) for document in documents]
    by_start = {piece.document.chunk.start: piece for piece in pieces}
    whole = joined(parts, by_start, run)
    if whole != text and not _means(whole, pieces, run, broken=len(parts) - len(documents)):
        left = _edit_unsafe("the file as a whole", 0)
        return Converted(text, tuple([each for each in run.findings if each.outcome is not Outcome.CHANGED] + [left]))
    ordered = sorted(run.findings, key=lambda each: each.line)
    return Converted(whole, tuple(ordered), tuple(run.collected.values()))


def _edit_unsafe(where: str, line: int) -> Finding:
    return Finding(Outcome.LEFT, Reason.EDIT_UNSAFE, line, "", "", f"{where} would mean something else afterwards")


def _piece(document: Document, run: Run) -> Piece:
    piece = Piece(document, document.chunk.text, document.root, document.value)
    if document.root is None:
        return piece
    for key in document.root.repeated if isinstance(document.root, tree.Mapping) else ():
        detail = f"the key {key.value[:80]!a} stands there twice, with the same value"
        run.findings.append(Finding(Outcome.NOTE, Reason.DUPLICATE_KEY, document.line_of(key), "", "", detail))
    objects = list(document.objects())
    steps: list[Step] = []
    for each in objects:
        if run.conversion.direction is Direction.REVERSE:
            steps.append(Backward(run, piece, each))
        else:
            steps.append((Upgrade if each.group == versions.GROUP else Forward)(run, piece, each))
    settle([step for step in steps if step.decide()])
    if run.conversion.direction is Direction.REVERSE:
        remove_templates(run, piece, objects)
    elif not objects:
        _no_object(document, run)
    return piece


def _no_object(document: Document, run: Run) -> None:
    """Values of a chart and the like; said only of what names a resource that is served."""
    value = document.value
    whats = [
        each for each in elsewhere(value, run.conversion.serving.serves, ("", "")) if each.path[-2:-1] != ("hard",)
    ]
    for where in [each.path for each in whats] or _asking_pod_specs(value, run.conversion.serving):
        node = tree.find(document.root, where)
        detail = "there is no apiVersion and kind"
        line = document.line_of(node)
        run.findings.append(Finding(Outcome.LEFT, Reason.NOT_AN_OBJECT, line, "", dotted(where), detail))
        return


def _asking_pod_specs(value: object, serving: Serving) -> list[Path]:
    found = []
    for path in pod_specs(value):
        verdict = forward.decide(at(value, path), serving, certain=False)
        if verdict.wanted or any(each.reason is not Reason.NOT_SERVED for each in verdict.left):
            found.append(path)
    return found


def _means(text: str, pieces: list[Piece], run: Run, *, broken: int) -> bool:
    """Whether the whole text means what its documents should, in order; what could not be read is not looked at.

    A document that stands there as it was when it was accepted need not be read again.
    """
    if broken:
        return True
    known = {without_marker(piece.text): piece.value for piece in pieces}
    expected = []
    for piece in pieces:
        expected += [each.body for each in piece.before]
        if not piece.removed and piece.value is not None:
            expected.append(piece.value)
    found = []
    for chunk in chunks(text):
        content = without_marker(chunk.text)
        try:
            value = known[content] if content in known else Document.read(chunk, run.conversion.parse).value
        except Unreadable:
            return False
        if value is not None:
            found.append(value)
    return found == expected
