from __future__ import annotations

import itertools
import socket
import ssl
import threading
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID
from hypothesis import given, settings
from hypothesis import strategies as st

from drabridge.core.errors import InvalidInput
from drabridge.serve.certificates import (
    Authorities,
    Authority,
    Serving,
    expiry,
    issue_ca,
    issue_serving,
    needs_renewal,
    rotated,
)

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
DAY = timedelta(days=1)
HOST = "drabridge-webhook.drabridge-system.svc"


def shake_hands(serving: Serving, bundle: bytes, host: str, directory: Path) -> str:
    """A TLS handshake on loopback the way an API server does it; gives the TLS version. Raises ssl.SSLError."""
    pem = directory / "serving.pem"
    pem.write_bytes(serving.cert_pem + serving.key_pem)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(pem)
    client = ssl.create_default_context(cadata=bundle.decode())
    client.verify_flags |= ssl.VERIFY_X509_STRICT  # the default from Python 3.13 on

    def serve(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection:
            try:
                with server.wrap_socket(connection, server_side=True) as secured:
                    secured.recv(1)
            except OSError:
                return  # the client says why

    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(10)
        thread = threading.Thread(target=serve, args=(listening,))
        thread.start()
        try:
            with (
                socket.create_connection(listening.getsockname(), timeout=10) as plain,
                client.wrap_socket(plain, server_hostname=host) as secured,
            ):
                return secured.version() or ""
        finally:
            thread.join()


def test_an_api_server_that_trusts_the_authority_accepts_the_serving_certificate(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    authority = issue_ca(now)
    serving = issue_serving(authority, [HOST, f"{HOST}.cluster.local"], now)
    for host in (HOST, f"{HOST}.cluster.local"):
        assert shake_hands(serving, authority.cert_pem, host, tmp_path) == "TLSv1.3"


REFUSED_HANDSHAKES = {
    "for another name": (0 * DAY, "another.drabridge-system.svc", "doesn't match|mismatch"),
    "when it is over": (-100 * DAY, HOST, "expired"),
    "before it begins": (1 * DAY, HOST, "not yet valid"),
}


@pytest.mark.parametrize(("shift", "host", "why"), REFUSED_HANDSHAKES.values(), ids=REFUSED_HANDSHAKES)
def test_the_serving_certificate_is_refused(shift: timedelta, host: str, why: str, tmp_path: Path) -> None:
    now = datetime.now(UTC)
    authority = issue_ca(now - 200 * DAY)
    serving = issue_serving(authority, [HOST], now + shift, lifetime=90 * DAY)
    with pytest.raises(ssl.SSLCertVerificationError, match=why):
        shake_hands(serving, authority.cert_pem, host, tmp_path)


def test_another_authority_of_the_same_name_does_not_do(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    serving = issue_serving(issue_ca(now), [HOST], now)
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(serving, issue_ca(now).cert_pem, HOST, tmp_path)


def test_during_a_rotation_a_bundle_of_both_authorities_accepts_certificates_of_either(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    old, new = issue_ca(now - DAY), issue_ca(now)
    for bundle in (old.cert_pem + new.cert_pem, new.cert_pem + old.cert_pem):
        for authority in (old, new):
            assert shake_hands(issue_serving(authority, [HOST], now), bundle, HOST, tmp_path) == "TLSv1.3"


def test_an_api_server_whose_clock_is_five_minutes_behind_accepts_a_new_certificate(tmp_path: Path) -> None:
    # Our clock is ahead by a little less than that, which is the same thing.
    ahead = datetime.now(UTC) + timedelta(minutes=4, seconds=50)
    authority = issue_ca(ahead)
    assert shake_hands(issue_serving(authority, [HOST], ahead), authority.cert_pem, HOST, tmp_path) == "TLSv1.3"


def test_the_authority_says_what_it_is() -> None:
    certificate = x509.load_pem_x509_certificate(issue_ca(NOW, lifetime=10 * DAY).cert_pem)
    assert (certificate.not_valid_before_utc, certificate.not_valid_after_utc) == (
        NOW - timedelta(minutes=5),
        NOW + 10 * DAY,
    )
    assert isinstance(certificate.public_key(), ec.EllipticCurvePublicKey)
    constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    assert (constraints.critical, constraints.value.ca, constraints.value.path_length) == (True, True, 0)
    usage = certificate.extensions.get_extension_for_class(x509.KeyUsage)
    assert (usage.critical, usage.value.key_cert_sign, usage.value.digital_signature) == (True, True, False)


def test_the_serving_certificate_says_what_it_is() -> None:
    authority = issue_ca(NOW)
    serving = issue_serving(authority, [HOST], NOW, lifetime=10 * DAY)
    issuer, certificate = (x509.load_pem_x509_certificate(pem) for pem in (authority.cert_pem, serving.cert_pem))
    found = certificate.extensions
    certificate.verify_directly_issued_by(issuer)
    assert serving.not_after == certificate.not_valid_after_utc == NOW + 10 * DAY
    assert found.get_extension_for_class(x509.BasicConstraints).value.ca is False
    assert list(found.get_extension_for_class(x509.ExtendedKeyUsage).value) == [ExtendedKeyUsageOID.SERVER_AUTH]
    names = found.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == [HOST]
    by = found.get_extension_for_class(x509.AuthorityKeyIdentifier).value.key_identifier
    assert by == issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value.digest


def test_no_certificate_outlives_its_authority() -> None:
    authority = issue_ca(NOW, lifetime=10 * DAY)
    assert issue_serving(authority, [HOST], NOW + DAY, lifetime=90 * DAY).not_after == NOW + 10 * DAY


def test_keys_do_not_show_in_logs() -> None:
    authority = issue_ca(NOW)
    assert "PRIVATE" not in repr(authority)
    assert "PRIVATE" not in repr(issue_serving(authority, [HOST], NOW))


RENEWALS = {
    "just issued": (timedelta(0), False),
    "half over": (15 * DAY, False),
    "a little before two thirds": (20 * DAY - timedelta(minutes=10), False),
    "two thirds over": (20 * DAY, True),
    "long over": (99 * DAY, True),
    "not valid yet, because the clock went back": (-DAY, True),
}


@pytest.mark.parametrize(("age", "want"), RENEWALS.values(), ids=RENEWALS)
def test_a_certificate_is_renewed_when_two_thirds_of_its_life_are_over(age: timedelta, *, want: bool) -> None:
    assert needs_renewal(issue_ca(NOW, lifetime=30 * DAY).cert_pem, NOW + age) is want


def test_what_is_no_certificate_needs_renewal() -> None:
    assert needs_renewal(b"", NOW)
    assert needs_renewal(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", NOW)


def _encrypted(authority: Authority) -> bytes:
    key = load_pem_private_key(authority.key_pem, None)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))


def _ed25519() -> bytes:
    return Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


GOOD = issue_ca(NOW, lifetime=10 * DAY)
LEAF = issue_serving(GOOD, [HOST], NOW)
UNUSABLE = {
    "no certificate": (Authority(b"", GOOD.key_pem), "certificate", "not a certificate"),
    "a damaged certificate": (Authority(GOOD.cert_pem[:99], GOOD.key_pem), "certificate", "not a certificate"),
    "no key": (Authority(GOOD.cert_pem, b""), "private key", "not a private key"),
    "a key with a password": (Authority(GOOD.cert_pem, _encrypted(GOOD)), "private key", "without a password"),
    "a key of another kind": (Authority(GOOD.cert_pem, _ed25519()), "private key", "does not belong"),
    "somebody else's key": (Authority(GOOD.cert_pem, issue_ca(NOW).key_pem), "private key", "does not belong"),
    "a server's certificate": (Authority(LEAF.cert_pem, LEAF.key_pem), "certificate", "not that of an authority"),
    "an authority that is over": (issue_ca(NOW - 99 * DAY, 10 * DAY), "certificate", "was valid until 2026-09-02"),
}


@pytest.mark.parametrize(("authority", "path", "problem"), UNUSABLE.values(), ids=UNUSABLE)
def test_an_authority_that_cannot_sign_is_refused(authority: Authority, path: str, problem: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        issue_serving(authority, [HOST], NOW)
    assert refused.value.path == path
    assert problem in refused.value.problem
    assert "delete the Secret" in refused.value.cure


# --- rotation of authorities

LIFE, OVERLAP, SECOND = 30 * DAY, timedelta(minutes=5), timedelta(seconds=1)
OLD = issue_ca(NOW, LIFE)
NEW = issue_ca(NOW + 21 * DAY, LIFE)
PAST = issue_ca(NOW - 29 * DAY, LIFE)
GARBAGE = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
AFTER_TWO_THIRDS = 20 * DAY


def changed(authorities: Authorities, age: timedelta) -> Authorities:
    return rotated(authorities, NOW + age, LIFE, OVERLAP)


ROTATIONS: dict[str, tuple[Authorities, timedelta, Authorities]] = {
    "a new one": (Authorities(OLD), 0 * DAY, Authorities(OLD)),
    "one before two thirds of its life": (
        Authorities(OLD),
        AFTER_TWO_THIRDS - timedelta(minutes=10),
        Authorities(OLD),
    ),
    "one whose follower is not trusted for long enough": (
        Authorities(OLD, NEW),
        21 * DAY + OVERLAP - SECOND,
        Authorities(OLD, NEW),
    ),
    "one whose follower is trusted for long enough": (
        Authorities(OLD, NEW),
        21 * DAY + OVERLAP,
        Authorities(NEW, None, OLD.cert_pem),
    ),
    "the same while the one before is trusted still": (
        Authorities(OLD, NEW, PAST.cert_pem),
        21 * DAY + OVERLAP,
        Authorities(NEW, None, OLD.cert_pem),
    ),
    "a former one that has not ended": (
        Authorities(NEW, None, OLD.cert_pem),
        LIFE - SECOND,
        Authorities(NEW, None, OLD.cert_pem),
    ),
    "a former one that has ended": (Authorities(NEW, None, OLD.cert_pem), LIFE, Authorities(NEW)),
    "a former one that has ended while a follower waits": (
        Authorities(OLD, NEW, PAST.cert_pem),
        21 * DAY,
        Authorities(OLD, NEW),
    ),
    "a former one that cannot be read": (Authorities(OLD, None, GARBAGE), 1 * DAY, Authorities(OLD)),
    "one that ended while nobody looked": (Authorities(OLD, NEW), 40 * DAY, Authorities(NEW)),
    "one that cannot be read, with a follower": (
        Authorities(Authority(GARBAGE, b""), NEW),
        22 * DAY,
        Authorities(NEW),
    ),
    "a follower that ended while nobody looked, of one that is good": (
        Authorities(NEW, PAST),
        22 * DAY,
        Authorities(NEW),
    ),
    "a follower that cannot be read": (
        Authorities(NEW, Authority(GARBAGE, b""), OLD.cert_pem),
        22 * DAY,
        Authorities(NEW, None, OLD.cert_pem),
    ),
    "a follower from a time that has not come, because the clock went back": (
        Authorities(OLD, NEW),
        1 * DAY,
        Authorities(OLD, NEW),
    ),
}


@pytest.mark.parametrize(("authorities", "age", "want"), ROTATIONS.values(), ids=ROTATIONS)
def test_what_becomes_of_authorities_with_time(authorities: Authorities, age: timedelta, want: Authorities) -> None:
    assert changed(authorities, age) == want
    assert changed(want, age) == want


DUE: dict[str, tuple[Authorities, timedelta]] = {
    "two thirds over": (Authorities(OLD), AFTER_TWO_THIRDS),
    "over": (Authorities(OLD), 31 * DAY),
    "not valid yet, because the clock went back": (Authorities(OLD), -DAY),
    "not readable": (Authorities(Authority(GARBAGE, b"")), 0 * DAY),
    "two thirds over, with a follower that ended": (Authorities(OLD, PAST), AFTER_TWO_THIRDS),
}


@pytest.mark.parametrize(("authorities", "age"), DUE.values(), ids=DUE)
def test_an_authority_that_grows_old_gets_a_follower_which_is_trusted_at_once(
    authorities: Authorities, age: timedelta
) -> None:
    result = changed(authorities, age)
    assert result.current == authorities.current
    assert result.following is not None
    assert result.following not in (None, authorities.following, authorities.current)
    assert result.following.cert_pem in result.bundle
    assert expiry(result.following.cert_pem) == NOW + age + LIFE
    assert changed(result, age) == result


def test_a_bundle_is_made_of_whole_certificates_however_their_files_end() -> None:
    ragged = Authorities(Authority(OLD.cert_pem.strip(), OLD.key_pem), NEW, b"\n" + PAST.cert_pem)
    found = x509.load_pem_x509_certificates(ragged.bundle)
    assert found == [x509.load_pem_x509_certificate(pem.cert_pem) for pem in (OLD, NEW, PAST)]
    assert Authorities(OLD).bundle == OLD.cert_pem


def verifies(serving: Serving, bundle: bytes) -> bool:
    """Whether one of the bundle's authorities signed it; they all have one subject, so that each is tried."""
    certificate = x509.load_pem_x509_certificate(serving.cert_pem)
    for authority in x509.load_pem_x509_certificates(bundle):
        try:
            certificate.verify_directly_issued_by(authority)
        except InvalidSignature:
            continue
        return True
    return False


@dataclass(frozen=True, slots=True)
class Look:
    """What one look of the Lease holder led to: from `at` on, replicas read `authorities` and `bundle` is published."""

    at: datetime
    authorities: Authorities
    serving: Serving
    bundle: bytes


SHORT_LIFE = timedelta(hours=24)
GAPS = st.lists(st.sampled_from([1, 10, 11, 299, 300, 301, 3600]), max_size=6)


def history(gaps: list[int]) -> list[Look]:
    """Three generations and more. No gap is so long that an authority ends before its follower signs."""
    now, authorities, signed = NOW, Authorities(issue_ca(NOW, SHORT_LIFE)), dict[bytes, Serving]()
    looks: list[Look] = []
    for gap in itertools.cycle([*gaps, 7200]):
        authorities = rotated(authorities, now, SHORT_LIFE, OVERLAP)
        if authorities.current.cert_pem not in signed:
            signed[authorities.current.cert_pem] = issue_serving(authorities.current, [HOST], now)
        looks.append(Look(now, authorities, signed[authorities.current.cert_pem], authorities.bundle))
        if len(signed) == 4:
            return looks
        now += timedelta(seconds=gap)
    raise AssertionError


@settings(deadline=None, max_examples=40)
@given(GAPS)
def test_no_api_server_that_learnt_the_bundle_within_the_overlap_refuses_any_replica(gaps: list[int]) -> None:
    """Replicas look at the Secret every ten seconds, so that those of the look before serve on for a while."""
    looks = history(gaps)
    assert [look.authorities.following is not None for look in looks].count(True) >= 3
    for i, look in enumerate(looks):
        published = [
            each.bundle
            for each, following in itertools.pairwise(looks[: i + 1])
            if following.at > look.at - OVERLAP  # it was still the published one then
        ]
        for serving in (look.serving, looks[max(i - 1, 0)].serving):
            assert serving.not_after > look.at
            assert all(verifies(serving, bundle) for bundle in [*published, look.bundle])


def test_without_the_overlap_an_api_server_would_refuse() -> None:
    """The property above can fail: a bundle from before the follower does not do for what it signs."""
    assert not verifies(issue_serving(NEW, [HOST], NOW + 22 * DAY), Authorities(OLD, None, PAST.cert_pem).bundle)


def test_an_api_server_accepts_certificates_of_former_current_and_following_alike(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    former, current, following = (issue_ca(now - age, LIFE) for age in (29 * DAY, 21 * DAY, 0 * DAY))
    bundle = Authorities(current, following, former.cert_pem).bundle
    for authority in (former, current, following):
        assert shake_hands(issue_serving(authority, [HOST], now), bundle, HOST, tmp_path) == "TLSv1.3"
