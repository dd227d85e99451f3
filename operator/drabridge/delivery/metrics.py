"""What drabridge counts. Labels are words of ours and names of resources, never names of Pods."""

from __future__ import annotations

from importlib.metadata import version

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info

from drabridge.kube.workqueue import QueueMetrics

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """All metrics of one process, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.admissions = Counter(
            "drabridge_admission_reviews_total",
            "Pods that the webhook was asked about, by outcome (Rewrite, or the reason why the Pod was left alone).",
            ["outcome"],
            registry=self.registry,
        )
        self.admission_seconds = Histogram(
            "drabridge_admission_review_seconds",
            "Time the webhook took for an answer.",
            buckets=SECONDS,
            registry=self.registry,
        )
        self.claims = Counter(
            "drabridge_claim_creates_total",
            "ResourceClaims that were created for rewritten Pods, by result (created, refused, unavailable).",
            ["result"],
            registry=self.registry,
        )
        self.claim_seconds = Histogram(
            "drabridge_claim_create_seconds",
            "Time from a Pod's creation, to the second, to its claim's.",
            buckets=(0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0),
            registry=self.registry,
        )
        self.bound_back = Counter(
            "drabridge_allocations_bound_back_total",
            "Allocations that were written on their Pods.",
            registry=self.registry,
        )
        self.waiting = Gauge(
            "drabridge_pods_without_claim",
            "Rewritten Pods that have no ResourceClaim, by the reason why.",
            ["reason"],
            registry=self.registry,
        )
        self.pods = Gauge(
            "drabridge_pods",
            "Pods that are served, by resource name and delivery.",
            ["resource", "delivery"],
            registry=self.registry,
        )
        self.devices = Gauge(
            "drabridge_devices_allocated",
            "Devices that are allocated for extended resources, by resource name and delivery.",
            ["resource", "delivery"],
            registry=self.registry,
        )
        self.troubles = Gauge(
            "drabridge_pods_in_trouble",
            "Pods that cannot use devices that they wait for or have, by the reason why.",
            ["reason"],
            registry=self.registry,
        )
        self.left_alone = Gauge(
            "drabridge_pending_pods_left_alone",
            "Pending Pods that ask for extended resources and were not rewritten, by the reason why.",
            ["reason"],
            registry=self.registry,
        )
        self.filter_seconds = Histogram(
            "drabridge_extender_filter_seconds",
            "Time that an answer to kube-scheduler's filter took (Bind).",
            buckets=SECONDS,
            registry=self.registry,
        )
        self.bind_seconds = Histogram(
            "drabridge_extender_bind_seconds",
            "Time that binding a Pod took, writes included (Bind).",
            buckets=SECONDS,
            registry=self.registry,
        )
        self.binds = Counter(
            "drabridge_extender_binds_total",
            "Pods that kube-scheduler had us bind, by outcome (bound, conflict, failed).",
            ["outcome"],
            registry=self.registry,
        )
        self.overlaps = Gauge(
            "drabridge_claims_overlapping",
            "ResourceClaims that hold a device which another one holds as well (Bind).",
            registry=self.registry,
        )
        self.gate = Gauge(
            "drabridge_native_gate",
            "The API server's feature gate DRAExtendedResource: 1 on, 0 off, -1 not known.",
            registry=self.registry,
        )
        self.certificate_expiry = Gauge(
            "drabridge_certificate_expiry_timestamp_seconds",
            "When the webhook's certificate (serving) and its authority end, in Unix time.",
            ["certificate"],
            registry=self.registry,
        )
        self.leader = Gauge("drabridge_leader", "1 in the replica that holds the Lease.", registry=self.registry)
        self.events_dropped = Gauge(
            "drabridge_events_dropped", "Events that were given up since the start.", registry=self.registry
        )
        self.queue_depth = Gauge(
            "drabridge_workqueue_depth", "Keys that wait to be handled.", ["queue"], registry=self.registry
        )
        self.queue_adds = Counter(
            "drabridge_workqueue_adds_total", "Keys that were put into a queue.", ["queue"], registry=self.registry
        )
        self.queue_retries = Counter(
            "drabridge_workqueue_retries_total", "Keys that failed and come back.", ["queue"], registry=self.registry
        )
        self.queue_seconds = Histogram(
            "drabridge_workqueue_queue_duration_seconds",
            "Time that a key waited.",
            ["queue"],
            buckets=SECONDS,
            registry=self.registry,
        )
        self.work_seconds = Histogram(
            "drabridge_workqueue_work_duration_seconds",
            "Time that handling a key took.",
            ["queue"],
            buckets=SECONDS,
            registry=self.registry,
        )
        Info("drabridge_build", "The program that runs.", registry=self.registry).info(
            {"version": version("drabridge")}
        )

    def of_queue(self, name: str) -> QueueMetrics:
        """The metrics of one work queue."""
        return _QueueMetrics(self, name)


class _QueueMetrics(QueueMetrics):
    def __init__(self, metrics: Metrics, queue: str) -> None:
        self._adds = metrics.queue_adds.labels(queue)
        self._retries = metrics.queue_retries.labels(queue)
        self._waited = metrics.queue_seconds.labels(queue)
        self._worked = metrics.work_seconds.labels(queue)

    def added(self) -> None:
        self._adds.inc()

    def retried(self) -> None:
        self._retries.inc()

    def waited(self, seconds: float) -> None:
        self._waited.observe(seconds)

    def worked(self, seconds: float) -> None:
        self._worked.observe(seconds)
