"""The API over real sockets: who may do what, what is bounded, and what comes back."""

import json
import os
import socket
import stat
import time
from pathlib import Path

import httpx
import pytest
from tests.sockets import short_directory
from tests.web.in_memory_agent import TOKEN, InMemoryAgent, manifest, served
from tests.web.schemas import faults

from numalign.adapters.local import paths
from numalign.apps.agent.notes import DriftRepaired
from numalign.core.errors import ConfigError
from numalign.web.api import Api
from numalign.web.application import application
from numalign.web.openapi import PATHS
from numalign.web.page import CONTENT_POLICY, PAGE
from numalign.web.requests import Access
from numalign.web.serving.limits import Limits
from numalign.web.serving.listeners import tcp_listener, unix_listener

BEARER = {"authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    directory = tmp_path_factory.mktemp("api")
    with short_directory() as short, served(InMemoryAgent(directory), short) as found:
        yield found


@pytest.fixture(autouse=True)
def _empty(request):
    yield
    if "host" in request.fixturenames:
        host = request.getfixturevalue("host")
        for uid in list(host.agent.state.pods):
            host.do(host.agent.delete(uid))


@pytest.fixture
def unix(host):
    with over(host) as client:
        yield client


@pytest.fixture
def tcp(host):
    with httpx.Client(base_url=host.tcp, trust_env=False, timeout=10, verify=False) as client:
        yield client


def over(host):
    transport = httpx.HTTPTransport(uds=str(host.socket), verify=False)
    return httpx.Client(transport=transport, base_url="http://agent", timeout=10)


@pytest.fixture
def bounded(tmp_path, short_path):
    """Servers with other limits, one after the other."""
    from contextlib import ExitStack

    with ExitStack() as stack:

        def start(**limits):
            agent = InMemoryAgent(tmp_path)
            return stack.enter_context(served(agent, short_path, limits=Limits(**limits)))

        yield start


def created(client, *args, **more):
    answer = client.post("/pods", json=manifest(*args, **more))
    assert answer.status_code == 201, answer.text
    return answer.json()


# Looking.


def test_a_created_pod_is_in_the_list_and_on_its_own_page(unix):
    pod = created(unix, "web")
    uid = pod["metadata"]["uid"]
    listed = unix.get("/pods").json()
    assert (listed["kind"], listed["apiVersion"]) == ("PodList", "v1")
    assert [item["metadata"]["uid"] for item in listed["items"]] == [uid]
    assert unix.get(f"/pods/{uid}").json() == pod


def test_the_list_can_be_asked_by_name_and_namespace(unix):
    created(unix, "one")
    created(unix, "one", namespace="shop")
    created(unix, "two")

    def names(**query):
        return len(unix.get("/pods", params=query).json()["items"])

    assert (names(name="one"), names(name="one", namespace="shop"), names(name="no")) == (2, 1, 0)


def test_an_unknown_pod_is_not_found_everywhere(unix):
    for method, path in [
        ("GET", "/pods/nobody"),
        ("DELETE", "/pods/nobody"),
        ("GET", "/pods/nobody/log"),
        ("DELETE", "/pods?name=nobody"),
    ]:
        answer = unix.request(method, path)
        assert (answer.status_code, answer.json()["reason"]) == (404, "NotFound"), path
        assert "nobody" in answer.json()["error"]


def test_decisions_come_newest_first_and_can_be_bounded(unix):
    created(unix, "a")
    uid = created(unix, "b")["metadata"]["uid"]
    items = unix.get("/decisions").json()["items"]
    assert [d["pod"] for d in items[:2]] == ["b", "a"]
    assert items[0]["trace"][0]["step"] == "merge"
    assert len(unix.get("/decisions?limit=1").json()["items"]) == 1
    assert [d["uid"] for d in unix.get("/decisions", params={"uid": uid}).json()["items"]] == [uid]
    assert unix.get("/decisions?limit=0").status_code == 400
    assert unix.get("/decisions?limit=x").status_code == 400


def test_a_refusal_is_explained_in_words_and_in_facts(unix):
    assert unix.post("/pods", json=manifest("big", cpu="99")).status_code == 422
    found = unix.get("/decisions").json()["items"][0]
    assert found["why"].startswith("Pod default/big is refused: container main asks for 99")
    assert found["explanation"]["sentence"] == found["why"]
    assert (found["explanation"]["container"], found["explanation"]["resources"]) == (
        "main",
        ["cpu"],
    )
    short = unix.get("/decisions?trace=false").json()["items"][0]
    assert "explanation" not in short and short["why"] == found["why"]


def test_every_json_answer_keeps_to_the_published_schema(unix):
    created(unix, "web", gpus=1, env=[{"name": "A", "value": "b"}])
    assert unix.post("/pods", json=manifest("big", cpu="9")).status_code == 422
    crashed = created(unix, "crash")["metadata"]["uid"]
    document = unix.get("/openapi.json").json()
    for path, name in [
        ("/pods", "PodList"),
        (f"/pods/{crashed}", "Pod"),
        ("/node", "Node"),
        ("/decisions", "Decisions"),
        ("/healthz", "Health"),
        ("/readyz", "Health"),
        ("/nowhere", "Error"),
    ]:
        schema = {"$ref": f"#/components/schemas/{name}"}
        assert faults(unix.get(path).json(), schema, document) == [], path
    refused = unix.post("/pods", json=manifest("huge", cpu="99")).json()
    assert faults(refused, {"$ref": "#/components/schemas/Error"}, document) == []


def test_the_schema_check_itself_finds_faults():
    document = {"components": {"schemas": {"A": {"type": "integer"}}}}
    schema = {
        "type": "object",
        "required": ["a"],
        "properties": {"a": {"$ref": "#/components/schemas/A"}},
    }
    assert faults({"a": 1}, schema, document) == []
    assert faults({"a": "x"}, schema, document)
    assert faults({}, schema, document)
    assert faults({"a": 1, "b": 2}, schema, document)
    assert faults({"a": True}, schema, document)


def test_the_document_names_every_route_and_method_and_no_other(tmp_path):
    agent = InMemoryAgent(tmp_path)
    app = application(Api(agent, metrics=agent.metrics), Access(trusted=True))
    served_routes = {
        (route.path, method.lower()) for route in app.routes for method in route.methods - {"HEAD"}
    }
    assert served_routes == {(path, method) for path, ways in PATHS.items() for method in ways}


def test_health_tells_what_is_wrong_but_the_agent_lives(host, unix):
    host.agent.problems.append("the disk is full")
    try:
        answer = unix.get("/readyz")
        assert answer.status_code == 503
        assert answer.json() == {"status": "failing", "problems": ["the disk is full"]}
        assert unix.get("/healthz").status_code == 200
    finally:
        host.agent.problems.clear()
    assert unix.get("/readyz").status_code == 200


def test_metrics_are_prometheus_text(unix):
    created(unix, "web")
    answer = unix.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert "kubelet_cpu_manager_exclusive_cpu_allocation_count 2.0" in answer.text


def test_the_page_is_self_contained_and_its_policy_allows_just_its_own_script(unix):
    answer = unix.get("/")
    assert answer.text == PAGE
    assert answer.headers["content-security-policy"] == CONTENT_POLICY
    assert "http://" not in PAGE and "https://" not in PAGE and "//" not in CONTENT_POLICY
    assert "innerHTML" not in PAGE and "unsafe" not in CONTENT_POLICY


def test_every_answer_has_the_security_headers(unix, tcp):
    for answer in [unix.get("/pods"), tcp.get("/nope"), tcp.post("/pods"), unix.get("/")]:
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["cache-control"] == "no-store"
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "server" not in answer.headers


# Methods.


def test_head_gives_the_head_of_get_and_no_body(unix):
    uid = created(unix, "web")["metadata"]["uid"]
    for path in ["/pods", f"/pods/{uid}", "/node", "/metrics", "/", "/events", f"/pods/{uid}/log"]:
        answer = unix.head(path)
        assert (answer.status_code, answer.content) == (200, b""), path
    assert unix.get("/pods").status_code == 200  # the connection is still in step


def test_unknown_methods_and_paths_are_told_in_json(unix):
    answer = unix.patch("/pods")
    assert (answer.status_code, answer.json()["reason"]) == (405, "MethodNotAllowed")
    assert {"GET", "POST", "DELETE"} <= set(answer.headers["allow"].split(", "))
    assert unix.post("/node").status_code == 405
    assert unix.request("BREW", "/pods").status_code == 405
    answer = unix.get("/pods/")
    assert (answer.status_code, answer.json()["reason"]) == (404, "NotFound")


# Changing.


def test_a_refused_pod_is_422_with_the_kubelets_words_and_stays_visible(unix):
    answer = unix.post("/pods", json=manifest("big", cpu="9"))
    assert answer.status_code == 422
    found = answer.json()
    assert found["reason"] == "TopologyAffinityError"
    assert found["error"] == "Resources cannot be allocated with Topology locality"
    assert found["pod"]["status"]["phase"] == "Failed"
    assert unix.get(f"/pods/{found['pod']['metadata']['uid']}").json() == found["pod"]


def test_a_pod_may_come_as_yaml_or_as_a_workload(unix):
    yaml_text = "kind: Pod\nmetadata: {name: y}\nspec:\n  containers:\n  - name: c\n"
    assert unix.post("/pods", content=yaml_text).status_code == 201
    template = manifest("ignored")
    workload = {
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {"template": {"spec": template["spec"]}},
    }
    [change] = unix.post("/pods", json=workload).json()["changes"]
    assert (change["name"], change["owner"]) == ("d-0", "Deployment/d")


def test_names_and_uids_are_made_where_they_are_missing_and_kept_where_given(unix):
    value = manifest()
    value["metadata"] = {"generateName": "job-"}
    first = unix.post("/pods", json=value).json()["metadata"]
    second = unix.post("/pods", json=value).json()["metadata"]
    assert first["name"].startswith("job-") and len(first["name"]) == 9
    assert first["name"] != second["name"] and first["uid"] != second["uid"]
    value = manifest("mine")
    value["metadata"]["uid"] = "my-uid"
    assert unix.post("/pods", json=value).json()["metadata"]["uid"] == "my-uid"


@pytest.mark.parametrize("uid", ["../etc", "a/b", ".hidden", "", "x" * 64, "a\nb", "ü"])
def test_a_uid_that_would_be_a_path_is_refused_or_replaced(unix, uid):
    value = manifest()
    value["metadata"]["uid"] = uid
    answer = unix.post("/pods", json=value)
    if uid:
        assert (answer.status_code, answer.json()["reason"]) == (400, "BadRequest")
    else:
        assert answer.json()["metadata"]["uid"]


def test_a_name_or_uid_that_is_taken_is_a_conflict(unix):
    pod = created(unix, "web")
    again = unix.post("/pods", json=manifest("web"))
    assert (again.status_code, again.json()["reason"]) == (409, "AlreadyExists")
    assert again.json()["pod"]["metadata"]["uid"] == pod["metadata"]["uid"]
    other = manifest("other")
    other["metadata"]["uid"] = pod["metadata"]["uid"]
    assert unix.post("/pods", json=other).status_code == 409
    created(unix, "web", namespace="shop")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "found nothing"),
        (b"a: [", "unreadable YAML"),
        (b"kind: Pod\nkind: Pod\n", "twice"),
        (b"a: &a [x]\nb: *a\n", "alias"),
        (b"[" * 5_000, "nesting"),
        (b"kind: Service\n", "found only Service, expected one of Pod"),
        (b"\xff\xfe", "UTF-8"),
        (b"kind: Pod\nmetadata: {name: x}\nspec: {containers: 5}\n", "not a v1.Pod"),
        (b"kind: Pod\nmetadata: {name: X}\nspec: {containers: [{name: c}]}\n", "DNS subdomain"),
        (b'{"kind": "PodList", "items": []}', "found nothing"),
    ],
)
def test_what_is_no_pod_is_refused_with_the_reason(unix, body, words):
    answer = unix.post("/pods", content=body)
    assert (answer.status_code, answer.json()["reason"]) == (400, "BadRequest")
    assert words in answer.json()["error"]


def test_a_deleted_pod_is_gone_and_its_name_free(unix):
    uid = created(unix, "web")["metadata"]["uid"]
    assert unix.delete(f"/pods/{uid}").status_code == 200
    assert unix.get(f"/pods/{uid}").status_code == 404
    created(unix, "web")
    assert unix.request("DELETE", "/pods?name=web&namespace=default").status_code == 200


def test_a_pod_whose_processes_take_their_time_is_shown_as_deleting(host, unix):
    uid = created(unix, "web")["metadata"]["uid"]
    host.agent.stubborn.add("web")
    try:
        answer = unix.delete(f"/pods/{uid}")
        assert (answer.status_code, answer.json()["numalign"]["deleting"]) == (202, True)
        assert unix.post("/pods", json=manifest("web")).status_code == 409
    finally:
        host.agent.stubborn.clear()
        host.call(host.agent.exit, uid, "main", 143)
    assert unix.get(f"/pods/{uid}").status_code == 404


def test_a_refused_pod_is_deleted_at_once(unix):
    uid = unix.post("/pods", json=manifest("big", cpu="9")).json()["pod"]["metadata"]["uid"]
    answer = unix.delete(f"/pods/{uid}")
    assert (answer.status_code, answer.json()["metadata"]["uid"]) == (200, uid)


def test_nothing_is_deleted_without_a_name(unix):
    created(unix, "web")
    assert unix.delete("/pods").status_code == 400
    assert unix.request("DELETE", "/pods?name=web&namespace=shop").status_code == 404
    assert len(unix.get("/pods").json()["items"]) == 1


# Who may do what.


@pytest.mark.parametrize(
    "header",
    [None, "Bearer wrong", "Bearer", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}x", "Bearer \xfc"],
)
def test_over_tcp_nothing_changes_without_the_token(tcp, unix, header):
    uid = created(unix, "web")["metadata"]["uid"]
    headers = {} if header is None else {"authorization": header.encode("latin-1")}
    for method, path in [
        ("POST", "/pods"),
        ("DELETE", f"/pods/{uid}"),
        ("DELETE", "/pods?name=web"),
        ("GET", f"/pods/{uid}/log"),
    ]:
        answer = tcp.request(method, path, headers=headers, json=manifest("evil"))
        assert (answer.status_code, answer.json()["reason"]) == (401, "Unauthorized"), path
        assert answer.headers["www-authenticate"] == "Bearer"
    assert [p["metadata"]["name"] for p in unix.get("/pods").json()["items"]] == ["web"]


def test_over_tcp_the_token_allows_changes(tcp):
    assert tcp.post("/pods", json=manifest(), headers=BEARER).status_code == 201
    answer = tcp.request("DELETE", "/pods?name=web", headers=BEARER)
    assert answer.status_code == 200


def test_over_tcp_secrets_in_the_environment_need_the_token(tcp, unix):
    created(unix, env=[{"name": "PASSWORD", "value": "hunter2"}])
    assert "hunter2" not in tcp.get("/pods").text
    assert "PASSWORD" in tcp.get("/pods").text
    assert "hunter2" in tcp.get("/pods", headers=BEARER).text
    assert "hunter2" in unix.get("/pods").text


def test_over_tcp_no_annotation_that_may_hold_the_spec_is_shown_without_the_token(tcp, unix):
    pod = manifest(env=[{"name": "PASSWORD", "value": "hunter2"}])
    pod["metadata"]["annotations"] = {
        "kubectl.kubernetes.io/last-applied-configuration": json.dumps(pod),
        "kapp.k14s.io/original": json.dumps(pod),
        "objectset.rio.cattle.io/applied": "H4sIAAA-packed",
        "numalign.io/memory-policy": "bind",
    }
    uid = unix.post("/pods", json=pod).json()["metadata"]["uid"]
    everything = ["/pods", f"/pods/{uid}", "/node", "/decisions", "/metrics", "/capture", "/readyz"]
    for path in everything:
        text = tcp.get(path).text
        assert "hunter2" not in text, path
        assert "H4sIAAA-packed" not in text, path
    shown = tcp.get(f"/pods/{uid}").json()["metadata"]
    assert shown["annotations"] == {"numalign.io/memory-policy": "bind"}
    for client, headers in ((unix, {}), (tcp, BEARER)):
        found = client.get(f"/pods/{uid}", headers=headers).json()["metadata"]["annotations"]
        assert found == pod["metadata"]["annotations"]


def test_a_head_that_is_longer_than_it_may_be_is_refused_however_it_comes(tcp, unix):
    for client in (tcp, unix):
        long = client.get("/healthz", headers={"x-long": "x" * 17_000})
        assert (long.status_code, long.json()["reason"]) == (431, "RequestHeaderFieldsTooLarge")
        assert client.get("/healthz?" + "x" * 17_000).status_code == 431
        assert client.get("/healthz", headers={"x-long": "x" * 15_000}).status_code == 200


@pytest.mark.parametrize(
    "name",
    ["[::1].evil", "[::1]evil:80", "127.0.0.1.evil", "localhost.evil", "localhost:80:80", ""],
)
def test_a_name_that_only_begins_like_one_of_ours_is_another(tcp, name):
    assert tcp.get("/pods", headers={"host": name}).status_code == 421


def test_a_page_of_another_site_cannot_use_its_name_for_this_host(tcp):
    assert tcp.get("/pods", headers={"host": "evil.example:80"}).status_code == 421
    assert tcp.post("/pods", headers={"host": "evil.example", **BEARER}).status_code == 421
    for name in ["localhost", "127.0.0.1:9", "[::1]:80", "LOCALHOST:1"]:
        assert tcp.get("/pods", headers={"host": name}).status_code == 200, name


def test_the_socket_is_for_its_owner_only(host):
    assert stat.S_IMODE(host.socket.lstat().st_mode) == 0o600


def test_the_socket_is_never_open_wider_whatever_the_umask(short_path):
    before = os.umask(0)
    try:
        with unix_listener(short_path / "s") as listener:
            assert stat.S_IMODE((short_path / "s").stat().st_mode) == 0o600
            assert listener.getsockname() == str(short_path / "s")
    finally:
        os.umask(before)
    assert not (short_path / "s").exists()


def test_the_socket_of_a_dead_agent_is_taken_over_but_not_that_of_a_living_one(short_path):
    path = short_path / "s"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    with (
        unix_listener(path),
        pytest.raises(ConfigError, match="another agent listens"),
        unix_listener(path),
    ):
        pass
    path.write_text("precious")
    with pytest.raises(ConfigError, match="no socket"), unix_listener(path):
        pass
    assert path.read_text() == "precious"


def test_a_path_that_is_too_long_for_linux_is_refused_in_words(tmp_path):
    with (
        pytest.raises(ConfigError, match="longer than 107 bytes"),
        unix_listener(Path("/" + "x" * 107)),
    ):
        pass


def test_tcp_is_on_loopback_unless_told_otherwise():
    with pytest.raises(ConfigError, match="expected a loopback one"):
        tcp_listener("0.0.0.0", 0, allow_remote=False)
    tcp_listener("0.0.0.0", 0, allow_remote=True).close()
    listener = tcp_listener("127.0.0.1", 0, allow_remote=False)
    with listener, pytest.raises(ConfigError, match="cannot listen"):
        tcp_listener("127.0.0.1", listener.getsockname()[1], allow_remote=False)


# Limits.


def test_a_body_over_the_limit_is_refused_whether_announced_or_not(unix):
    big = b"#" * (1024 * 1024 + 1)
    announced = unix.post("/pods", content=big)
    assert (announced.status_code, announced.json()["reason"]) == (413, "RequestEntityTooLarge")

    def parts():
        for _ in range(20):
            yield b"#" * 64 * 1024

    assert unix.post("/pods", content=parts()).status_code == 413
    assert unix.get("/healthz").status_code == 200


def raw(path):
    found = socket.socket(socket.AF_UNIX)
    found.settimeout(10)
    found.connect(str(path))
    return found


def test_headers_over_the_limit_are_refused(host):
    with raw(host.socket) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nhost: x\r\nx: " + b"y" * 40_000)
        assert connection.recv(100).startswith(b"HTTP/1.1 400")


def test_changes_are_bounded_in_their_rate_but_looking_is_not(bounded):
    host = bounded(changes_per_second=0.001, changes_burst=2)
    with over(host) as client:
        codes = [client.post("/pods", json=manifest(f"p{n}")).status_code for n in range(4)]
        assert codes == [201, 201, 429, 429]
        answer = client.delete("/pods/x")
        assert (answer.status_code, answer.json()["reason"]) == (429, "TooManyRequests")
        assert int(answer.headers["retry-after"]) > 100
        assert all(client.get("/pods").status_code == 200 for _ in range(20))


def test_a_client_that_begins_and_says_no_more_is_dropped(bounded):
    host = bounded(header_seconds_max=0.2, body_seconds_max=0.2)
    with raw(host.socket) as silent, raw(host.socket) as slow, raw(host.socket) as body:
        slow.sendall(b"GET / HT")
        body.sendall(b"POST /pods HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nkin")
        assert silent.recv(100) == b""
        assert slow.recv(100) == b""
        assert body.recv(100).startswith(b"HTTP/1.1 408")


def test_a_client_may_send_one_request_after_the_other(bounded):
    host = bounded(header_seconds_max=0.3)
    with raw(host.socket) as connection:
        for _ in range(3):
            connection.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
            answer = b""
            while not answer.endswith(b"}"):
                answer += connection.recv(4096)
            assert answer.startswith(b"HTTP/1.1 200")


# Streams.


def events_of(lines, count):
    found = []
    name = None
    for line in lines:
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            found.append((name, json.loads(line.removeprefix("data: "))))
            if len(found) == count:
                return found
    raise AssertionError("the stream ended early")


def test_events_come_as_they_happen_and_without_traces(host, unix):
    with over(host) as other, other.stream("GET", "/events") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        lines = stream.iter_lines()
        assert next(lines).startswith(":")
        wait_for(lambda: host.agent.journal.subscriber_count)
        uid = created(unix, "web")["metadata"]["uid"]
        ((name, values),) = events_of(lines, 1)
        assert (name, values["pod"], values["uid"]) == ("pod_admitted", "web", uid)
        assert values["time"] > 0 and "trace" not in values


def wait_for(condition, seconds=5):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


def test_the_number_of_streams_is_bounded_and_places_become_free(bounded):
    host = bounded(streams_max=2)
    with over(host) as client:
        with client.stream("GET", "/events") as a, client.stream("GET", "/events") as b:
            assert (a.status_code, b.status_code) == (200, 200)
            refused = client.get("/events")
            assert (refused.status_code, refused.json()["reason"]) == (503, "TooManyStreams")
            assert client.get("/pods").status_code == 200
        wait_for(lambda: not host.agent.journal.subscriber_count)
        with client.stream("GET", "/events") as again:
            assert again.status_code == 200


def test_a_slow_reader_loses_the_oldest_events_and_holds_up_nobody(host, unix):
    with raw(host.socket) as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.sendall(b"GET /events HTTP/1.1\r\nhost: x\r\n\r\n")
        wait_for(lambda: host.agent.journal.subscriber_count)

        def flood(start):
            for number in range(start, start + 200):
                host.agent.journal.publish(DriftRepaired(f"number {number} " + "x" * 5_000))

        for start in range(0, 2_000, 200):
            host.call(flood, start)
            assert unix.get("/healthz").status_code == 200
        text = b""
        while b"number 1999" not in text:
            part = slow.recv(65536)
            assert part, "the stream ended"
            text += part
        assert b"event: events_lost" in text
        assert text.count(b"event: drift_repaired") < 1_000
    wait_for(lambda: not host.agent.journal.subscriber_count)


def test_a_reader_that_never_reads_is_dropped_in_the_end(bounded):
    host = bounded(write_seconds_max=0.3)
    with raw(host.socket) as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.sendall(b"GET /events HTTP/1.1\r\nhost: x\r\n\r\n")
        wait_for(lambda: host.agent.journal.subscriber_count)

        def flood():
            host.agent.journal.publish(DriftRepaired("x" * 20_000))

        def flooded():
            host.call(flood)
            return not host.agent.journal.subscriber_count

        wait_for(flooded)


def test_a_quiet_stream_says_that_it_lives(bounded):
    host = bounded(ping_seconds=0.05)
    with over(host) as client, client.stream("GET", "/events") as stream:
        lines = (line for line in stream.iter_lines() if line)
        assert [next(lines), next(lines)] == [": numalign events", "event: still"]
        assert json.loads(next(lines).removeprefix("data: "))["problems"] == 0


def test_the_servers_stop_at_once_although_streams_are_open(tmp_path, short_path):
    agent = InMemoryAgent(tmp_path)
    with served(agent, short_path) as host:
        connection = raw(host.socket)
        connection.sendall(b"GET /events HTTP/1.1\r\nhost: x\r\n\r\n")
        wait_for(lambda: agent.journal.subscriber_count)
        begin = time.monotonic()
    assert time.monotonic() - begin < 20, "it waited for the streams"
    assert not host.socket.exists() and not agent.journal.subscriber_count
    with connection:
        while part := connection.recv(4096):
            end = part
    assert end.endswith(b"0\r\n\r\n"), "the stream ended in order"


# Logs.


def line(text, tag="F"):
    return f"2030-01-01T00:00:00.000000000Z stdout {tag} {text}\n"


@pytest.fixture
def logged(host, unix):
    uid = created(unix, "web")["metadata"]["uid"]
    return uid, host.agent.log_path(uid, "main")


def test_a_log_is_shown_without_times_and_with_parts_joined(unix, logged):
    uid, path = logged
    path.write_text(line("one") + line("tw", "P") + line("o") + line("") + "odd\n")
    answer = unix.get(f"/pods/{uid}/log")
    assert answer.text == "one\ntwo\n\nodd\n"
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"


def test_the_tail_of_a_log_is_exact_however_long_it_is(unix, logged):
    uid, path = logged
    path.write_text("".join(line(f"n{n}") for n in range(5_000)))

    def tail(count):
        return unix.get(f"/pods/{uid}/log?tail={count}").text.split()

    assert tail(1) == ["n4999"]
    assert tail(3_000) == [f"n{n}" for n in range(2_000, 5_000)]
    assert len(tail(9_999)) == 5_000
    assert tail(0) == []
    assert unix.get(f"/pods/{uid}/log?tail=-1").status_code == 400
    assert unix.get(f"/pods/{uid}/log?follow=perhaps").status_code == 400


def test_a_container_without_output_has_an_empty_log(unix, logged):
    uid, _ = logged
    assert unix.get(f"/pods/{uid}/log").text == ""


def test_an_unknown_container_is_told_with_the_known_ones(unix, logged):
    uid, _ = logged
    for name in ["other", "..", ""]:
        answer = unix.get(f"/pods/{uid}/log", params={"container": name})
        assert answer.status_code == 400 and "expected one of main" in answer.json()["error"]


def test_following_goes_on_through_a_rotation_until_the_container_has_ended(host, unix, logged):
    uid, path = logged
    path.write_text(line("first"))
    with over(host) as other, other.stream("GET", f"/pods/{uid}/log?follow=true") as stream:
        lines = stream.iter_lines()
        assert next(lines) == "first"
        with path.open("a") as file:
            file.write(line("second"))
        assert next(lines) == "second"
        path.rename(path.with_suffix(".1"))
        path.write_text(line("third"))
        assert next(lines) == "third"
        with path.open("a") as file:
            file.write(line("last words"))
        unix.delete(f"/pods/{uid}")
        assert list(lines) == ["last words"]


# The token.


def test_the_token_is_made_once_for_its_owner_only(tmp_path):
    token = paths.token_of(tmp_path)
    path = paths.token_path(tmp_path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(token) >= 40 and paths.token_of(tmp_path) == token
    path.chmod(0o640)
    with pytest.raises(ConfigError, match="others may have read"):
        paths.token_of(tmp_path)
    path.chmod(0o600)
    path.write_text("\n")
    with pytest.raises(ConfigError, match="found no token"):
        paths.token_of(tmp_path)


def test_the_state_directory_follows_the_user(tmp_path):
    assert paths.state_directory({}, uid=0) == Path("/var/lib/numalign")
    given = {"XDG_STATE_HOME": str(tmp_path)}
    assert paths.state_directory(given, uid=1000) == tmp_path / "numalign"
    home = Path.home() / ".local/state/numalign"
    assert paths.state_directory({"XDG_STATE_HOME": "relative"}, uid=1000) == home
