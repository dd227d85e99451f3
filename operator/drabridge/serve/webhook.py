"""The admission webhook: AdmissionReview (admission.k8s.io/v1) in and out.

Whatever comes in, a Pod is never refused here and no traceback goes out: what cannot be understood gets a clear HTTP
error, which the API server passes over (`failurePolicy: Ignore`); what is none of our business is allowed as it is.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import textwrap
import time
from collections.abc import Callable, Mapping
from typing import Any

import structlog
from aiohttp import web

from drabridge.core.errors import quoted
from drabridge.delivery.admission import Admission, Answer
from drabridge.delivery.metrics import Metrics
from drabridge.serve.leaving import end_connections
from drabridge.serve.requests import body

API_VERSION = "admission.k8s.io/v1"
BODY_MAX = 8 * 1024 * 1024
"""Bytes of a request. The API server takes objects of up to 3 MiB, and a review holds more than the object."""

WARNING_MAX = 256
"""Characters of a warning. AdmissionResponse.warnings: longer ones may be cut, after 4096 in all they are."""

WARNINGS_MAX = 16
WARNING_TEXT_MAX = 1024
"""Characters of one text; what is behind them is not for people."""

ANSWER_WITHIN = 4.0
"""Seconds; the webhook configuration gives up after 5, and a Pod left alone with a warning is better than silence."""

_log = structlog.get_logger(__name__)


def application(admission: Admission, metrics: Metrics, leaving: Callable[[], bool] = lambda: False) -> web.Application:
    """The webhook's server, to be run behind TLS. While `leaving` says so, each answer ends its connection.

    API servers keep connections, also to a replica that is not ready any more. One that ended at the very end, with a
    review just on its way, would leave a Pod as it is.
    """
    app = web.Application(client_max_size=BODY_MAX)
    app.router.add_post("/mutate", _Mutate(admission, metrics).handle)
    end_connections(app, leaving)
    return app


class _Mutate:
    def __init__(self, admission: Admission, metrics: Metrics) -> None:
        self._admission = admission
        self._metrics = metrics

    async def handle(self, request: web.Request) -> web.Response:
        """Answer one review."""
        started = time.perf_counter()
        try:
            review = _review(await body(request))
        except _ReviewError as error:
            return web.Response(status=400, text=f"drabridge: {error}\n")
        answer = await self._answer(review)
        self._metrics.admission_seconds.observe(time.perf_counter() - started)
        self._metrics.admissions.labels(answer.outcome).inc()
        return web.json_response(_response(review["uid"], answer))

    async def _answer(self, review: Mapping[str, Any]) -> Answer:
        pod, old = review.get("object"), review.get("oldObject")
        if _kind(review) != ("", "Pod") or not isinstance(pod, dict):
            return Answer([], "NotAPod")
        namespace = str(review.get("namespace") or "default")
        try:
            async with asyncio.timeout(ANSWER_WITHIN):
                if review.get("operation") == "UPDATE" and isinstance(old, dict):
                    return self._admission.update(pod, old)
                if review.get("operation") == "CREATE":
                    return await self._admission.review(pod, namespace)
            return Answer([], "NotAPod")
        except TimeoutError:
            _log.warning("no answer in time, the Pod is left alone", namespace=namespace)
            return Answer([], "Timeout", ("drabridge: no decision in time, the Pod is left as it is",))
        except Exception as error:
            _log.exception("cannot decide about a Pod, it is left alone", namespace=namespace)
            text = f"drabridge: internal error ({type(error).__name__}), the Pod is left as it is; please report it"
            return Answer([], "Error", (text,))


class _ReviewError(Exception):
    """The request is not an AdmissionReview of a version that we speak."""


def _review(body: bytes) -> Mapping[str, Any]:
    try:
        review = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise _ReviewError(f"the request is not JSON: {error}") from error
    if not isinstance(review, dict) or review.get("kind") != "AdmissionReview":
        raise _ReviewError("the request is not an AdmissionReview")
    if review.get("apiVersion") != API_VERSION:
        raise _ReviewError(f"this webhook speaks {API_VERSION}, not {quoted(review.get('apiVersion'))}")
    request = review.get("request")
    if not isinstance(request, dict) or not isinstance(request.get("uid"), str) or not request["uid"]:
        raise _ReviewError("the AdmissionReview has no request with a uid")
    return request


def _kind(request: Mapping[str, Any]) -> tuple[str, str]:
    kind = request.get("kind")
    if not isinstance(kind, dict):
        return ("?", "?")
    return (str(kind.get("group", "")), str(kind.get("kind", "")))


def _response(uid: str, answer: Answer) -> dict[str, Any]:
    response: dict[str, Any] = {"uid": uid, "allowed": True, "auditAnnotations": {"outcome": answer.outcome}}
    if answer.patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(json.dumps(answer.patch).encode()).decode()
    if answer.warnings:
        lines = (line for text in answer.warnings for line in _lines(text))
        response["warnings"] = [*itertools.islice(lines, WARNINGS_MAX)]
    return {"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response}


def _lines(text: str) -> list[str]:
    """Cut a warning into pieces that the API server passes on whole.

    What is too long may be cut there, and what has a control character in it is dropped without a word; a Pod's name is
    checked after admission only.
    """
    line = "".join(char if char.isprintable() else " " for char in text[:WARNING_TEXT_MAX])
    return textwrap.wrap(line, WARNING_MAX)
