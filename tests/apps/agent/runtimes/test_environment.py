"""The variables of a container, and where their values come from."""

import os
from pathlib import Path

import pytest

from numalign.adapters.local.objects import Objects
from numalign.apps.agent.model import AgentPod
from numalign.apps.agent.runtimes.environment import ValueSources
from numalign.core.asker import Abilities, Asker
from numalign.core.errors import PostponedError
from numalign.wire.pods.manifests import core_pod, record_of

OWN = Asker(os.geteuid(), os.getegid())


def sources(root: Path | None = None) -> ValueSources:
    abilities = Abilities(OWN, address="198.51.100.7", host_name="rack-1")
    return ValueSources(Objects(root), abilities, {"cpu": 64_000, "memory": 2**36})


def variables(*env, root=None, given=None, asker=None, **more):
    document = {
        "metadata": {"name": "web", "namespace": "shop", "uid": "u1", "labels": {"tier": "front"}},
        "spec": {"containers": [{"name": "c", "env": list(env), **more}]},
    }
    record = record_of(document, "test")
    pod = AgentPod(record, core_pod(record), "api", 0.0, asker=asker)
    return sources(root).variables(pod, record.spec.containers[0], given or {})


def written(root: Path, kind: str, **keys: str) -> Path:
    place = root / kind / "shop" / "settings"
    place.mkdir(parents=True)
    for key, value in keys.items():
        (place / key).write_text(value)
    for path in [root, *root.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    return root


def ref(kind, **more):
    return {"name": "A", "valueFrom": {kind: {"name": "settings", "key": "mode", **more}}}


def test_a_container_has_its_own_variables_and_those_of_plugins_but_nothing_of_the_host():
    own = [{"name": "A", "value": "mine"}, {"name": "B", "value": "$(A) $(GPU) $(NO) $$(A)"}]
    found = variables(*own, {"name": "C"}, given={"A": "theirs", "GPU": "g0"})
    assert found == {"A": "mine", "B": "mine g0 $(NO) $(A)", "C": "", "GPU": "g0"}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "web"),
        ("metadata.namespace", "shop"),
        ("metadata.uid", "u1"),
        ("metadata.labels['tier']", "front"),
        ("spec.nodeName", "rack-1"),
        ("status.podIP", "198.51.100.7"),
    ],
)
def test_a_field_of_the_pod_becomes_a_variable(path, value):
    item = {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": path}}}
    assert variables(item) == {"A": value}


@pytest.mark.parametrize(
    ("resource", "divisor", "value"),
    [
        ("limits.cpu", None, "2"),
        ("limits.cpu", "1m", "1500"),
        ("requests.memory", "1Mi", "100"),
        ("limits.memory", "1Gi", "64"),
    ],
)
def test_an_amount_becomes_a_variable_rounded_up_and_by_default_that_of_the_host(
    resource, divisor, value
):
    source = {"resource": resource, **({"divisor": divisor} if divisor else {})}
    resources = {"limits": {"cpu": "1500m"}, "requests": {"memory": "100Mi"}}
    item = {"name": "A", "valueFrom": {"resourceFieldRef": source}}
    assert variables(item, resources=resources) == {"A": value}


@pytest.mark.parametrize("kind", ["configMapKeyRef", "secretKeyRef"])
def test_an_empty_secret_is_never_set(kind):
    with pytest.raises(PostponedError, match="start the agent with --objects-dir") as caught:
        variables(ref(kind))
    assert caught.value.reason == "CreateContainerConfigError"
    assert variables(ref(kind, optional=True)) == {}


def test_a_key_comes_from_a_file_and_a_missing_one_is_refused(tmp_path):
    root = written(tmp_path / "o", "configmaps", mode="fast")
    assert variables(ref("configMapKeyRef"), root=root) == {"A": "fast"}
    with pytest.raises(PostponedError, match="found no key 'other'"):
        variables(ref("configMapKeyRef", key="other"), root=root)
    with pytest.raises(PostponedError, match="secrets shop/settings: found none"):
        variables(ref("secretKeyRef"), root=root)
    group = {"prefix": "X_", "configMapRef": {"name": "settings"}}
    assert variables(root=root, envFrom=[group]) == {"X_mode": "fast"}


def test_somebody_gets_only_the_secrets_that_it_could_read_itself(tmp_path):
    root = written(tmp_path / "o", "secrets", mode="s3cret")
    stranger = Asker(65534, 65534)
    assert variables(ref("secretKeyRef"), root=root, asker=stranger) == {"A": "s3cret"}
    (root / "secrets/shop/settings/mode").chmod(0o600)
    assert variables(ref("secretKeyRef"), root=root) == {"A": "s3cret"}
    with pytest.raises(PostponedError, match="user 65534 may not read it"):
        variables(ref("secretKeyRef"), root=root, asker=stranger)


def test_an_object_that_others_can_write_is_not_used(tmp_path):
    root = written(tmp_path / "o", "secrets", mode="s3cret")
    (root / "secrets/shop/settings/mode").chmod(0o666)
    with pytest.raises(PostponedError, match="others can write it"):
        variables(ref("secretKeyRef"), root=root)


def test_no_name_leads_out_of_the_directory(tmp_path):
    root = written(tmp_path / "o", "secrets", mode="s3cret")
    with pytest.raises(PostponedError, match="found no name of an object"):
        variables(ref("secretKeyRef", name="../settings"), root=root)
