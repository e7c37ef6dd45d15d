"""Every refusal in the recorded scenarios of the real kubelet, with the host as it was before."""

import gzip
import json

from tests.paths import VECTORS

from numalign.conformance.scenarios import Replay, prefer_lowest
from numalign.core.errors import StartError
from numalign.core.kubelet.admission.admission import Operation
from numalign.core.kubelet.admission.verdict import HostSnapshot
from numalign.core.kubelet.decisions import Broken, Rejected
from numalign.core.machine.machine import Cpu, Machine, NumaNode, validate
from numalign.core.settings import Version
from numalign.core.values.sets import CpuSet

FILES = (
    (VECTORS / "scenarios.jsonl.gz", Version.V1_36),
    (VECTORS / "1.37" / "scenarios-1.37.jsonl.gz", Version.V1_37),
    (VECTORS / "1.37" / "resize-1.37.jsonl.gz", Version.V1_37),
)


def totals_for(snapshot_state, pod):
    """Totals without limit: the recorded kubelets had no node-fit check behind them."""
    pods = [pod, *snapshot_state.pods.values()]
    names = {name for p in pods for c in p.in_order for name in (*c.requests, *c.limits)}
    return dict.fromkeys(names | {"cpu", "memory", "pods"}, 1 << 62)


def machine_of(info):
    """A machine that the kubelet would see like this."""
    nodes, cpus = [], []
    for node in info.nodes:
        # Machines with gaps between node ids list more distances than nodes.
        is_whole = node.distances is not None and len(node.distances) == len(info.nodes)
        distances = node.distances if is_whole else None
        own = [thread for core in node.cores for thread in core.threads]
        nodes.append(
            NumaNode(node.id, CpuSet.of(own), node.memory_bytes, node.hugepages, distances)
        )
        for core in node.cores:
            name = min(core.threads)
            cpus += [Cpu(t, node.id, core.socket, name, name) for t in core.threads]
    cpus.sort(key=lambda cpu: cpu.id)
    return validate(Machine("recorded", tuple(nodes), tuple(cpus), info.memory_bytes))


class _Watched(Replay):
    """A replay that keeps each refusal and the state before it."""

    def __init__(self, scenario, version):
        self.refused = []
        super().__init__(scenario, version)

    def admit(self, pod, operation=Operation.ADD):
        before = self.state
        decision = super().admit(pod, operation)
        if isinstance(decision, Rejected | Broken) and operation is Operation.ADD:
            self.refused.append((before, pod, decision))
        return decision


def refusals(part=0, parts=1, files=FILES):
    """(name, HostSnapshot, Pod, Rejected) of all refusals in every ``parts``-th scenario."""
    for path, version in files:
        with gzip.open(path, "rt") as stream:
            for number, text in enumerate(stream):
                if number % parts == part:
                    yield from of_scenario(json.loads(text)["scenario"], version)


def of_scenario(scenario, version):
    try:
        replay = _Watched(scenario, version)
    except StartError:
        return
    machine = machine_of(replay.host.info)
    for number, step in enumerate(scenario["steps"]):
        replay.refused = []
        try:
            replay.step(step)
        except StartError:
            return
        for before, pod, decision in replay.refused:
            snapshot = HostSnapshot(machine, replay.host, before, totals_for(before, pod))
            yield f"{version} {scenario['id']} step {number}", snapshot, pod, decision


__all__ = ["machine_of", "prefer_lowest", "refusals"]
