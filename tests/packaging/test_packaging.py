"""What is delivered: the definition, the manifests and the chart are one and the same."""

from __future__ import annotations

import pytest
import yaml
from tests.packaging.manifests import CHART, CRD_FILES, MANIFESTS, PARTS, rendered
from tests.real.helm import template
from tests.real.kept import MissingError

from numalign import __version__
from numalign.wire.kubernetes import crd


def documents(name):
    return [d for d in yaml.safe_load_all((MANIFESTS / name).read_text()) if d]


def containers(name):
    for document in documents(name):
        if document["kind"] in ("DaemonSet", "Deployment"):
            spec = document["spec"]["template"]["spec"]
            yield from ((spec, container) for container in spec["containers"])


@pytest.mark.parametrize("path", CRD_FILES, ids=lambda path: path.parent.name)
def test_the_definition_is_what_the_command_prints(path):
    assert path.read_text() == crd.text()


def test_the_chart_has_the_version_of_the_program():
    assert yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"] == __version__


@pytest.mark.parametrize("name", PARTS)
def test_no_container_has_more_rights_than_it_needs(name):
    for spec, container in containers(name):
        own = container["securityContext"]
        assert own["allowPrivilegeEscalation"] is False
        assert own["readOnlyRootFilesystem"] is True
        assert own["capabilities"] == {"drop": ["ALL"]}
        assert {"livenessProbe", "readinessProbe", "resources"} <= container.keys()
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        if name != "exporter.yaml":
            assert spec["securityContext"]["runAsNonRoot"] is True
        assert all(volume.get("readOnly") for volume in container.get("volumeMounts", ()))


@pytest.mark.parametrize("name", PARTS)
def test_no_role_has_wildcards_and_every_account_is_bound(name):
    found = documents(name)
    for document in found:
        for rule in document.get("rules", ()):
            assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
    accounts = {d["metadata"]["name"] for d in found if d["kind"] == "ServiceAccount"}
    bound = {s["name"] for d in found for s in d.get("subjects", ())}
    assert bound == accounts


@pytest.mark.parametrize("name", [name for name in PARTS if name != "redeploy-gate.yaml"])
def test_commands_of_the_manifests_exist_with_their_options(name, capsys):
    from numalign.cli.main import main

    for _, container in containers(name):
        if "command" in container:
            continue
        command, *options = container["args"]
        assert main([command, "--help"]) == 0
        text = capsys.readouterr().out
        for option in options:
            assert option.partition("=")[0] in text, f"numalign {command} has no {option}"


@pytest.mark.e2e
@pytest.mark.parametrize("name", PARTS)
def test_the_manifests_are_what_the_chart_makes(name):
    try:
        made = rendered(name)
    except MissingError as missing:
        pytest.skip(str(missing))
    assert (MANIFESTS / name).read_text() == made


@pytest.mark.e2e
def test_every_option_of_the_chart_can_be_chosen():
    try:
        text = template(
            CHART,
            "--set=serviceMonitor.enabled=true,serviceMonitor.labels.team=x",
            "--set=exporter.takeOver=true,exporter.exclude={a,b},exporter.ownHostOnly=false",
            "--set=redeploy.dryRun=true,redeploy.recreateBare=true,redeploy.extraArgs={--keep=3}",
            "--set=scheduler.mode=standalone,scheduler.extraArgs={--strict}",
            "--set=imagePullSecrets[0].name=pull,image.tag=9",
        )
    except MissingError as missing:
        pytest.skip(str(missing))
    found = [d for d in yaml.safe_load_all(text) if d]
    assert len([d for d in found if d["kind"] == "ServiceMonitor"]) == 3
    daemons = next(d for d in found if d["kind"] == "DaemonSet")["spec"]["template"]["spec"]
    assert {"--take-over", "--exclude=a", "--exclude=b"} <= set(daemons["containers"][0]["args"])
    assert daemons["imagePullSecrets"] == [{"name": "pull"}]
    assert daemons["containers"][0]["image"] == "numalign:9"
    roles = {d["metadata"]["name"]: d["rules"] for d in found if d["kind"] == "ClusterRole"}
    assert roles["numalign-redeploy"][0]["verbs"] == ["get", "list", "watch"]
