"""The way to a cluster: kubeconfig, in-cluster account, log-in programs and TLS, by lightkube."""

from __future__ import annotations

import os
import ssl
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import httpx2
import msgspec
from lightkube.config.client_adapter import ConnectionParams
from lightkube.config.kubeconfig import KubeConfig, SingleConfig
from lightkube.config.models import User
from lightkube.core.exceptions import ConfigError as LightkubeConfigError

from numalign.adapters.kubernetes.fast_lane import Address, FastLane
from numalign.core.errors import ConfigError, WireError
from numalign.wire import yaml as plain_yaml

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True)
class Connected:
    """The ways to one server, and the namespace that goes with it."""

    http: httpx2.AsyncClient
    lane: FastLane | None  # None: the server is behind a proxy
    namespace: str


def connected(kubeconfig: Path | None, context: str | None, timeout: httpx2.Timeout) -> Connected:
    """Clients of the server that is named."""
    try:
        config = _config(kubeconfig, context)
        params = ConnectionParams(timeout=timeout).httpx_params(_with_user(config))
        http = httpx2.AsyncClient(**params)
        lane = _lane(str(params["base_url"]), params["verify"])
    except (LightkubeConfigError, WireError, OSError, LookupError, TypeError, ValueError) as exc:
        raise ConfigError(
            f"{kubeconfig or 'the way to the cluster'}: {_words(exc)}. "
            "Give a kubeconfig file with --kubeconfig or KUBECONFIG, or run in a pod."
        ) from exc
    return Connected(http, lane, config.namespace)


def _lane(server: str, tls: ssl.SSLContext) -> FastLane | None:
    """The short way to a server, unless the environment names a proxy for it."""
    where = urlsplit(server)
    host = where.hostname
    proxies = urllib.request.getproxies()
    is_direct = not proxies.keys() & {where.scheme, "all"}
    if host is None or not (is_direct or urllib.request.proxy_bypass(host)):
        return None
    is_tls = where.scheme == "https"
    port = where.port or (443 if is_tls else 80)
    return FastLane(Address(host, port, where.path.rstrip("/"), tls if is_tls else None))


def _config(kubeconfig: Path | None, context: str | None) -> SingleConfig:
    """As kubectl, a file that somebody names comes first; then the pod that we run in."""
    named = kubeconfig or next(filter(None, os.environ.get("KUBECONFIG", "").split(":")), None)
    in_pod = not named and context is None and (SERVICE_ACCOUNT / "token").exists()
    if in_pod:
        found = KubeConfig.from_service_account(SERVICE_ACCOUNT).get()
    else:
        found = _from_file(Path(named or "~/.kube/config").expanduser()).get(context)
    assert found is not None, "lightkube raises where there is no context"
    return found


def _from_file(path: Path) -> KubeConfig:
    with path.open("rb") as stream:
        content = plain_yaml.load(stream.read(plain_yaml.SIZE_BYTES_MAX + 1))
    if not isinstance(content, dict):
        raise TypeError("found no kubeconfig, expected a map with clusters, users and contexts")
    return KubeConfig.from_dict(content, path)


def _words(exc: Exception) -> str:
    if isinstance(exc, OSError):
        return exc.strerror or str(exc)
    if isinstance(exc, KeyError):
        return f"found no {exc.args[0]}"
    return str(exc) or type(exc).__name__


def _with_user(config: SingleConfig) -> SingleConfig:
    user = config.user or User()
    program = user.exec
    # What lightkube does with v1beta1 is right for v1 too, which it does not know by name.
    if program is not None and program.apiVersion == "client.authentication.k8s.io/v1":
        program = msgspec.structs.replace(
            program, apiVersion="client.authentication.k8s.io/v1beta1"
        )
        user = msgspec.structs.replace(user, exec=program)
    return config._replace(user=user)
