"""TLS between the processes of a job, by nothing but its secret.

Whoever holds the secret derives the same certificate authority from it, and signs a certificate of its own for each
connection's end. So both ends know each other to hold the secret, which is never sent; nobody else completes a
handshake; and there are no further files to hand out. Derivation: HKDF (RFC 5869) with SHA-256, reduced to a private
key of P-256 with 128 bits to spare (FIPS 186-5, A.2.1).
"""

import datetime
import os
import ssl
from typing import NamedTuple

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

#: What each certificate is for; addresses say nothing, as an Application Master may come back anywhere.
NAME = "job.afo"
#: Of each channel.
OPTIONS = (("grpc.ssl_target_name_override", NAME),)
_CURVE = ec.SECP256R1()
_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
_INFO = b"afo rpc authority 1"
_ISSUER = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "afo job")])
#: A certificate is good while the secret is: clocks of nodes that differ must not end a job.
_FROM, _UNTIL = (datetime.datetime(year, 1, 1, tzinfo=datetime.UTC) for year in (2000, 2100))


class End(NamedTuple):
    """PEM of one end of a connection. The key is repeated nowhere."""

    authority: bytes
    key: bytes
    certificate: bytes


def server_credentials(secret: str) -> grpc.ServerCredentials:
    """Of a server that talks to holders of the secret alone."""
    end = end_of(secret)
    return grpc.ssl_server_credentials([(end.key, end.certificate)], end.authority, require_client_auth=True)


def channel_credentials(secret: str) -> grpc.ChannelCredentials:
    """Of a channel to a server that holds the secret, or to nobody; the channel needs `OPTIONS`."""
    end = end_of(secret)
    return grpc.ssl_channel_credentials(end.authority, end.key, end.certificate)


def server_context(secret: str) -> ssl.SSLContext:
    """The same for a server that speaks something else than gRPC."""
    return _context(ssl.PROTOCOL_TLS_SERVER, end_of(secret))


def client_context(secret: str) -> ssl.SSLContext:
    """Its clients'; they ask for `NAME`."""
    return _context(ssl.PROTOCOL_TLS_CLIENT, end_of(secret))


def _context(protocol: int, end: End) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=end.authority.decode())
    # The library takes a file alone; this one has no name, and is gone with its descriptor.
    with os.fdopen(os.memfd_create("afo-end"), "wb") as file:
        file.write(end.key + end.certificate)
        file.flush()
        context.load_cert_chain(f"/proc/self/fd/{file.fileno()}")
    return context


def end_of(secret: str) -> End:
    """For whoever speaks something else than gRPC, without Python."""
    authority, own = _authority(secret), ec.generate_private_key(_CURVE)
    signed = _certificate(own.public_key(), authority, x509.SubjectAlternativeName([x509.DNSName(NAME)]))
    trusted = _certificate(authority.public_key(), authority, x509.BasicConstraints(ca=True, path_length=0))
    key = own.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return End(trusted.public_bytes(Encoding.PEM), key, signed.public_bytes(Encoding.PEM))


def _authority(secret: str) -> ec.EllipticCurvePrivateKey:
    derived = HKDF(hashes.SHA256(), 48, salt=None, info=_INFO).derive(secret.encode())
    return ec.derive_private_key(int.from_bytes(derived) % (_ORDER - 1) + 1, _CURVE)


def _certificate(
    key: ec.EllipticCurvePublicKey, authority: ec.EllipticCurvePrivateKey, extension: x509.ExtensionType
) -> x509.Certificate:
    is_authority = isinstance(extension, x509.BasicConstraints)
    subject = _ISSUER if is_authority else x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, NAME)])
    builder = x509.CertificateBuilder(issuer_name=_ISSUER, subject_name=subject, public_key=key)
    builder = builder.serial_number(x509.random_serial_number()).not_valid_before(_FROM).not_valid_after(_UNTIL)
    return builder.add_extension(extension, critical=is_authority).sign(authority, hashes.SHA256())
