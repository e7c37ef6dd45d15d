"""The extender over TLS, with real sockets and certificates."""

import asyncio
import ssl

import httpx
import pytest
from tests.web.certificates import self_signed
from tests.web.test_extender import JSON, asked, scheduler

from numalign.core.errors import ConfigError
from numalign.web import extender

pytestmark = [pytest.mark.e2e, pytest.mark.e2e_quick]


@pytest.fixture
def certificates(tmp_path):
    """One key and certificate that signs itself, for both sides."""
    return self_signed(tmp_path)


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
        verb = f"{address}/scheduler/filter"
        context = ssl.create_default_context(cafile=certificate)
        async with httpx.AsyncClient(verify=context) as stranger:
            with pytest.raises(httpx.TransportError):
                await stranger.post(verb, content=asked("w1"), headers=JSON)
        context.load_cert_chain(certificate, key)
        async with httpx.AsyncClient(verify=context) as known:
            answer = await known.post(verb, content=asked("w1"), headers=JSON)
            assert answer.json()["NodeNames"] == ["w1"]
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)

    asyncio.run(story())


def test_a_key_that_is_none_is_told_before_anything_listens(certificates, tmp_path):
    (tmp_path / "empty").write_text("")
    tls = extender.Tls(certificates[0], tmp_path / "empty")
    with pytest.raises(ConfigError, match="cannot use this certificate"):
        asyncio.run(extender.serve(scheduler(), ("127.0.0.1", 0), tls=tls))
