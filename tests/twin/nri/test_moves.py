"""A host moves from the kubelet's managers to the plugin and back: nobody loses a CPU."""

import json
import os

import pytest
from tests.real.guest import TOPOLOGIES, Guest
from tests.real.kept import MissingError, say
from tests.twin.configurations import CONFIGURATIONS
from tests.twin.nri.run import INSIDE, VERSION, NriWorker, with_list
from tests.twin.sequences import GPU, container, pod, with_devices, with_pages
from tests.twin.worker import Worker, clock

pytestmark = pytest.mark.e2e_numa

CONFIGURATION = CONFIGURATIONS["restricted-container"]
BEFORE = (
    pod(1, [container("c", "2", "48Mi")]),
    pod(2, [container("c", "500m", "32Mi", is_burstable=True)]),
    pod(3, [container("c", "1500m", "32Mi")]),  # memory of its own, shared CPUs
    pod(4, [container("a", "2", "32Mi"), container("b", "1", "16Mi")]),
    pod(5, [with_pages(container("c", "2", "32Mi"), 8)]),
    pod(6, [with_devices(container("c", "1", "16Mi"), GPU, 1)]),
)


class Host:
    """One guest in which both kubelets, and the plugin, place in turn."""

    def __init__(self, guest):
        self.guest = guest
        self.managed = Worker(guest, CONFIGURATION, VERSION)
        self.ours = NriWorker(guest, CONFIGURATION)
        self.ours.uids = self.managed.uids

    def to_plugin(self):
        self.stop_kubelet()
        self.ours.call("take_from_kubelet", self.ours.worker.configuration.kubelet)
        # The plugin comes last, as a DaemonSet's pod does: containers keep what they have.
        self.ours.worker.start_kubelet()
        self.ours.worker.start_plugins()
        self.ours.start_plugin()

    def to_kubelet(self):
        self.stop_kubelet()
        self.ours.call("end")
        self.ours.call("give_back_to_kubelet")
        self.managed.start_kubelet()
        self.managed.call("restarted", list(self.managed.uids.values()))
        self.managed.start_plugins()

    def stop_kubelet(self):
        self.managed.call("stop_kubelet")
        self.managed.call("stop_plugins", "/var/lib/kubelet/device-plugins")

    def shown(self):
        """Where every container is, and which one it is."""
        return {
            name: (self.ours.call("containers", uid), places(self.ours.call("settled", uid, name)))
            for name, uid in self.managed.uids.items()
        }


def places(result):
    assert not result["refused"]
    return {
        name: (files["cpuset.cpus"], files["cpuset.mems"])
        for name, files in result["cgroups"].items()
        if name
    }


def owned(text):
    """Who has which CPUs by the kubelet's file."""
    found = json.loads(text)
    found = found.get("data", found)
    found = json.loads(found) if isinstance(found, str) else found
    return found.get("entries", {}), found["defaultCpuSet"]


@pytest.fixture(scope="module")
def host():
    if os.geteuid() != 0:
        pytest.skip("the guest reads this host's files as root")
    try:
        with Guest(TOPOLOGIES[CONFIGURATION.topology]) as guest:
            guest.call(f"{INSIDE}:load")
            yield Host(guest)
    except MissingError as error:
        pytest.skip(str(error))


def test_both_moves_keep_every_container_and_every_cpu(host):
    at = clock()
    host.managed.start()
    for number, step in enumerate(BEFORE):
        # Pods from before and after our admission policy.
        manifest = with_list(step["apply"]) if number % 2 else step["apply"]
        result = host.managed.step({"apply": manifest})
        assert result["phase"] == "Running", result
    before = host.shown()
    held = owned(host.managed.call("state_files")["cpu_manager_state"])
    say(f"{at()} under the kubelet's managers: {before}")

    host.to_plugin()
    assert host.shown() == before
    told = host.ours.call("published")
    assert owned(json.dumps(told["cpu_manager_state"])) == held
    say(f"{at()} under the plugin: the same {len(before)} pods, nobody restarted")

    # It works from here on: a restarted container keeps its CPUs, a new pod gets free ones.
    host.ours.call("kill_container", host.managed.uids["p1"], "c")
    again = host.shown()
    assert again["p1"][0] != before["p1"][0]
    assert {name: one[1] for name, one in again.items()} == {
        name: one[1] for name, one in before.items()
    }
    fresh = places(host.ours.apply(pod(7, [container("c", "2", "16Mi")])["apply"]))
    say(f"{at()} a new pod under the plugin: {fresh}")
    before = host.shown()
    taken = json.dumps(host.ours.call("published")["cpu_manager_state"])

    host.to_kubelet()
    assert host.shown() == before
    assert owned(host.managed.call("state_files")["cpu_manager_state"]) == owned(taken)
    last = host.managed.step(pod(8, [container("c", "1", "16Mi")]))
    assert last["phase"] == "Running"
    cpu = last["cgroups"]["c"]["cpuset.cpus"]
    assert cpu not in {one[0] for pods in before.values() for one in pods[1].values()}
    say(f"{at()} back under the kubelet's managers: the same, and a new pod on {cpu}")
