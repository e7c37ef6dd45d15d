"""capture, admit, replay and diff as a user runs them."""

import json
import stat
from types import SimpleNamespace

import pytest
import yaml
from tests.apps.snapshots.hosts import CONFIG, make_root, pod

from numalign.cli.main import main

RUNNING = [pod("web", "2", "1Gi"), pod("db", "4", "2Gi", gpus=1)]


@pytest.fixture
def numalign(capsys):
    """The command line without a process of its own, for there are many calls."""

    def run(*args):
        capsys.readouterr()
        code = main(args)
        shown = capsys.readouterr()
        return SimpleNamespace(returncode=code, stdout=shown.out, stderr=shown.err)

    return run


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return make_root(tmp_path_factory.mktemp("root"), RUNNING)


@pytest.fixture
def manifest(tmp_path):
    def write(*documents, name="pod.yaml"):
        path = tmp_path / name
        path.write_text("\n---\n".join(map(json.dumps, documents)))
        return str(path)

    return write


@pytest.fixture
def bundle(root, tmp_path, numalign):
    path = tmp_path / "host.tar.gz"
    done = numalign("capture", "--root", str(root), "-o", str(path))
    assert done.returncode == 0, done.stderr
    return path


def test_a_capture_is_for_its_owner_only(bundle, numalign, root, tmp_path):
    assert stat.S_IMODE(bundle.stat().st_mode) == 0o600
    assert [p.name for p in tmp_path.iterdir()] == ["host.tar.gz"]
    done = numalign("topology", "-m", str(bundle), "-o", "json")
    assert json.loads(done.stdout)["kind"] == "Machine"
    done = numalign("capture", "--root", str(root), "-o", f"{tmp_path}/no/where.tar.gz")
    assert done.returncode == 2
    assert "cannot write the file" in done.stderr


def test_admit_says_yes_with_places_and_no_with_the_kubelets_words(bundle, manifest, numalign):
    file = manifest(pod("a", "6", "1Gi"), pod("b", "4", "1Gi"))
    done = numalign("admit", "-f", file, "--on", str(bundle))
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert lines[0].split() == [
        *("POD", "CONTAINER", "CPUS", "MEMORY", "DEVICES", "ALIGNED", "DISTANCE")
    ]
    assert lines[1].split() == [
        "default/a",
        "main",
        "4-6,12-14@1",
        "1",
        "GiB@1",
        "-",
        "yes",
        "10.0",
    ]
    assert lines[2] == (
        "default/b would be refused: TopologyAffinityError: Resources cannot be allocated with "
        "Topology locality"
    )
    assert lines[3] == (
        "total: 1 of 2 pods admitted, 6 CPUs of their own on NUMA node 1, 1 GiB of memory, "
        "1 of 1 container with resources of their own aligned"
    )
    assert "state files alone" in done.stderr
    assert "assumed" not in done.stderr


def test_admit_as_data(bundle, manifest, numalign):
    done = numalign("admit", "-f", manifest(pod("a", gpus=2)), "--on", str(bundle), "-o", "json")
    assert done.returncode == 0, done.stderr
    [found] = json.loads(done.stdout)
    assert found["admitted"] is True
    [container] = found["containers"]
    assert container["memoryNodes"] == container["cpuNodes"] == [1]
    assert (container["aligned"], container["distance"]) == (True, 10.0)
    assert container["cpus"] == "4,12"
    again = numalign("admit", "-f", manifest(pod("a", gpus=2)), "--on", str(bundle), "-o", "yaml")
    assert yaml.safe_load(again.stdout) == [found]


def test_admit_from_raw_files(root, manifest, numalign):
    done = numalign(
        *("admit", "-f", manifest(pod("a", "6", "1Gi"))),
        *("--machine", str(root), "--state", str(root / "var/lib/kubelet")),
        *("--kubelet-config", str(root / "var/lib/kubelet/config.yaml")),
    )
    assert done.returncode == 0, done.stderr
    assert "4-6,12-14" in done.stdout


def test_a_static_pod_is_refused_as_a_critical_one(bundle, manifest, numalign):
    burstable = pod("a", resources={"requests": {"cpu": "100"}})
    plain = numalign("admit", "-f", manifest(burstable), "--on", str(bundle))
    static = numalign("admit", "-f", manifest(burstable), "--on", str(bundle), "--static")
    assert "OutOfcpu: Node didn't have enough resource: cpu" in plain.stdout
    assert "UnexpectedAdmissionError: Unexpected error while attempting to recover" in static.stdout


def test_a_running_pod_asked_again_is_asked_as_one_more(bundle, manifest, numalign):
    done = numalign("admit", "-f", manifest(RUNNING[1]), "--on", str(bundle), "-o", "json")
    [found] = json.loads(done.stdout)
    assert found["uid"] != "uid-db"
    assert found["containers"][0]["cpus"] == "4-5,12-13"


def test_every_replica_is_asked(manifest, numalign):
    template = {"spec": {"containers": pod("x", "3", "1Gi")["spec"]["containers"]}}
    document = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "web"},
        "spec": {"replicas": 6, "template": template},
    }
    done = numalign("admit", "-f", manifest(document), "--on", "2s:1n:4c:2t,mem=8Gi")
    assert done.returncode == 1
    assert "default/web-4  main" in done.stdout
    assert "default/web: 5 of 6 admitted; web-5 refused: " in done.stdout
    assert "topologyManagerPolicy best-effort (scope container)" in done.stderr
    done = numalign("admit", "-f", manifest(document), "--on", "2s:1n:3c:2t,mem=8Gi")
    assert "default/web: 3 of 6 admitted; 3 refused for the same reason: " in done.stdout


def test_a_resource_that_nothing_offers_is_said_with_what_to_do(manifest, numalign):
    file = manifest(pod("a", gpus=2))
    done = numalign("admit", "-f", file, "--on", "2s:1n:4c:2t")
    assert done.returncode == 1
    assert "no plugin has registered example.com/gpu on this host" in done.stdout
    done = numalign("admit", "-f", file, "--on", "2s:1n:4c:2t", "--device", "example.com/gpu=2@1")
    assert done.returncode == 0
    assert "example.com/gpu gpu-0@1 gpu-1@1" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--on", "nowhere"), "no file, directory or example"),
        (("--on", "dgx-a100", "--machine", "host"), "expected one or the other"),
        (("--kubernetes", "1.12"), "--kubernetes: found '1.12', expected 1.36 or 1.37 (exact)"),
        (("--kubernetes", "1.38"), "or 1.28 to 1.35 (with the rules of 1.36)"),
        (("--fidelity", "best"), "--fidelity: found 'best', expected kubelet or safe"),
        (("--kubelet-config", "/none.yaml", "--on", "2s:1n:4c:2t"), "there is no such file"),
        (("--state", "/none", "--machine", "2s:1n:4c:2t"), "found no directory"),
        (("--on", "unix:///none.sock"), "no agent answers there"),
    ],
)
def test_a_wrong_source_is_one_clear_error(arguments, words, manifest, numalign):
    done = numalign("admit", "-f", manifest(pod("a")), *arguments)
    assert done.returncode in {1, 2}
    assert done.returncode == (1 if "unix" in arguments[1] else 2)
    assert done.stdout == ""
    [line] = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert words in line


def test_replay_of_a_sound_host(bundle, numalign):
    done = numalign("replay", str(bundle))
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[-1] == "the kubelet would start; 2 pods are kept, 0 refused"
    found = json.loads(numalign("replay", str(bundle), "-o", "json").stdout)
    assert found["sound"] is True


def test_replay_with_another_configuration(bundle, tmp_path, numalign):
    other = tmp_path / "other.yaml"
    other.write_text(json.dumps({**CONFIG, "reservedSystemCPUs": "0-1,8-9"}))
    done = numalign("replay", str(bundle), "--kubelet-config", str(other))
    assert done.returncode == 1
    assert "the kubelet would not start: cpu_manager_start: not all reserved cpus" in done.stdout
    other.write_text(json.dumps({**CONFIG, "topologyManagerPolicy": "nonsense"}))
    done = numalign("replay", str(bundle), "--kubelet-config", str(other))
    assert done.returncode == 2
    assert "nonsense" in done.stderr


def test_replay_of_a_damaged_state(root, tmp_path, numalign):
    state = tmp_path / "state"
    state.mkdir()
    for path in (root / "var/lib/kubelet").rglob("*_state"):
        (state / path.name).write_bytes(path.read_bytes())
    raw = ("replay", "--machine", str(root), "--state", str(state))
    raw += ("--kubelet-config", str(root / "var/lib/kubelet/config.yaml"))
    assert numalign(*raw).returncode == 0
    file = state / "cpu_manager_state"
    file.write_bytes(file.read_bytes().replace(b"static", b"statix"))
    done = numalign(*raw)
    assert done.returncode == 1
    assert "could not restore state from checkpoint" in done.stdout
    assert "the kubelet would not start" in done.stdout


def test_diff_tells_who_came_went_and_moved(bundle, tmp_path, numalign):
    other = make_root(tmp_path / "b", [pod("db", "2", "1Gi", gpus=1), pod("new", "2", "2Gi")])
    after = tmp_path / "after.tar.gz"
    assert numalign("capture", "--root", str(other), "-o", str(after)).returncode == 0
    done = numalign("diff", str(bundle), str(after))
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert "- unknown pod uid-web" in lines
    assert "+ unknown pod uid-new" in lines
    assert "~ unknown pod uid-db main CPUs: 2-3,10-11 -> 1,9" in lines
    assert "~ shared pool: 0,4-8,12-15 (10) -> 0,3-8,11-15 (12)" in lines
    found = json.loads(numalign("diff", str(bundle), str(after), "-o", "json").stdout)
    assert found["came"] == ["unknown pod uid-new"]
    assert found["config"] == []
    same = numalign("diff", str(bundle), str(bundle))
    assert (same.returncode, same.stdout) == (0, "no difference\n")


def test_pods_of_kubectl_are_taken_along(root, tmp_path, numalign):
    pods = tmp_path / "pods.json"
    pods.write_text(json.dumps({"apiVersion": "v1", "kind": "PodList", "items": RUNNING}))
    path = tmp_path / "host.tar.gz"
    numalign("capture", "--root", str(root), "--pods", str(pods), "-o", str(path))
    done = numalign("diff", str(path), str(path), "-o", "json")
    assert done.returncode == 0
    assert "unknown" not in numalign("replay", str(path), "-o", "json").stdout
    pods.write_text(json.dumps({"kind": "List", "items": [{"kind": "Secret"}]}))
    done = numalign("capture", "--root", str(root), "--pods", str(pods), "-o", str(path))
    assert done.returncode == 2
    assert "other items than pods" in done.stderr


def test_kubectl_finds_us_under_another_name(monkeypatch, numalign):
    monkeypatch.setattr("sys.argv", ["/usr/local/bin/kubectl-numa"])
    assert numalign("--help").stdout.startswith("Usage: kubectl numa [OPTIONS] COMMAND")
    assert "kubectl numa topology\n" in numalign("--help").stdout
    assert numalign("admit", "--help").stdout.startswith("Usage: kubectl numa admit [OPTIONS]")
    assert "See 'kubectl numa admit --help'" in numalign("admit", "--nonsense").stderr
    monkeypatch.setattr("sys.argv", ["/usr/local/bin/numalign"])
    assert numalign("--help").stdout.startswith("Usage: numalign [OPTIONS] COMMAND")


OLD_KUBELET = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
cpuManagerPolicyOptions: {distribute-cpus-across-numa: "true"}
reservedSystemCPUs: "0"
featureGates: {MemoryManager: true}
"""


def test_an_older_host_is_answered_with_the_closest_rules_and_a_note(manifest, numalign, tmp_path):
    config = tmp_path / "old.yaml"
    config.write_text(OLD_KUBELET)
    asked = ("admit", "-f", manifest(pod("a")), "--on", "2s:1n:4c:2t")
    done = numalign(*asked, "--kubelet-config", str(config), "--kubernetes", "1.30")
    assert done.returncode == 0, done.stderr
    assert "Kubernetes 1.30: answers follow the rules of 1.36" in done.stderr
    assert "feature gates that 1.36 does not take are passed over: MemoryManager" in done.stderr
    assert "distribute-cpus-across-numa is alpha in 1.30" in done.stderr
    done = numalign(*asked, "--kubelet-config", str(config))
    assert done.returncode == 2
    assert "unrecognized feature gate: MemoryManager. If it is that of an older" in done.stderr


def test_a_bundle_of_an_older_host_says_so(root, manifest, numalign, tmp_path):
    file = str(tmp_path / "old.tar.gz")
    done = numalign("capture", "--root", str(root), "--kubernetes", "1.33", "-o", file)
    assert done.returncode == 0, done.stderr
    done = numalign("admit", "-f", manifest(pod("a")), "--on", file)
    assert "Kubernetes 1.33: answers follow the rules of 1.36" in done.stderr
    exact = numalign("admit", "-f", manifest(pod("a")), "--on", file, "--kubernetes", "1.36")
    assert "answers follow" not in exact.stderr
    assert exact.stdout == done.stdout


def test_a_bundle_of_a_version_that_nobody_named_can_be_named_later(manifest, numalign, tmp_path):
    config = tmp_path / "old.yaml"
    config.write_text(OLD_KUBELET)
    root, file = make_root(tmp_path / "root", ()), str(tmp_path / "old.tar.gz")
    for state in (root / "var/lib/kubelet").glob("*_state"):
        state.unlink()
    numalign("capture", "--root", str(root), "--kubelet-config", str(config), "-o", file)
    asked = ("admit", "-f", manifest(pod("a")), "--on", file)
    assert "say so with --kubernetes" in numalign(*asked).stderr
    done = numalign(*asked, "--kubernetes", "1.30")
    assert "Kubernetes 1.30: answers follow the rules of 1.36" in done.stderr


def test_advice_for_an_older_host_has_no_options_that_it_does_not_know(manifest, numalign):
    asked = ("advise", "-f", manifest(pod("a")), "--on", "2s:1n:4c:2t", "-o", "json")

    def options(*more):
        trials = json.loads(numalign(*asked, *more).stdout)["trials"]
        return {name for trial in trials for name in trial["cpuManagerPolicyOptions"]}

    assert "distribute-cpus-across-numa" in options()
    assert options("--kubernetes", "1.30") == {"full-pcpus-only"}


def test_pods_of_a_bundle_are_shown_beside_the_machine_and_for_lstopo(bundle, numalign):
    shown = numalign("topology", "-m", str(bundle), "--pods").stdout
    lines = [line.split() for line in shown.splitlines()]
    head = lines.index(["NODE", "CPUS", "POD"])
    misc = numalign("topology", "-m", str(bundle), "--pods", "-o", "lstopo-misc").stdout
    owners = [" ".join(row[2:]) for row in lines[head + 1 :] if row[2] != "shared"]
    assert [line for line in misc.splitlines() if line.startswith("name=")][: len(owners)] == [
        f"name={owner}" for owner in owners
    ]
    assert owners
    assert "cpuset=0x" in misc
    done = numalign("topology", "-m", "2s:1n:4c", "-o", "lstopo-misc")
    assert (done.returncode, done.stdout) == (0, "")
    assert "no pods are known of 2s:1n:4c" in done.stderr
    done = numalign("topology", "-m", str(bundle), "--pods", "-o", "svg")
    assert done.returncode == 2
    assert "--pods goes with tree, table and lstopo-misc" in done.stderr
