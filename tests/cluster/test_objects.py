"""NodeResourceTopology on a real API server: its schema, versions and owners of members."""

from __future__ import annotations

import asyncio
import json

import pytest
from tests.core.cluster.hosts import P1, report

from numalign.adapters.kubernetes.api_server import ApiServer
from numalign.core.cluster.publish.export import exported
from numalign.core.errors import ApiError
from numalign.wire.kubernetes import crd, nrt
from numalign.wire.kubernetes.api import NRTS, Kind

pytestmark = pytest.mark.e2e
TOPOLOGY = exported(report(P1))


@pytest.fixture
def on_server(plane):
    """Runs something with a connection, and removes the object afterwards."""

    def run(story):
        async def work():
            async with ApiServer.connect(plane.kubeconfig) as api:
                try:
                    return await story(api)
                finally:
                    await api.delete(NRTS, TOPOLOGY.name)

        return asyncio.run(work())

    return run


def applied(api, manager="test", **changes):
    body = {**nrt.body(TOPOLOGY), **changes}
    return api.apply(NRTS, TOPOLOGY.name, body, manager=manager)


def test_the_definition_is_accepted_as_structural_and_approved(plane):
    found = json.loads(plane.kubectl("get", "crd", crd.NAME, "-o", "json"))
    conditions = {c["type"]: c["status"] for c in found["status"]["conditions"]}
    assert conditions["Established"] == "True"
    assert conditions["KubernetesAPIApprovalPolicyConformant"] == "True"
    assert "NonStructuralSchema" not in conditions
    assert found["status"]["storedVersions"] == ["v1alpha2"]


def test_what_we_write_comes_back_whole(on_server):
    async def story(api):
        await applied(api)
        return nrt.read(await api.get(NRTS, TOPOLOGY.name))

    found = on_server(story)
    assert found.topology == TOPOLOGY
    assert found.problems == ()


def test_the_old_version_is_served_without_attributes(on_server):
    async def story(api):
        await applied(api)
        return await api.get(Kind(NRTS.group, "v1alpha1", NRTS.plural, NRTS.name), TOPOLOGY.name)

    found = nrt.read(on_server(story)).topology
    assert found.zones == TOPOLOGY.zones
    assert found.attributes == ()


@pytest.mark.parametrize(
    "changes",
    [
        {"zones": None},
        {"zones": [{"name": "node-0"}]},
        {"zones": [{"name": "node-0", "type": "Node", "resources": [{"name": "cpu"}]}]},
        {"attributes": [{"name": "x", "value": 7}]},
    ],
)
def test_the_server_refuses_what_does_not_fit_the_schema(on_server, changes):
    with pytest.raises(ApiError) as caught:
        on_server(lambda api: applied(api, **changes))
    assert caught.value.code in (400, 422, 500)
    assert not caught.value.retry or caught.value.code == 500


def test_another_managers_members_are_not_taken_without_force(on_server):
    async def story(api):
        await applied(api, manager="other-exporter")
        with pytest.raises(ApiError) as caught:
            await applied(api, manager="ours", zones=[])
        body = {**nrt.body(TOPOLOGY), "zones": []}
        await api.apply(NRTS, TOPOLOGY.name, body, manager="ours", force=True)
        return caught.value, nrt.read(await api.get(NRTS, TOPOLOGY.name)).topology

    conflict, after = on_server(story)
    assert (conflict.code, conflict.retry) == (409, False)
    assert 'conflict with "other-exporter"' in str(conflict)
    assert after.zones == ()


def test_applying_the_same_again_changes_nothing(on_server):
    async def story(api):
        first = nrt.read(await applied(api))
        second = nrt.read(await applied(api))
        return first, second

    first, second = on_server(story)
    assert first.resource_version == second.resource_version != ""


def test_a_hostile_name_never_leaves_this_process(on_server):
    from numalign.core.errors import WireError

    with pytest.raises(WireError, match="expected one of the Kubernetes API"):
        on_server(lambda api: api.get(NRTS, "../../../api/v1/secrets"))
