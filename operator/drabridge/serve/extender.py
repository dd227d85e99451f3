"""kube-scheduler's extender protocol (k8s.io/kube-scheduler/extender/v1), behind mutual TLS.

Whoever reaches `/bind` can bind Pods, so nobody without the scheduler's client certificate gets an answer at all.

An answer's `Error` has kube-scheduler put the Pod back with an error event; what is only not to be had now stands in
`FailedAndUnresolvableNodes` instead. `FailedNodes` would have it look for victims to preempt, in vain: its dry run
knows in-tree filters alone.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import structlog
from aiohttp import web

from drabridge.core.errors import DrabridgeError, InvalidInput, quoted
from drabridge.delivery.bind import Bindings
from drabridge.serve.leaving import end_connections
from drabridge.serve.requests import body

BODY_MAX = 64 * 1024 * 1024
"""Bytes of a request: a Pod of up to 3 MiB, and the names of all nodes."""

CURE = "send what k8s.io/kube-scheduler/extender/v1 says, with nodeCacheCapable: true"

_log = structlog.get_logger(__name__)
Args = Mapping[str, Any]


def application(bindings: Bindings) -> web.Application:
    """The extender's server, to be run behind mutual TLS.

    A replica that does not lead ends the connection with its answer: kube-scheduler would go on asking it, since a
    Service leads new connections elsewhere and not those that are there.
    """
    extender = _Extender(bindings)
    app = web.Application(client_max_size=BODY_MAX)
    end_connections(app, lambda: not bindings.serving)
    app.router.add_post("/filter", extender.filter)
    app.router.add_post("/prioritize", extender.prioritize)
    app.router.add_post("/bind", extender.bind)
    return app


class _Extender:
    def __init__(self, bindings: Bindings) -> None:
        self._bindings = bindings

    async def filter(self, request: web.Request) -> web.Response:
        """ExtenderArgs -> ExtenderFilterResult."""

        async def answer(args: Args) -> Any:
            filtered = await self._bindings.filter(_pod(args), _names(args))
            return {"NodeNames": filtered.nodes, "FailedAndUnresolvableNodes": filtered.failed}

        return await _answered(request, answer, lambda text: {"Error": text})

    async def prioritize(self, request: web.Request) -> web.Response:
        """ExtenderArgs -> HostPriorityList. It has no place for an error; without scores the others' decide."""

        async def answer(args: Args) -> Any:
            scores = await self._bindings.prioritize(_pod(args), _names(args))
            return [{"Host": name, "Score": score} for name, score in scores.items()]

        return await _answered(request, answer, lambda _: [])

    async def bind(self, request: web.Request) -> web.Response:
        """ExtenderBindingArgs -> ExtenderBindingResult."""

        async def answer(args: Args) -> Any:
            wanted = [_text(args, name) for name in ("PodNamespace", "PodName", "PodUID", "Node")]
            await self._bindings.bind(*wanted)
            return {}

        return await _answered(request, answer, lambda text: {"Error": text})


async def _answered(
    request: web.Request, answer: Callable[[Args], Awaitable[Any]], failed: Callable[[str], Any]
) -> web.Response:
    sent = await body(request)
    try:
        return web.json_response(await answer(_args(sent)))
    except InvalidInput as error:
        _log.warning("a call that cannot be understood", path=request.path, error=str(error))
        return web.json_response(failed(f"drabridge: {error}"))
    except DrabridgeError as error:
        return web.json_response(failed(f"drabridge: {error}"))
    except Exception as error:
        _log.exception("no answer for kube-scheduler", path=request.path)
        text = f"drabridge: internal error ({type(error).__name__}); please report it"
        return web.json_response(failed(text))


def _args(body: bytes) -> Args:
    try:
        args = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise InvalidInput("extender call", "", f"is not JSON: {error}", CURE) from error
    if not isinstance(args, dict):
        raise InvalidInput("extender call", "", f"is {quoted(args)}, not an object", CURE)
    return args


def _pod(args: Args) -> Mapping[str, Any]:
    pod = args.get("Pod")
    if not isinstance(pod, dict):
        raise InvalidInput("extender call", "Pod", f"is {quoted(pod)}, not a Pod", CURE)
    return pod


def _names(args: Args) -> list[str]:
    names = args.get("NodeNames")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InvalidInput("extender call", "NodeNames", "is not a list of names", CURE)
    return names


def _text(args: Args, name: str) -> str:
    value = args.get(name)
    if not isinstance(value, str) or not value:
        raise InvalidInput("extender call", name, f"is {quoted(value)}, not a name", CURE)
    return value
