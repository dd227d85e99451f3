"""Certificates for the admission webhook where nobody else issues them: an authority of our own and what it signs.

Pure issuance: no files, no Secrets, no clock. Where the authority is kept and how the API server learns of it
(`caBundle`) is the caller's business.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from drabridge.core.errors import InvalidInput

AUTHORITY_LIFETIME = timedelta(days=3650)
SERVING_LIFETIME = timedelta(days=90)
SKEW = timedelta(minutes=5)
"""How far certificates are dated back, for API servers whose clock is behind ours."""


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate authority: certificate and private key (PKCS #8, not encrypted), both PEM."""

    cert_pem: bytes
    key_pem: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Serving:
    """A server's certificate and private key (PKCS #8, not encrypted), both PEM; `not_after` is aware, in UTC."""

    cert_pem: bytes
    key_pem: bytes = field(repr=False)
    not_after: datetime


def issue_ca(now: datetime, lifetime: timedelta = AUTHORITY_LIFETIME) -> Authority:
    """Make a new authority (ECDSA P-256) that can sign servers' certificates and nothing below that.

    `now` is aware. Every authority has the same subject; their key identifiers tell old and new apart.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = _named("drabridge webhook authority")
    certificate = (
        _certificate(name, name, key.public_key(), now, now + lifetime)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    return Authority(certificate.public_bytes(Encoding.PEM), _pem(key))


def issue_serving(
    authority: Authority, dns_names: Sequence[str], now: datetime, lifetime: timedelta = SERVING_LIFETIME
) -> Serving:
    """Make a key and have the authority sign a server's certificate for these DNS names.

    It ends with the authority's own at the latest. Raises InvalidInput where the authority cannot sign: it is
    damaged, not an authority, its key belongs to another certificate, or it is over.
    """
    issuer, issuer_key = _opened(authority, now)
    key = ec.generate_private_key(ec.SECP256R1())
    not_after = min(now + lifetime, issuer.not_valid_after_utc)
    builder = _certificate(_named("drabridge webhook"), issuer.subject, key.public_key(), now, not_after).add_extension(
        x509.SubjectAlternativeName([x509.DNSName(name) for name in dns_names]), critical=False
    )
    return _signed(builder, key, issuer_key, ExtendedKeyUsageOID.SERVER_AUTH)


def _signed(
    builder: x509.CertificateBuilder,
    key: ec.EllipticCurvePrivateKey,
    issuer_key: ec.EllipticCurvePrivateKey,
    purpose: x509.ObjectIdentifier,
) -> Serving:
    certificate = (
        builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()),
            critical=False,
        )
        .sign(issuer_key, hashes.SHA256())
    )
    return Serving(certificate.public_bytes(Encoding.PEM), _pem(key), certificate.not_valid_after_utc)


def issue_client(
    authority: Authority, common_name: str, now: datetime, lifetime: timedelta = SERVING_LIFETIME
) -> Serving:
    """Make a key and have the authority sign the certificate of a client. It cannot be used by a server.

    Raises InvalidInput as `issue_serving` does.
    """
    issuer, issuer_key = _opened(authority, now)
    key = ec.generate_private_key(ec.SECP256R1())
    not_after = min(now + lifetime, issuer.not_valid_after_utc)
    builder = _certificate(_named(common_name), issuer.subject, key.public_key(), now, not_after)
    return _signed(builder, key, issuer_key, ExtendedKeyUsageOID.CLIENT_AUTH)


def is_signed_by(cert_pem: bytes, authority: Authority) -> bool:
    """Say whether an authority has signed a certificate."""
    try:
        certificate = x509.load_pem_x509_certificate(cert_pem)
        certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.cert_pem))
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def needs_renewal(cert_pem: bytes, now: datetime) -> bool:
    """Say whether two thirds of a certificate's life are over; also if it is not valid yet, or is not a certificate."""
    try:
        certificate = x509.load_pem_x509_certificate(cert_pem)
    except ValueError:
        return True
    start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return not start <= now < start + (end - start) * 2 / 3


@dataclass(frozen=True, slots=True)
class Authorities:
    """The authority that signs, the one that will, and the certificate of the one that did until lately.

    All three are trusted, so that certificates of the old and the new one are, whichever a replica still has.
    """

    current: Authority
    following: Authority | None = None
    former: bytes = b""

    @property
    def bundle(self) -> bytes:
        """What API servers are to trust: PEM certificates, one after the other, each on lines of its own."""
        following = self.following.cert_pem if self.following else b""
        return b"".join(each.strip() + b"\n" for each in (self.current.cert_pem, following, self.former) if each)


def rotated(authorities: Authorities, now: datetime, lifetime: timedelta, overlap: timedelta) -> Authorities:
    """What the authorities should be at `now`; the same if nothing is to be done.

    After two thirds of its life an authority gets a follower, which is only trusted at first. It signs when it has been
    trusted for `overlap`; by then every API server knows it. The former one is trusted until it ends. A follower and a
    former one that have ended, or cannot be read, are forgotten.
    """
    current, following = authorities.current, authorities.following
    former = b"" if _unusable_now(authorities.former, now) else authorities.former
    if following is None or _unusable_now(following.cert_pem, now):
        return Authorities(current, issue_ca(now, lifetime) if needs_renewal(current.cert_pem, now) else None, former)
    if now >= x509.load_pem_x509_certificate(following.cert_pem).not_valid_before_utc + SKEW + overlap:
        return Authorities(following, None, b"" if _unusable_now(current.cert_pem, now) else current.cert_pem)
    return Authorities(current, following, former)


def is_certificate(cert_pem: bytes) -> bool:
    """Say whether this can be read as a certificate in PEM."""
    try:
        x509.load_pem_x509_certificate(cert_pem)
    except ValueError:
        return False
    return True


def expiry(cert_pem: bytes) -> datetime:
    """When a certificate ends, aware, in UTC."""
    return x509.load_pem_x509_certificate(cert_pem).not_valid_after_utc


def _unusable_now(cert_pem: bytes, now: datetime) -> bool:
    return not is_certificate(cert_pem) or expiry(cert_pem) <= now


def _certificate(
    subject: x509.Name,
    issuer: x509.Name,
    public_key: ec.EllipticCurvePublicKey,
    now: datetime,
    not_after: datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(not_after)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _opened(authority: Authority, now: datetime) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    try:
        certificate = x509.load_pem_x509_certificate(authority.cert_pem)
    except ValueError as error:
        raise _unusable("certificate", "is not a certificate in PEM") from error
    try:
        key = load_pem_private_key(authority.key_pem, password=None)
    except (ValueError, TypeError) as error:  # TypeError: it is encrypted
        raise _unusable("private key", "is not a private key in PEM without a password") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
        raise _unusable("private key", "does not belong to the certificate")
    constraints = certificate.extensions
    try:
        is_authority = constraints.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        is_authority = False
    if not is_authority:
        raise _unusable("certificate", "is not that of an authority")
    if certificate.not_valid_after_utc <= now:
        raise _unusable("certificate", f"was valid until {certificate.not_valid_after_utc:%Y-%m-%dT%H:%M:%SZ} only")
    return certificate, key


def _unusable(path: str, problem: str) -> InvalidInput:
    return InvalidInput(
        "webhook authority", path, problem, "delete the Secret that holds it: drabridge makes a new one"
    )


def _named(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
