"""Where the API server is and who we are to it, read by kubernetes_asyncio and kept fresh."""

from __future__ import annotations

import asyncio
import functools
import os
import ssl
import time
import urllib.request
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import aiohttp
from kubernetes_asyncio.client.configuration import Configuration
from kubernetes_asyncio.config.incluster_config import (
    SERVICE_CERT_FILENAME,
    SERVICE_TOKEN_FILENAME,
    InClusterConfigLoader,
)
from kubernetes_asyncio.config.kube_config import load_kube_config

from drabridge.core.errors import InvalidInput, Unavailable

REFRESH_AFTER = 60.0
"""Seconds after which the token is asked for again: a mounted file is read, a plugin called if its token expires."""

REFRESH_TIMEOUT = 30.0
"""Seconds that a token plugin may take."""

READ_AT_ONCE = 2 * 1024 * 1024
"""Bytes of an answer that are read ahead: a page of a list has a megabyte or more."""

_Refresh = Callable[[bool], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What another client needs to be the same identity; files are paths of PEM, None where there is none.

    `trust_env` is whether the environment may name a proxy.
    """

    host: str
    token: str | None
    ca_file: str | None
    cert_file: str | None
    key_file: str | None
    verify: bool
    proxy: str | None
    trust_env: bool


class Credentials:
    """One identity at one API server. The certificates are those of the start, the token is refreshed."""

    def __init__(self, source: str, configuration: Configuration, refresh: _Refresh) -> None:
        self._source = source
        self._configuration = configuration
        self._refresh = refresh
        self._refreshed = time.monotonic()
        self._one_at_a_time = asyncio.Lock()

    @classmethod
    async def load(cls, kubeconfig: Path | None, context: str | None) -> Self:
        """Read the configuration.

        Without a kubeconfig: the Pod's own ServiceAccount if its files are mounted and no context is asked for, else
        $KUBECONFIG (a list of paths), else ~/.kube/config. Raises InvalidInput if none of them can be used.
        """
        configuration = Configuration()
        load: Callable[[], Awaitable[_Refresh]]
        if kubeconfig is None and context is None and await asyncio.to_thread(Path(SERVICE_TOKEN_FILENAME).exists):
            source = "in-cluster ServiceAccount"
            load = functools.partial(_in_cluster, configuration)
        else:
            source = str(kubeconfig or os.environ.get("KUBECONFIG") or Path.home() / ".kube" / "config")
            if not any([await asyncio.to_thread(Path(path).exists) for path in source.split(os.pathsep)]):
                raise InvalidInput(
                    f"kubeconfig {source}",
                    "",
                    "there is no such file, and no ServiceAccount is mounted either",
                    "name a kubeconfig by --kubeconfig or $KUBECONFIG, or run in a Pod with a ServiceAccount token",
                )
            source = f"kubeconfig {source}"
            load = functools.partial(_from_kubeconfig, configuration, source.removeprefix("kubeconfig "), context)
        try:
            return cls(source, configuration, await load())
        except Exception as error:  # the loaders raise whatever a broken file makes them raise, AssertionError included
            raise InvalidInput(
                source,
                f"contexts[{context}]" if context else "",
                f"it cannot be used: {str(error) or type(error).__name__}",
                "`kubectl config view` shows what it says; --kubeconfig and --context choose another",
            ) from error

    @property
    def host(self) -> str:
        """Scheme, host, port and perhaps a path prefix of the API server, without a slash at the end."""
        return str(self._configuration.host)

    @property
    def server_name(self) -> str | None:
        """The name that the API server's certificate has to show, if not that of the host."""
        return self._configuration.tls_server_name

    def connect(self) -> aiohttp.ClientSession:
        """Open a pool of connections (none is made yet). Raises InvalidInput if a certificate cannot be read."""
        configuration = self._configuration
        try:
            tls = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
            if configuration.cert_file:
                tls.load_cert_chain(configuration.cert_file, configuration.key_file)
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            cure = "replace certificate-authority-data, client-certificate-data and client-key-data"
            raise InvalidInput(self._source, "", f"a certificate or key in it is broken: {error}", cure) from error
        # Python 3.13 wants more of an authority than Kubernetes puts into its own.
        tls.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if not configuration.verify_ssl:
            tls.check_hostname = False
            tls.verify_mode = ssl.CERT_NONE
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=configuration.connection_pool_maxsize, ssl=tls),
            proxy=configuration.proxy,
            trust_env=_names_a_proxy(),
            read_bufsize=READ_AT_ONCE,
        )

    async def headers(self, rejected: dict[str, str] | None = None) -> dict[str, str]:
        """Return the Authorization header, or none for an identity that is a client certificate.

        `rejected` are headers that the API server answered with 401: they are not returned again if it can be helped.
        Raises Unavailable if the token cannot be had.
        """
        async with self._one_at_a_time:
            anew = rejected is not None and rejected == self._current()
            if anew or time.monotonic() - self._refreshed > REFRESH_AFTER:
                try:
                    async with asyncio.timeout(REFRESH_TIMEOUT):
                        await self._refresh(anew)
                except Exception as error:  # as above: anything; here the source was good once and may be so again
                    raise Unavailable(
                        f"{self._source}: no fresh token: {str(error) or type(error).__name__}"
                    ) from error
                self._refreshed = time.monotonic()
            return self._current()

    async def endpoint(self) -> Endpoint:
        """Give what Kopf needs to connect, with a fresh token. Raises Unavailable if the token cannot be had."""
        headers = await self.headers()
        return Endpoint(
            host=self.host,
            token=headers["Authorization"].removeprefix("Bearer ") if headers else None,
            ca_file=self._configuration.ssl_ca_cert,
            cert_file=self._configuration.cert_file,
            key_file=self._configuration.key_file,
            verify=bool(self._configuration.verify_ssl),
            proxy=self._configuration.proxy,
            trust_env=_names_a_proxy(),
        )

    def _current(self) -> dict[str, str]:
        token = self._configuration.api_key.get("BearerToken", "").strip()
        return {"Authorization": token} if token else {}


def _names_a_proxy() -> bool:
    """Whether the environment does. If not, it need not be asked, and ~/.netrc read, at each request."""
    return bool(urllib.request.getproxies_environment())


async def _in_cluster(configuration: Configuration) -> _Refresh:
    def load() -> None:
        InClusterConfigLoader(SERVICE_TOKEN_FILENAME, SERVICE_CERT_FILENAME, try_refresh_token=False).load_and_set(
            configuration
        )

    async def refresh(anew: bool) -> None:  # noqa: ARG001 - a file has no cache to be bypassed
        await asyncio.to_thread(load)

    load()
    return refresh


async def _from_kubeconfig(configuration: Configuration, paths: str, context: str | None) -> _Refresh:
    loader = await load_kube_config(paths, context, configuration)

    async def refresh(anew: bool) -> None:
        nonlocal loader
        if anew:  # the loader keeps a plugin's token until it expires, a new loader has none
            loader = await load_kube_config(paths, context, configuration)
        else:
            await loader.load_and_set(configuration)

    return refresh
