"""The extender over TLS, with real sockets and certificates."""

import asyncio
import shutil
import ssl
import subprocess

import httpx
import pytest
from tests.web.test_extender import asked, scheduler

from numalign.core.errors import ConfigError
from numalign.web import extender

pytestmark = [pytest.mark.e2e, pytest.mark.e2e_quick]


@pytest.fixture
def certificates(tmp_path):
    """One key and certificate that signs itself, for both sides."""
    if shutil.which("openssl") is None:
        pytest.skip("needs the openssl program, to make a certificate")
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    command += ["-keyout", str(key), "-out", str(certificate), "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(command, check=True, capture_output=True)
    return certificate, key


def test_only_who_has_a_certificate_is_answered(certificates):
    certificate, key = certificates

    async def story() -> None:
        where: asyncio.Queue[str] = asyncio.Queue()
        tls = extender.Tls(certificate, key, client_authority=certificate)
        serving = asyncio.create_task(
            extender.serve(scheduler(), ("127.0.0.1", 0), tls=tls, on_started=where.put_nowait)
        )
        address = await where.get()
        assert address.startswith("https://127.0.0.1:")
        context = ssl.create_default_context(cafile=certificate)
        async with httpx.AsyncClient(verify=context) as stranger:
            with pytest.raises(httpx.TransportError):
                await stranger.post(f"{address}/scheduler/filter", content=asked("w1"))
        context.load_cert_chain(certificate, key)
        async with httpx.AsyncClient(verify=context) as known:
            answer = await known.post(f"{address}/scheduler/filter", content=asked("w1"))
            assert answer.json()["NodeNames"] == ["w1"]
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)

    asyncio.run(story())


def test_a_key_that_is_none_is_told_before_anything_listens(certificates, tmp_path):
    (tmp_path / "empty").write_text("")
    tls = extender.Tls(certificates[0], tmp_path / "empty")
    with pytest.raises(ConfigError, match="cannot use this certificate"):
        asyncio.run(extender.serve(scheduler(), ("127.0.0.1", 0), tls=tls))
