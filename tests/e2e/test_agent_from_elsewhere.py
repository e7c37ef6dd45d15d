"""A real agent that other hosts can reach: only with TLS, a token and a name that it has."""

import contextlib
import http.server
import os
import socket
import ssl
import subprocess
import sys
import threading

import httpx
import pytest
from tests.apps.agent.processes import AgentProcess, manifest
from tests.web.certificates import self_signed

from numalign.adapters.local.agent_client import is_this_host

pytestmark = [pytest.mark.e2e, pytest.mark.e2e_quick]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    return self_signed(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def remote(certificate):
    """An agent on all addresses."""
    tls = ["--tls-cert", str(certificate[0]), "--tls-key", str(certificate[1])]
    arguments = ["--listen", "0.0.0.0:0", *tls, "--allowed-host", "numa-1.example"]
    with AgentProcess(arguments=arguments) as agent:
        yield agent


@pytest.fixture
def client(remote, certificate):
    port = remote.tcp().rpartition(":")[2]
    context = ssl.create_default_context(cafile=certificate[0])
    with httpx.Client(base_url=f"https://127.0.0.1:{port}", verify=context, timeout=60) as found:
        yield found


def bearer(agent, name):
    return {"authorization": f"Bearer {(agent.state / name).read_text().strip()}"}


def test_without_a_token_nothing_is_told(remote, client):
    for path in ("/metrics", "/healthz", "/readyz", "/pods", "/", "/openapi.json"):
        answer = client.get(path)
        assert answer.status_code == 401, path
        assert "read-token" in answer.json()["error"]
    assert client.get("/metrics", headers={"authorization": "Bearer wrong"}).status_code == 401


def test_the_token_for_reading_scrapes_and_changes_nothing(remote, client):
    pod = manifest("secret")
    pod["spec"]["containers"][0]["env"] = [{"name": "PASSWORD", "value": "hunter2"}]
    assert remote.apply(pod).status_code == 201
    reader = bearer(remote, "read-token")
    assert "numalign_" in client.get("/metrics", headers=reader).text
    assert client.get("/healthz", headers=reader).status_code == 200
    shown = client.get("/pods", headers=reader)
    assert (shown.status_code, "hunter2" in shown.text) == (200, False)
    assert client.delete("/pods?name=secret", headers=reader).status_code == 401
    uid = shown.json()["items"][0]["metadata"]["uid"]
    assert client.get(f"/pods/{uid}/log", headers=reader).status_code == 401
    owner = bearer(remote, "api-token")
    assert "hunter2" in client.get("/pods", headers=owner).text
    assert client.delete("/pods?name=secret", headers=owner).status_code in {200, 202}


def test_only_names_of_this_host_are_answered(remote, client):
    reader = bearer(remote, "read-token")
    own = socket.gethostname()
    for name in ("127.0.0.1:1", "localhost", "numa-1.example:8443", "NUMA-1.example", own):
        assert client.get("/healthz", headers={**reader, "host": name}).status_code == 200, name
    for name in ("evil.example", "numa-1.example.evil", "[::1].evil"):
        answer = client.get("/healthz", headers={**reader, "host": name})
        assert answer.status_code == 421, name
        assert "--allowed-host" in answer.json()["error"]


def test_plain_http_is_not_spoken_there(remote):
    port = int(remote.tcp().rpartition(":")[2])
    with pytest.raises(httpx.TransportError):
        httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=60)


def test_the_command_line_reaches_it_with_its_token(remote, certificate):
    url = f"https://localhost:{remote.tcp().rpartition(':')[2]}"
    token = (remote.state / "api-token").read_text().strip()
    found = numalign(
        "get", "pods", "--server", url, NUMALIGN_TOKEN=token, SSL_CERT_FILE=str(certificate[0])
    )
    assert found.returncode == 0, found.stderr


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0"])
def test_an_address_for_others_without_tls_is_refused(address, tmp_path):
    tmp_path.chmod(0o700)
    found = numalign("agent", "--listen", address, "--state-dir", str(tmp_path / "s"))
    assert found.returncode == 2
    assert "--tls-cert and --tls-key" in found.stderr
    assert found.stderr.count("error:") == 1


def numalign(*arguments, before=(), **environment):
    command = [*before, sys.executable, "-m", "numalign", *arguments]
    given = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", **environment}
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        env=given,
        timeout=60,
        check=False,
    )


# What the command line tells whom.


@pytest.mark.parametrize(
    ("url", "stays"),
    [
        ("http://127.0.0.1:8421", True),
        ("http://127.8.9.1", True),
        ("http://localhost:8421", True),
        ("http://[::1]:8421", True),
        ("http://elsewhere:8421", False),
        ("http://192.0.2.1", False),
        ("http://127.0.0.1.evil", False),
        ("http://localhost.evil", False),
        ("http://localhost@evil", False),
        ("http://evil/127.0.0.1", False),
    ],
)
def test_only_loopback_is_this_host(url, stays):
    assert is_this_host(url) is stays


class Listener(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.heard.append(self.headers.get("authorization"))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"items": []}')

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def answering(address):
    """A server that keeps what it was told of tokens."""
    with http.server.HTTPServer((address, 0), Listener) as server:
        server.heard = []
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def elsewhere():
    """A server on an address of this host that is not loopback, as a stranger's would be."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this host has no address but loopback")
        address = probe.getsockname()[0]
    with answering(address) as server:
        yield server


@pytest.fixture
def with_token(tmp_path):
    """How to run a command for a user whose agent has left a token in the usual place."""
    write = "umask 077; mkdir -p {0} && echo of-this-host > {0}/api-token"
    if os.geteuid() != 0:
        tmp_path.chmod(0o700)
        subprocess.run(["sh", "-c", write.format(tmp_path / "numalign")], check=True)
        return {"XDG_STATE_HOME": str(tmp_path)}
    # Root's place is the same everywhere, so the command gets a /var/lib of its own.
    own = "mount -t tmpfs -o mode=0755 tmpfs /var/lib && " + write.format("/var/lib/numalign")
    before = ["unshare", "--mount", "sh", "-c", f'{own} && exec "$@"', "sh"]
    if subprocess.run([*before, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this host does not let us mount a tmpfs")
    return {"before": before}


def test_the_token_of_this_host_is_not_sent_elsewhere(elsewhere, with_token):
    url = "http://{}:{}".format(*elsewhere.server_address)
    for environment in ({}, {"NUMALIGN_TOKEN": "mine"}):
        found = numalign("get", "pods", "--server", url, **with_token, **environment)
        assert found.returncode == 0, found.stderr
    assert elsewhere.heard == [None, "Bearer mine"]


def test_the_token_of_this_host_is_sent_to_loopback(with_token):
    with answering("127.0.0.1") as server:
        url = "http://{}:{}".format(*server.server_address)
        assert numalign("get", "pods", "--server", url, **with_token).returncode == 0
        assert server.heard == ["Bearer of-this-host"]
