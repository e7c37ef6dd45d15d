"""TLS of the servers: their certificate and, where an authority is given, that of the clients."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

from numalign.core.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Tls:
    """The certificate of the server, and the authority of allowed clients; None: everybody."""

    certificate: Path
    key: Path
    client_authority: Path | None = None


def tls_of(certificate: Path | None, key: Path | None, client_authority: Path | None) -> Tls | None:
    """What --tls-cert, --tls-key and --tls-client-ca say; ConfigError if that is half of it."""
    if certificate is None and key is None and client_authority is None:
        return None
    if certificate is None or key is None:
        raise ConfigError("--tls-cert and --tls-key belong together: give both")
    return Tls(certificate, key, client_authority)


def tls_context(tls: Tls) -> ssl.SSLContext:
    """TLS 1.2 or newer, with a client certificate where an authority for them is given."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(tls.certificate, tls.key)
        if tls.client_authority is not None:
            context.load_verify_locations(tls.client_authority)
            context.verify_mode = ssl.CERT_REQUIRED
    except (OSError, ssl.SSLError) as exc:
        raise ConfigError(
            f"{tls.certificate}, {tls.key}: cannot use this certificate: {exc.strerror or exc}."
        ) from exc
    return context
