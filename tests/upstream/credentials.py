"""A certificate authority and the kubeconfigs that rest on it."""

from __future__ import annotations

import base64
import ipaddress
import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

LIFETIME = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key, PEM."""

    certificate: str
    key: str

    def write(self, directory: Path, name: str) -> tuple[Path, Path]:
        """Store both as `name`.crt and `name`.key; give the two paths."""
        return write_private(directory / f"{name}.crt", self.certificate), write_private(
            directory / f"{name}.key", self.key
        )


class Authority:
    """A certificate authority that lives as long as the cluster it was made for."""

    def __init__(self, name: str = "kubernetes") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name, ())
        usage = x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=True,
            crl_sign=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        certificate = (
            _builder(self._name, self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.pair = KeyPair(_pem(certificate), private_key_pem(self._key))

    @property
    def bundle(self) -> str:
        """The certificate as `caBundle` fields have it: PEM in base64."""
        return _base64(self.pair.certificate)

    def issue(self, common_name: str, *, organizations: Sequence[str] = (), hosts: Sequence[str] = ()) -> KeyPair:
        """Issue a certificate: to a client (user `common_name`, groups `organizations`) or to a server on `hosts`."""
        key = ec.generate_private_key(ec.SECP256R1())
        usages = [ExtendedKeyUsageOID.SERVER_AUTH if hosts else ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = (
            _builder(_name(common_name, organizations), self._name, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
        )
        if hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False
            )
        return KeyPair(_pem(builder.sign(self._key, hashes.SHA256())), private_key_pem(key))


def private_key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    """Give a private key as PKCS #8 PEM, not encrypted."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


def service_account_keys(directory: Path) -> tuple[Path, Path]:
    """Make the key pair that signs ServiceAccount tokens; give the paths of the private and the public key."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return (
        write_private(directory / "service-accounts.key", private_key_pem(key)),
        write_private(directory / "service-accounts.pub", public.decode()),
    )


def user_of(pair: KeyPair) -> dict[str, str]:
    """Give the kubeconfig user that proves itself with a client certificate."""
    return {"client-certificate-data": _base64(pair.certificate), "client-key-data": _base64(pair.key)}


def write_kubeconfig(path: Path, *, server: str, authority: str, user: Mapping[str, str]) -> Path:
    """Write a kubeconfig that needs no other file. `authority` is PEM, `user` as in a kubeconfig's `users[].user`."""
    cluster = {"server": server, "certificate-authority-data": _base64(authority)}
    config: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "drabridge", "cluster": cluster}],
        "users": [{"name": path.stem, "user": dict(user)}],
        "contexts": [{"name": "drabridge", "context": {"cluster": "drabridge", "user": path.stem}}],
        "current-context": "drabridge",
    }
    return write_private(path, json.dumps(config, indent=2))


def write_private(path: Path, text: str) -> Path:
    """Write a file that only its owner may read."""
    path.touch(mode=0o600)
    path.write_text(text)
    return path


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _name(common_name: str, organizations: Sequence[str]) -> x509.Name:
    return x509.Name(
        [
            *(x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in organizations),
            x509.NameAttribute(NameOID.COMMON_NAME, common_name),
        ]
    )


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + LIFETIME)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )
