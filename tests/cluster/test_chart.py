"""The chart on the real API server: what it installs, refuses and leaves. No pod runs here."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import yaml
from tests.cluster import work
from tests.packaging.manifests import CHART
from tests.real.helm import KUBERNETES, Helm, template
from tests.real.helm import helm as helm_program
from tests.real.kept import CommandError, MissingError, output

from numalign.wire.kubernetes.scheduling import PRE_PLACE_GATE

pytestmark = pytest.mark.e2e

IMAGE = "--set=image.repository=localhost/numalign"
NRI_VALUES = CHART.parent / "values-nri.yaml"
RELEASE = "chart-test"
NAMESPACE = "numalign-chart"
# Everything that a release may own, wherever it is.
KINDS = (
    "deployments,daemonsets,jobs,serviceaccounts,configmaps,networkpolicies,poddisruptionbudgets,"
    "roles,rolebindings,clusterroles,clusterrolebindings,validatingadmissionpolicies,"
    "validatingadmissionpolicybindings,mutatingadmissionpolicies,mutatingadmissionpolicybindings"
)
TAINT = {"key": "numalign.io/nri-not-ready", "effect": "NoSchedule"}


@pytest.fixture
def helm(plane, tmp_path) -> Helm:
    try:
        return Helm(plane.kubeconfig, tmp_path, NAMESPACE)
    except MissingError as missing:
        pytest.skip(str(missing))


def refused(*arguments: str) -> str:
    try:
        template(CHART, *arguments)
    except MissingError as missing:
        pytest.skip(str(missing))
    except CommandError as error:
        return str(error)
    raise AssertionError(f"{arguments} were taken")


def owned(plane) -> set[str]:
    """What there is of a release."""
    found = plane.objects(KINDS, "-A")
    return {
        f"{one['kind']}/{one['metadata']['name']}"
        for one in found
        if one["metadata"]["name"].startswith("numalign-")
    }


@pytest.mark.parametrize(
    "values",
    [
        (),
        ("scheduler.mode=standalone", "redeploy.gate.enabled=true"),
        ("scheduler.mode=extender", "scheduler.kubeScheduler.repository=k"),
        ("nri.enabled=true", "nri.taint=true", "scheduler.nodeSelector.a=b"),
    ],
)
def test_lint_has_nothing_to_say(values):
    try:
        program = helm_program()
    except MissingError as missing:
        pytest.skip(str(missing))
    more = [f"--set={value}" for value in values]
    version = f"--kube-version={KUBERNETES}"
    said = output([program, "lint", CHART, "--strict", version, IMAGE, *more], seconds_max=60)
    assert "0 chart(s) failed" in said


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ((), "image.repository: found nothing, expected where your image of numalign is"),
        ((IMAGE, "--set=scheduler.mode=extender"), "scheduler.kubeScheduler.repository: found not"),
        ((IMAGE, "--set=scheduler.mod=extender"), "additional properties 'mod' not allowed"),
        ((IMAGE, "--set=scheduler.mode=both"), "'/scheduler/mode'"),
        ((IMAGE, "--set=image.digest=latest"), "'/image/digest'"),
        ((IMAGE, "--kube-version=1.35.2"), "the cluster has v1.35.2. Set it to false"),
        ((IMAGE, "--kube-version=1.33.0"), "incompatible with Kubernetes v1.33.0"),
    ],
)
def test_what_is_missing_or_wrong_is_said_by_its_name(options, sentence):
    assert sentence in refused(*options)


@pytest.mark.parametrize("version", ["1.36.4", "1.36.4-eks-3025e55", "1.36.4+k3s1"])
def test_the_kube_scheduler_beside_the_extender_has_the_version_of_the_cluster(version):
    try:
        text = template(
            CHART,
            IMAGE,
            f"--kube-version={version}",
            "--set=scheduler.mode=extender,scheduler.kubeScheduler.repository=k/kube-scheduler",
        )
    except MissingError as missing:
        pytest.skip(str(missing))
    images = {
        container["image"]
        for one in yaml.safe_load_all(text)
        if one and one["kind"] == "Deployment"
        for container in one["spec"]["template"]["spec"]["containers"]
    }
    assert "k/kube-scheduler:v1.36.4" in images


@pytest.mark.parametrize("more", [(), ("-f", str(NRI_VALUES))], ids=["default", "nri"])
def test_install_upgrade_rollback_and_uninstall_leave_nothing(plane, helm, more):
    before = owned(plane)
    helm("install", RELEASE, CHART, "--create-namespace", IMAGE, *more)
    try:
        installed = owned(plane) - before
        assert "DaemonSet/numalign-exporter" in installed
        assert ("DaemonSet/numalign-nri" in installed) == bool(more)
        assert not {name for name in installed if "withdraw" in name or "test" in name}
        helm("upgrade", RELEASE, CHART, IMAGE, *more, "--set=scheduler.mode=standalone")
        assert "MutatingAdmissionPolicy/numalign-scheduler-gate" not in owned(plane)
        helm("rollback", RELEASE, "1")
        assert owned(plane) - before == installed
    finally:
        # No kubelet runs the Job of the hook here; the guest's does.
        helm("uninstall", RELEASE, "--no-hooks")
    assert owned(plane) - before == set()
    left = helm("get", "all", RELEASE) if RELEASE in helm("list", "-aq") else ""
    assert left == ""


def withdraw(plane, *options: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "numalign", "withdraw", "--settle=1", *options]
    command.append(f"--kubeconfig={plane.kubeconfig}")
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.stderr == ""
    return done.returncode, done.stdout


def gates_of(plane, name: str) -> list[str]:
    pod = json.loads(plane.kubectl("get", "pod", name, "-o", "json"))
    return [gate["name"] for gate in pod["spec"].get("schedulingGates", ())]


@pytest.fixture
def left_behind(plane):
    """Pods at gates of ours and of others, and a host with our taint and another."""
    gates = {"ours": [PRE_PLACE_GATE], "both": ["numalign.io/redeploy", "else.io/wait"]}
    for name, held in gates.items():
        listed = [{"name": gate} for gate in held]
        plane.apply(work.pod(name, schedulerName="nobody", schedulingGates=listed))
    other = {"key": "else.io/not-ready", "effect": "NoSchedule"}
    host = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "left-behind"}}
    plane.apply(json.dumps({**host, "spec": {"taints": [TAINT, other]}}))
    yield
    plane.kubectl("delete", "node/left-behind", "pod/ours", "pod/both", "--grace-period=0")


@pytest.mark.usefixtures("left_behind")
def test_withdraw_opens_our_gates_and_removes_our_taint_alone(plane):
    code, said = withdraw(plane, "--dry-run")
    assert code == 0
    assert said.endswith("2 pods would be let go, 1 taints would be removed\n")
    code, said = withdraw(plane, "--taints-only")
    assert said.splitlines()[-1] == "0 pods let go, 1 taints removed"
    assert gates_of(plane, "ours") == [PRE_PLACE_GATE]
    code, said = withdraw(plane)
    assert code == 0
    assert said.splitlines()[-1] == "2 pods let go, 0 taints removed"
    assert "default/ours: opened numalign.io/pre-place" in said
    assert (gates_of(plane, "ours"), gates_of(plane, "both")) == ([], ["else.io/wait"])
    host = json.loads(plane.kubectl("get", "node", "left-behind", "-o", "json"))
    keys = [taint["key"] for taint in host["spec"]["taints"]]
    assert TAINT["key"] not in keys
    assert "else.io/not-ready" in keys
    assert withdraw(plane)[1] == "0 pods let go, 0 taints removed\n"
