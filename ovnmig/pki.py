"""A small certificate authority for agents and controllers, and the TLS contexts made from its files.

A certificate carries who its holder is as a URI name: ``ovnmig:chassis/<name>`` or
``ovnmig:controller/<name>``, the name percent-encoded, so any name OVN allows can be certified. Host names
are not used: a peer is who its certificate says, wherever it runs.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from typing_extensions import override

_SCHEME = "ovnmig:"
_CLOCK_SKEW = timedelta(hours=1)
CA_DAYS = 3650
CERTIFICATE_DAYS = 825


class PkiError(ValueError):
    """The files or the certificate are not usable; the text says why and what to do."""


class Role(StrEnum):
    """What the holder of a certificate may do: give orders, or take them and stream sessions."""

    CONTROLLER = "controller"
    CHASSIS = "chassis"


@dataclass(frozen=True, slots=True)
class Identity:
    """Who holds a certificate."""

    role: Role
    name: str

    @property
    def uri(self) -> str:
        """The URI name put into the certificate."""
        return f"{_SCHEME}{self.role.value}/{quote(self.name, safe='')}"

    @override
    def __str__(self) -> str:
        return f"{self.role.value} {self.name!r}"


@dataclass(frozen=True, slots=True)
class KeyFiles:
    """The three files a program needs to speak TLS: the CA it trusts, its own certificate and key."""

    ca: Path
    certificate: Path
    key: Path

    @classmethod
    def of(cls, directory: Path, name: str) -> KeyFiles:
        """The files :func:`issue` made for ``name`` in ``directory``."""
        return cls(directory / "ca.crt", directory / f"{name}.crt", directory / f"{name}.key")

    def check(self) -> None:
        """Raise :class:`PkiError` naming the first file that is missing or unreadable."""
        for path in (self.ca, self.certificate, self.key):
            if not path.is_file():
                raise PkiError(f"{path} is missing: make it with 'ovnmig pki' and copy it here")
            if not os.access(path, os.R_OK):
                raise PkiError(f"{path} cannot be read by this user: give the service user read access")


def parse_identity(certificate: dict[str, Any] | None) -> Identity:
    """Who a peer is, from :meth:`ssl.SSLSocket.getpeercert`.

    Raises :class:`PkiError` when the certificate does not say.
    """
    names = (certificate or {}).get("subjectAltName", ())
    for kind, value in names:
        if kind != "URI" or not value.startswith(_SCHEME):
            continue
        role, _, name = value[len(_SCHEME) :].partition("/")
        if role in {known.value for known in Role} and name:
            return Identity(Role(role), unquote(name))
    raise PkiError("the peer's certificate names neither a chassis nor a controller of ovnmig")


def certificate_identity(path: Path) -> Identity:
    """Who a certificate file is for. Raises :class:`PkiError`."""
    try:
        extensions = x509.load_pem_x509_certificate(path.read_bytes()).extensions
        names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, x509.ExtensionNotFound) as error:
        raise PkiError(f"{path} is not a certificate of ovnmig: {error}") from None
    uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    try:
        return parse_identity({"subjectAltName": [("URI", uri) for uri in uris]})
    except PkiError:
        raise PkiError(f"{path} names neither a chassis nor a controller of ovnmig") from None


def init_ca(directory: Path, name: str = "ovnmig CA") -> None:
    """Make ``ca.crt`` and ``ca.key`` in ``directory`` (mode 0700 if created). Never overwrites."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])
    certificate = (
        _builder(subject, subject, key.public_key(), CA_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(ca=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    _write_pair(directory, "ca", certificate, key)


def issue(
    directory: Path,
    identity: Identity,
    addresses: Sequence[IPv4Address | IPv6Address] = (),
    days: int = CERTIFICATE_DAYS,
) -> KeyFiles:
    """Make ``<name>.crt`` and ``<name>.key``, signed by the CA in ``directory``. Never overwrites.

    ``addresses`` become IP names, for people who look with ordinary tools; ovnmig itself checks the URI name
    only. Raises :class:`PkiError` on a name that cannot be a file name, an existing file, or a missing or
    foreign CA.
    """
    _check_name(identity.name)
    ca_certificate, ca_key = _load_ca(directory)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, identity.name[:64])])
    names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(identity.uri)]
    names += [x509.IPAddress(address) for address in addresses]
    authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key())
    both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    certificate = (
        _builder(subject, ca_certificate.subject, key.public_key(), days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(ca=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(both), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(authority, critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    _write_pair(directory, identity.name, certificate, key)
    return KeyFiles.of(directory, identity.name)


def server_context(files: KeyFiles) -> ssl.SSLContext:
    """TLS 1.3 server that demands a certificate of the CA from every client."""
    files.check()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    _load(context, files)
    return context


def client_context(files: KeyFiles, expected: Identity) -> ssl.SSLContext:
    """TLS 1.3 client that finishes the handshake only with ``expected``: nothing is sent to anybody else."""
    files.check()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    _load(context, files)

    class Checked(ssl.SSLObject):
        @override
        def do_handshake(self) -> None:
            super().do_handshake()
            try:
                found = parse_identity(self.getpeercert())
            except PkiError as error:
                raise ssl.SSLCertVerificationError(1, str(error)) from None
            if found != expected:
                text = f"the peer's certificate is for {found}, not {expected}"
                raise ssl.SSLCertVerificationError(1, text)

    context.sslobject_class = Checked
    return context


def _load(context: ssl.SSLContext, files: KeyFiles) -> None:
    try:
        context.load_verify_locations(cafile=files.ca)
        context.load_cert_chain(files.certificate, files.key)
    except ssl.SSLError as error:
        files_text = f"{files.certificate}, {files.key} and {files.ca}"
        raise PkiError(f"{files_text} do not fit together: {error}") from error


def _builder(
    subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)  # nodes whose clocks lag a little accept a fresh certificate
        .not_valid_after(now + timedelta(days=days))
    )


def _usage(*, ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=ca,
        crl_sign=ca,
        encipher_only=False,
        decipher_only=False,
    )


def _check_name(name: str) -> None:
    if not name or "/" in name or "\0" in name or name in {".", "..", "ca"}:
        raise PkiError(f"{name!r} cannot be the name of a certificate: use the chassis name, without '/'")
    if not name.isprintable():
        raise PkiError(f"{name!r} cannot be the name of a certificate: it holds characters nobody can see")


def _load_ca(directory: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    try:
        certificate = x509.load_pem_x509_certificate((directory / "ca.crt").read_bytes())
        key = serialization.load_pem_private_key((directory / "ca.key").read_bytes(), password=None)
    except FileNotFoundError as error:
        raise PkiError(f"{error.filename} is missing: make the CA first with 'ovnmig pki init'") from None
    except ValueError as error:
        raise PkiError(f"the CA in {directory} cannot be read: {error}") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey) or certificate.public_key() != key.public_key():
        raise PkiError(f"ca.crt and ca.key in {directory} do not belong together or were not made by ovnmig")
    return certificate, key


def _write_pair(
    directory: Path, stem: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey
) -> None:
    certificate_path, key_path = directory / f"{stem}.crt", directory / f"{stem}.key"
    for path in (certificate_path, key_path):
        if path.exists():
            raise PkiError(f"{path} exists and is not overwritten: remove it first to replace it")
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    _write_new(key_path, pem, 0o600)
    _write_new(certificate_path, certificate.public_bytes(serialization.Encoding.PEM), 0o644)


def _write_new(path: Path, content: bytes, mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
