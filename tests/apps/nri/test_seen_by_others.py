"""What the plugin writes for others is what other commands read."""

from tests.apps.nri.host import SHAPE, Runtime, new_state, policy, sandbox

from numalign.cli.main import main
from numalign.core.views.podresources import resources_view
from numalign.wire.checkpoints import state_files

HOST_FILE = """
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
topologyManagerPolicy: single-numa-node
reservedSystemCPUs: "0"
numalign: {annotationNamespaces: ["*"]}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: big}
spec:
  containers:
  - {name: c, image: x, resources: {limits: {cpu: "6", memory: 1Gi}}}
"""


def test_explain_reads_the_host_file_and_the_state_that_the_plugin_writes(tmp_path, capsys):
    runtime = Runtime(new_state(policy(topology="single-numa-node")))
    for name in ("a", "b", "c"):
        runtime.create(sandbox(name), "db", 4000)
    settings = runtime.state.policy.host.settings
    for name, data in state_files.encoded(runtime.state.host, settings).items():
        if name != state_files.DEVICES:
            (tmp_path / name).write_bytes(data)
    (tmp_path / "nri.yaml").write_text(HOST_FILE)
    (tmp_path / "pod.yaml").write_text(POD)
    words = ["explain", "-f", str(tmp_path / "pod.yaml"), "--machine", SHAPE, "--state"]
    words += [str(tmp_path), "--kubelet-config", str(tmp_path / "nri.yaml"), "--fidelity", "safe"]
    assert main(words) == 1
    assert "TopologyAffinityError" in capsys.readouterr().out


def test_podresources_lists_every_pod_with_what_it_holds():
    runtime = Runtime(new_state())
    runtime.create(sandbox("a"), "db", 2000)
    runtime.create(sandbox("b", qos="burstable"), "web", 100)
    view = resources_view(runtime.state.policy.host, runtime.state.host)
    found = {pod.name: {one.name: one.cpus for one in pod.apps} for pod in view.pods}
    assert found == {"a": {"db": (1, 9)}, "b": {"web": ()}}
