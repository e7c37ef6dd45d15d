"""What is delivered: the definition, the manifests and the chart are one and the same."""

from __future__ import annotations

import re
import subprocess
import tomllib

import msgspec
import pytest
import yaml
from tests.packaging import configuration_reference
from tests.packaging.manifests import CHART, CRD_FILES, MANIFESTS, PARTS, rendered
from tests.packaging.runtime_lock import RUNTIME, WHOLE, runtime_lock
from tests.paths import CHECKOUT
from tests.real.helm import template
from tests.real.kept import MissingError

from numalign import __version__
from numalign.wire.kubernetes import crd

DIGEST = "sha256:" + "0123456789abcdef" * 4
WITHOUT_PODS = {"redeploy-gate.yaml", "scheduler-gate.yaml", "nri-admission.yaml"}


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
        if name not in {"exporter.yaml", "nri.yaml"}:  # they need sockets of root's
            assert spec["securityContext"]["runAsNonRoot"] is True
        mounts = container.get("volumeMounts", ())
        writable = [volume["name"] for volume in mounts if not volume.get("readOnly")]
        assert writable == (["state"] if name == "nri.yaml" else [])


@pytest.mark.parametrize("name", PARTS)
def test_no_role_has_wildcards_and_every_account_is_bound(name):
    found = documents(name)
    for document in found:
        for rule in document.get("rules", ()):
            assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
    accounts = {d["metadata"]["name"] for d in found if d["kind"] == "ServiceAccount"}
    bound = {s["name"] for d in found for s in d.get("subjects", ())}
    assert bound == accounts


@pytest.mark.parametrize("name", [name for name in PARTS if name not in WITHOUT_PODS])
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


def test_the_exporter_sees_only_what_it_reads():
    [spec] = [spec for spec, _ in containers("exporter.yaml")]
    seen = {volume["hostPath"]["path"]: volume["hostPath"]["type"] for volume in spec["volumes"]}
    assert seen == {
        "/sys/devices": "Directory",
        "/sys/bus": "Directory",
        "/sys/kernel/mm": "Directory",
        "/proc/meminfo": "File",
        "/var/lib/kubelet/pod-resources": "Directory",
        "/var/lib/kubelet/device-plugins": "Directory",
        "/var/lib/kubelet/config.yaml": "File",
        "/var/lib/kubelet/cpu_manager_state": "File",
        "/var/lib/kubelet/memory_manager_state": "File",
    }
    [(_, container)] = containers("exporter.yaml")
    mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounted.keys() == {volume["name"] for volume in spec["volumes"]}
    for volume in spec["volumes"]:
        host, inside = volume["hostPath"]["path"], mounted[volume["name"]]
        assert inside in {f"/host{host}", host.replace("/var/lib/kubelet", "/host-kubelet")}


@pytest.mark.parametrize("name", [name for name in PARTS if name not in WITHOUT_PODS])
def test_every_component_has_a_network_policy_for_its_own_ports(name):
    found = documents(name)
    [policy] = [d["spec"] for d in found if d["kind"] == "NetworkPolicy"]
    [work] = [d["spec"] for d in found if d["kind"] in {"DaemonSet", "Deployment"}]
    assert policy["podSelector"] == work["selector"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    probed = {
        container[probe]["httpGet"]["port"]
        for _, container in containers(name)
        for probe in ("livenessProbe", "readinessProbe")
    }
    [ingress] = policy["ingress"]
    assert {port["port"] for port in ingress["ports"]} == probed
    assert {port["port"] for rule in policy["egress"] for port in rule["ports"]} == {443, 6443, 53}


def test_the_image_holds_only_what_the_lock_file_has_hashes_for():
    assert RUNTIME.read_text() == runtime_lock(), "run python -m tests.packaging.runtime_lock"
    whole = set(re.findall(r"sha256:[0-9a-f]{64}", WHOLE.read_text()))
    assert set(re.findall(r"sha256:[0-9a-f]{64}", RUNTIME.read_text())) < whole
    names = set(re.findall(r"(?m)^([a-z0-9-]+)==", RUNTIME.read_text()))
    asked = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert {re.match(r"[a-z0-9-]+", one)[0] for one in asked} <= names
    assert not names & {"pytest", "mypy", "ruff", "hypothesis", "hatchling"}


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
            f"--set=imagePullSecrets[0].name=pull,image.tag=9,image.digest={DIGEST}",
            "--set=image.repository=numalign",
            "--set=networkPolicy.enabled=false,exporter.stateFiles=null",
        )
    except MissingError as missing:
        pytest.skip(str(missing))
    found = [d for d in yaml.safe_load_all(text) if d]
    assert len([d for d in found if d["kind"] == "ServiceMonitor"]) == 3
    daemons = next(d for d in found if d["kind"] == "DaemonSet")["spec"]["template"]["spec"]
    assert {"--take-over", "--exclude=a", "--exclude=b"} <= set(daemons["containers"][0]["args"])
    assert daemons["imagePullSecrets"] == [{"name": "pull"}]
    assert daemons["containers"][0]["image"] == f"numalign:9@{DIGEST}"
    assert not [d for d in found if d["kind"] == "NetworkPolicy"]
    assert not [v for v in daemons["volumes"] if v["name"].endswith("-state")]
    roles = {d["metadata"]["name"]: d["rules"] for d in found if d["kind"] == "ClusterRole"}
    assert roles["numalign-redeploy"][0]["verbs"] == ["get", "list", "watch"]


def test_the_page_about_configuration_has_every_key():
    found = configuration_reference.PAGE.read_text()
    assert found == configuration_reference.page(), (
        "run python -m tests.packaging.configuration_reference"
    )
    keys = {field.encode_name for field in msgspec.structs.fields(configuration_reference._File)}
    assert keys == set(configuration_reference.MEANINGS)


@pytest.mark.e2e
def test_make_install_gives_a_program_that_the_unit_finds(tmp_path):
    there = f"DESTDIR={tmp_path}"
    subprocess.run(["make", "install", there], cwd=CHECKOUT, check=True)
    unit = (tmp_path / "etc/systemd/system/numalign-agent.service").read_text()
    [program] = re.findall(r"(?m)^ExecStart=(\S+)", unit)
    found = subprocess.run([tmp_path / program[1:], "--version"], capture_output=True, check=True)
    assert found.stdout.decode().strip() == f"numalign {__version__}"
    subprocess.run(["make", "uninstall", there], cwd=CHECKOUT, check=True)
    assert [path for path in tmp_path.rglob("*") if not path.is_dir()] == []
