"""etcd, kube-apiserver, kube-controller-manager and kube-scheduler on loopback, as in a real cluster."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from upstream.api import Object, wait_for
from upstream.cluster import Cluster
from upstream.credentials import Authority, service_account_keys, user_of, write_kubeconfig, write_private
from upstream.processes import Process, free_port

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

Component = Literal["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"]
COMPONENTS: tuple[Component, ...] = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
KUBERNETES: tuple[Component, ...] = COMPONENTS[1:]
# Without the API server's end first, its graceful stop waits for an etcd that is gone; killed, the order costs nothing.
STOP_ORDER: tuple[Component, ...] = ("kube-apiserver", "kube-scheduler", "kube-controller-manager", "etcd")
INTERRUPTIONS = (asyncio.CancelledError, KeyboardInterrupt)
"""Ends by a user's wish: nobody will look for the logs."""

ATTEMPTS = 3
READY_SECONDS = 90.0
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"],
    "rules": [{"level": "Metadata"}],
}


class ComponentDied(Exception):
    """A component ended by itself; the text has the end of its log."""


class ControlPlane(Cluster):
    """A control plane of our own, in `directory` or a temporary one. Also `async with`.

    version: the Kubernetes version to emulate ("1.34" to "1.36"); None is the program's own, 1.37.
    qps: --kube-api-qps and --kube-api-burst of scheduler and controller-manager; None is their default.
    audit: record every request's metadata, for `audit_entries`.
    feature_gates, extra_args: for all three Kubernetes components; for one, appended to its command.
    real_nodes: nodes renew their heartbeat, so that their conditions are watched, and taint them.
    components: what is started; without the controller-manager nobody collects garbage or makes ServiceAccounts.
    """

    def __init__(
        self,
        binary: Path,
        version: str | None = None,
        *,
        directory: Path | None = None,
        qps: int | None = None,
        audit: bool = False,
        feature_gates: Mapping[str, bool] | None = None,
        extra_args: Mapping[Component, Sequence[str]] | None = None,
        real_nodes: bool = False,
        components: Sequence[Component] = COMPONENTS,
    ) -> None:
        directory = directory or Path(tempfile.mkdtemp(prefix="drabridge-"))
        super().__init__(kubeconfig=directory / "admin.kubeconfig", kubectl=(binary, "kubectl"), directory=directory)
        self.binary = binary
        self.version = version
        self.logs = directory / "logs"
        self._qps = qps
        self._audit = directory / "audit.log" if audit else None
        self.feature_gates = dict(feature_gates or {})
        self._extra_args = dict(extra_args or {})
        self._real_nodes = real_nodes
        self._components = components
        self._ports: dict[Component, int] = {}
        self._processes: dict[Component, Process] = {}
        self._make_credentials()

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException as error:
            await self._stop(failed=not isinstance(error, INTERRUPTIONS))
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stop(failed=kind is not None and not issubclass(kind, INTERRUPTIONS))

    async def start(self) -> None:
        """Start everything and wait until it is ready: healthy, and Pods can be created in `default`.

        Raises ComponentDied, or AssertionError when it is not ready in time.
        """
        for attempt in range(1, ATTEMPTS + 1):
            self._ports = {component: free_port() for component in COMPONENTS}
            write_kubeconfig(
                self.kubeconfig_admin(),
                server=self._url("kube-apiserver"),
                authority=self._authority.pair.certificate,
                user=user_of(self._authority.issue("kubernetes-admin", organizations=["system:masters"])),
            )
            try:
                await self._launch_in_order(self._components)
            except ComponentDied as died:
                await self.stop()
                # Somebody took a port between our look at it and the component's: rare, and cured by other ports.
                if "address already in use" not in str(died) or attempt == ATTEMPTS:
                    raise
                shutil.rmtree(self.directory / "etcd", ignore_errors=True)
            else:
                return

    async def stop(self) -> None:
        """End all processes at once. The directory with its logs stays."""
        await self.close()
        for component in STOP_ORDER:
            self.kill(component)

    def pid(self, component: Component) -> int:
        """Give the process id of a component that was not killed."""
        return self._processes[component].pid

    def kill(self, component: Component) -> None:
        """End a component by SIGKILL, unless it is down already; `restart` brings it back."""
        if process := self._processes.pop(component, None):
            process.kill()

    def pause(self, component: Component) -> None:
        """Stop a component in its tracks (SIGSTOP): its connections stay open, and nobody answers."""
        self._processes[component].send(signal.SIGSTOP)

    def resume(self, component: Component) -> None:
        """Let a paused component go on (SIGCONT)."""
        self._processes[component].send(signal.SIGCONT)

    async def restart(self, component: Component) -> None:
        """End a component by SIGKILL, start it again on its port, and wait until all that run are ready."""
        self.kill(component)
        self._launch(component)
        await self._wait_until_ready()

    async def restart_as(self, version: str | None, feature_gates: Mapping[str, bool] | None = None) -> None:
        """Upgrade or downgrade: the same etcd and ports under another Kubernetes version, or with other gates."""
        self.version = version
        if feature_gates is not None:
            self.feature_gates = dict(feature_gates)
        for component in KUBERNETES:
            self.kill(component)
        await self._launch_in_order(KUBERNETES)

    def gate_flags(self) -> list[str]:
        """The flag by which components are told of `feature_gates`."""
        gates = ",".join(f"{gate}={str(on).lower()}" for gate, on in self.feature_gates.items())
        return [f"--feature-gates={gates}"] if gates else []

    def kubeconfig_of(self, user: str, *groups: str) -> Path:
        """Give the path of a kubeconfig with a client certificate of that user. To be made anew after `start`."""
        return write_kubeconfig(
            self.directory / f"{user.replace(':', '-')}.kubeconfig",
            server=self._url("kube-apiserver"),
            authority=self._authority.pair.certificate,
            user=user_of(self._authority.issue(user, organizations=groups)),
        )

    def port(self, component: Component) -> int:
        """Give the port that a component listens on at 127.0.0.1, the same until the next `start`."""
        return self._ports[component]

    def audit_entries(self, user: str) -> list[Object]:
        """Give the audit events (audit.k8s.io/v1, level Metadata) of one user's finished requests, oldest first."""
        if self._audit is None:
            raise ValueError("this control plane was started without audit=True")
        lines = self._audit.read_text().splitlines(keepends=True) if self._audit.exists() else []
        # The last line may be half written; most lines are of others and need no parsing.
        events = [json.loads(line) for line in lines if line.endswith("\n") and f'"{user}"' in line]
        return [event for event in events if event["user"]["username"] == user]

    async def _stop(self, *, failed: bool) -> None:
        await self.stop()
        if failed:
            sys.stderr.write(f"drabridge: the control plane's logs are kept in {self.logs}\n")
        else:
            shutil.rmtree(self.directory)

    def _make_credentials(self) -> None:
        pki = self.directory / "pki"
        for directory in (pki, self.logs):
            directory.mkdir(parents=True)
        self._authority = Authority()
        self._ca_certificate, self._ca_key = self._authority.pair.write(pki, "ca")
        hosts = ["127.0.0.1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "10.96.0.1"]
        self._serving = self._authority.issue("control-plane", hosts=hosts).write(pki, "serving")
        self._token_key, self._token_public_key = service_account_keys(pki)
        self._audit_policy = write_private(self.directory / "audit-policy.json", json.dumps(AUDIT_POLICY))

    def _url(self, component: Component) -> str:
        return f"{'http' if component == 'etcd' else 'https'}://127.0.0.1:{self._ports[component]}"

    async def _launch_in_order(self, components: Sequence[Component]) -> None:
        # Before the API server has made its default roles it refuses its clients, and they wait before they ask again.
        clients = [each for each in components if each in ("kube-controller-manager", "kube-scheduler")]
        for component in components:
            if component not in clients:
                self._launch(component)
        await self._wait_for_answer("kube-apiserver", "/readyz")
        for component in clients:
            self._launch(component)
        await self._wait_until_ready()

    def _launch(self, component: Component) -> None:
        commands = {
            "etcd": self._etcd,
            "kube-apiserver": self._apiserver,
            "kube-controller-manager": self._controller_manager,
            "kube-scheduler": self._scheduler,
        }
        common = []
        if component != "etcd":
            common += [f"--emulated-version={self.version}"] if self.version else []
            common += self.gate_flags()
        self._processes[component] = Process(
            component,
            [self.binary, component, *commands[component](), *common, *self._extra_args.get(component, ())],
            log=self.logs / f"{component}.log",
            env={"PATH": "/usr/bin:/bin", "HOME": str(self.directory)},
        )

    def _etcd(self) -> list[str]:
        return [f"--data-dir={self.directory / 'etcd'}", f"--listen-client-url={self._url('etcd')}"]

    def _apiserver(self) -> list[str]:
        certificate, key = self._serving
        args = [
            f"--etcd-servers={self._url('etcd')}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._ports['kube-apiserver']}",
            "--endpoint-reconciler-type=none",  # it refuses to advertise a loopback address
            f"--tls-cert-file={certificate}",
            f"--tls-private-key-file={key}",
            f"--client-ca-file={self._ca_certificate}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction,OwnerReferencesPermissionEnforcement",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            f"--service-account-key-file={self._token_public_key}",
            f"--service-account-signing-key-file={self._token_key}",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--allow-privileged=true",
        ]
        if self._audit:
            args += [f"--audit-policy-file={self._audit_policy}", f"--audit-log-path={self._audit}"]
        return args

    def _controller_manager(self) -> list[str]:
        return [
            # A larger burst lets it make the identities of its 40 controllers at once (5 s otherwise); the rate stays.
            "--kube-api-burst=300",
            *self._client_of_apiserver("kube-controller-manager"),
            "--use-service-account-credentials=true",
            # Nobody routes to Pods; and where nodes are objects only, nobody renews their heartbeat.
            f"--controllers=*,-node-ipam-controller{'' if self._real_nodes else ',-node-lifecycle-controller'}",
            f"--root-ca-file={self._ca_certificate}",
            f"--service-account-private-key-file={self._token_key}",
            f"--cluster-signing-cert-file={self._ca_certificate}",
            f"--cluster-signing-key-file={self._ca_key}",
        ]

    def _scheduler(self) -> list[str]:
        return self._client_of_apiserver("kube-scheduler")

    def _client_of_apiserver(self, component: Component) -> list[str]:
        certificate, key = self._serving
        kubeconfig = self.kubeconfig_of(f"system:{component}")
        return [
            f"--kubeconfig={kubeconfig}",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            "--authentication-skip-lookup=true",  # it would be fatal while the API server is still starting
            f"--client-ca-file={self._ca_certificate}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._ports[component]}",
            f"--tls-cert-file={certificate}",
            f"--tls-private-key-file={key}",
            "--leader-elect=false",
            *([] if self._qps is None else [f"--kube-api-qps={self._qps}", f"--kube-api-burst={self._qps}"]),
        ]

    async def _wait_until_ready(self) -> None:
        if "kube-apiserver" not in self._processes:
            return  # a test took it down, and started something else
        await self._wait_for_answer("kube-apiserver", "/readyz")
        if "kube-scheduler" in self._processes:
            await self._wait_for_answer("kube-scheduler", "/readyz")
        if "kube-controller-manager" in self._processes:
            await self._wait_for_answer("kube-controller-manager", "/healthz")
            # Admission refuses Pods before the controller-manager has made this one.
            await self._wait_for_answer("kube-apiserver", "/api/v1/namespaces/default/serviceaccounts/default")

    async def _wait_for_answer(self, component: Component, path: str) -> None:
        async def ask() -> tuple[int, Object]:
            self._raise_if_died()
            return await self.api.request("GET", self._url(component) + path)

        what = f"{component} to answer on {path}"
        await wait_for(ask, what, until=lambda answer: answer[0] == 200, deadline=READY_SECONDS)

    def _raise_if_died(self) -> None:
        for component, process in self._processes.items():
            if process.exit_code is not None:
                raise ComponentDied(f"{component} ended with {process.exit_code}:\n{process.said(lines=20)}")
