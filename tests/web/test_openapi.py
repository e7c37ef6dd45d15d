"""Every operation of our OpenAPI document with generated requests: each answer is as documented.

Statuses and bodies that the document does not know are gaps in it; a 5xx is a bug. The requests
come from the document itself, from what it forbids, and from manifests that were mutated.
"""

import json
import random

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.fuzz import seeds
from tests.fuzz.mutate import mutated
from tests.web.in_memory_agent import InMemoryAgent, served
from tests.web.schemas import faults

from numalign.web.openapi import document

DOCUMENT = document()
OPERATIONS = [
    (method, path)
    for path, ways in DOCUMENT["paths"].items()
    for method in ways
    if path != "/events"  # it never ends; its own tests read it
]
MANIFESTS = [seeds.POD, seeds.DEPLOYMENT, seeds.POD_LIST, b"kind: Pod\nmetadata: {name: a}\n"]
# What any HTTP server may say before a route is found.
ALWAYS = {"404", "405"}


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    directory = tmp_path_factory.mktemp("api")
    with served(InMemoryAgent(directory), directory) as found:
        transport = httpx.HTTPTransport(uds=str(found.socket))
        with httpx.Client(transport=transport, base_url="http://agent", timeout=20) as client:
            client.agent = found.agent
            yield client


def texts(schema):
    """Texts for a parameter, most of them allowed by its schema."""
    match schema:
        case {"type": "integer", "minimum": least, "maximum": most}:
            return st.one_of(st.integers(least, most), st.integers()).map(str) | st.text(max_size=8)
        case {"pattern": _}:
            return st.sampled_from(["true", "false", "", "1", "0"]) | st.text(max_size=8)
        case _:
            return st.text(max_size=40) | st.sampled_from(["a", "web-0", "default", "..", "\x00"])


@st.composite
def requests(draw):
    method, path = draw(st.sampled_from(OPERATIONS))
    way = DOCUMENT["paths"][path][method]
    query = {}
    for parameter in way.get("parameters", ()):
        if parameter["in"] == "path":
            known = st.sampled_from(["uid-0", "u", "no%2fsuch", "%ff", "%00", "%2e%2e", "a b"])
            path = path.replace("{uid}", draw(known))
        elif draw(st.booleans()):
            query[parameter["name"]] = draw(texts(parameter["schema"]))
    query.pop("follow", None)  # a log that is followed ends with its container
    body = None
    if "requestBody" in way:
        rng = random.Random(draw(st.integers(0, 2**32)))
        body = mutated(rng, rng.choice(MANIFESTS), MANIFESTS)
    return method, path, query, body, way


def written(query):
    """A query string that also has bytes which no client would send."""
    return httpx.QueryParams({k: v.encode("utf-8", "replace").decode() for k, v in query.items()})


@settings(
    max_examples=400,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(asked=requests())
def test_every_answer_is_one_that_the_document_knows(client, asked):
    method, path, query, body, way = asked
    answer = client.request(method, path, params=written(query), content=body)
    assert str(answer.status_code) in {*way["responses"], *ALWAYS}, (method, path, answer.text)
    assert answer.status_code < 500, answer.text
    kinds = (
        way["responses"].get(str(answer.status_code), {}).get("content", {"application/json": {}})
    )
    kind = answer.headers["content-type"].partition(";")[0]
    assert kind in kinds, (method, path, kind)
    schema = kinds[kind].get("schema")
    if kind == "application/json" and schema:
        assert faults(answer.json(), schema, DOCUMENT) == []
    assert not client.agent.state.problems()


def test_the_example_of_a_body_is_admitted_and_its_links_lead_on(client):
    content = DOCUMENT["paths"]["/pods"]["post"]["requestBody"]["content"]["application/json"]
    answer = client.post("/pods", content=json.dumps(content["example"]))
    assert answer.status_code == 201, answer.text
    links = DOCUMENT["paths"]["/pods"]["post"]["responses"]["201"]["links"]
    known = {
        way["operationId"]: (method, path)
        for path, ways in DOCUMENT["paths"].items()
        for method, way in ways.items()
    }
    uid = answer.json()["metadata"]["uid"]
    for name in ("showPod", "readLog", "deletePod"):
        method, path = known[links[name]["operationId"]]
        assert client.request(method, path.replace("{uid}", uid)).status_code in {200, 202}


def test_every_operation_has_a_name_of_its_own():
    names = [way["operationId"] for ways in DOCUMENT["paths"].values() for way in ways.values()]
    assert len(names) == len(set(names)) == 23


def test_the_document_knows_that_a_list_has_items(client):
    content = DOCUMENT["paths"]["/pods"]["post"]["requestBody"]["content"]["application/json"]
    for kind in ("List", "PodList"):
        [schema] = [
            one for one in content["schema"]["oneOf"] if kind in one["properties"]["kind"]["enum"]
        ]
        assert "items" in schema["required"]
        assert schema["properties"]["items"]["minItems"] == 1
        assert client.post("/pods", content=json.dumps({"kind": kind})).status_code == 400
