"""Since when kube-scheduler could serve a name: what is remembered of it, and what it means when memory fails."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import GPU, GPU_CLASS, IMPLICIT_GPU, NIC, NIC_CLASS, cluster, device_class
from drabridge.core.cluster import ClusterView, Gate
from drabridge.delivery.native import continued, since_of, text_of

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
BEFORE = NOW - timedelta(hours=1)
READY = cluster(GPU_CLASS, NIC_CLASS, gate=Gate.ON)
IMPLICIT_NIC = f"deviceclass.resource.kubernetes.io/{NIC_CLASS['metadata']['name']}"
ALL = {GPU, NIC, IMPLICIT_GPU, IMPLICIT_NIC}

BROKEN = {
    "no JSON": "certainly not",
    "nothing": "",
    "a list": "[1, 2, 3]",
    "null": "null",
    "a number": "3",
    "a time that is none": '{"example.com/gpu": "yesterday"}',
    "a time that is a number": '{"example.com/gpu": 1}',
    "a time that no calendar has in UTC": '{"example.com/gpu": "0001-01-01T00:00:00+14:00"}',
    "brackets without end": "[" * 100_000,
    "one entry of two": '{"example.com/gpu": "2026-12-01T00:00:00+00:00", "example.com/nic": null}',
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_what_cannot_be_read_is_nothing_and_not_half_of_it(text: str) -> None:
    assert since_of(text) is None


READABLE = {
    "in UTC": ("2026-12-01T12:00:00+00:00", NOW),
    "with a Z": ("2026-12-01T12:00:00Z", NOW),
    "in another time zone": ("2026-12-01T14:00:00+02:00", NOW),
}


@pytest.mark.parametrize(("moment", "want"), READABLE.values(), ids=READABLE)
def test_a_moment_is_read(moment: str, want: datetime) -> None:
    assert since_of(f'{{"{GPU}": "{moment}"}}') == {GPU: want}


zones = st.integers(-12, 14).map(lambda hours: timezone(timedelta(hours=hours)))
moments = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=zones)  # noqa: DTZ001 - zones come along


@given(st.dictionaries(st.text(), moments))
def test_what_is_written_is_read_again(since: dict[str, datetime]) -> None:
    assert since_of(text_of(since)) == since


def test_the_order_of_names_changes_nothing_in_what_is_written() -> None:
    assert text_of({GPU: NOW, NIC: BEFORE}) == text_of({NIC: BEFORE, GPU: NOW})


CONTINUED = {
    "all names begin now where nothing is remembered": ({}, READY, dict.fromkeys(ALL, NOW)),
    "a name goes on from where it began": ({GPU: BEFORE}, READY, {**dict.fromkeys(ALL, NOW), GPU: BEFORE}),
    "a moment yet to come is now": ({GPU: NOW + timedelta(days=365)}, READY, dict.fromkeys(ALL, NOW)),
    "a name without a class is forgotten": (
        {"example.com/gone": BEFORE, GPU: BEFORE},
        cluster(GPU_CLASS, gate=Gate.ON),
        {GPU: BEFORE, IMPLICIT_GPU: NOW},
    ),
    "a name that only an annotation declares is not one of kube-scheduler's": (
        {GPU: BEFORE},
        cluster(device_class("gpu", annotation=GPU), gate=Gate.ON),
        {IMPLICIT_GPU: NOW},
    ),
    "an old kubelet ends it for all": ({GPU: BEFORE}, cluster(GPU_CLASS, gate=Gate.ON, old_kubelets=("node",)), {}),
    "the gate ends it for all": ({GPU: BEFORE}, cluster(GPU_CLASS, gate=Gate.OFF), {}),
    "not to know the gate ends it for all": ({GPU: BEFORE}, cluster(GPU_CLASS, gate=Gate.UNKNOWN), {}),
}


@pytest.mark.parametrize(("stored", "view", "want"), CONTINUED.values(), ids=CONTINUED)
def test_since_when(stored: dict[str, datetime], view: ClusterView, want: dict[str, datetime]) -> None:
    assert continued(stored, view, NOW) == want
