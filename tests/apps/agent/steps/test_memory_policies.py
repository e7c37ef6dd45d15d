"""Memory policies within what the memory manager gave, decided when the pod is."""

from dataclasses import replace

from tests.apps.agent.test_step import Host, box, kinds
from tests.core.hosts import machine, settings

from numalign.apps.agent import events as ev
from numalign.apps.agent.model import AgentSetup, AgentState, Phase
from numalign.apps.agent.notes import MemoryPolicyNotSet
from numalign.apps.agent.views.pods import notes_of
from numalign.core.kubelet import host as hosts
from numalign.core.kubelet.admission import node_fit
from numalign.wire.pods.annotations import MEMORY_POLICY
from numalign.wire.pods.records import Metadata, PodRecord, PodSpec


class TwoNodes(Host):
    def __init__(self, *, memory=True):
        super().__init__()
        configured = settings("best-effort", safe=True, memory=memory, reserved="0-1")
        info = machine(nodes=2, cores=4)
        built = hosts.build(configured, info)
        self.setup = AgentSetup(built, node_fit.allocatable(configured, info), runs_processes=True)
        self.state = AgentState(hosts.cleaned(built, hosts.start(built)))

    def ask(self, policy, uid="p", cpu="2", request=None):
        metadata = Metadata(name=uid, annotations={MEMORY_POLICY: policy})
        record = PodRecord(metadata=metadata, spec=PodSpec(containers=[box(cpu=cpu)]))
        return self.event(ev.PodSubmitted(uid, record, "api", self.now, request))


def start_of(effects):
    [start] = [e for e in effects if isinstance(e, ev.StartContainer)]
    return start


def test_a_container_starts_with_its_policy_over_the_nodes_that_it_was_given():
    start = start_of(TwoNodes().ask("interleave"))
    assert start.nodes in (0b01, 0b10)
    assert start.mempolicy.nodes.mask == start.nodes


def test_a_container_without_memory_of_its_own_has_all_nodes():
    assert str(start_of(TwoNodes(memory=False).ask("interleave")).mempolicy) == "interleave=0-1"


def test_nodes_that_the_memory_manager_did_not_give_are_refused_and_all_is_given_back():
    host = TwoNodes()
    given = start_of(host.ask("local", "first")).nodes
    other = 1 if given == 0b01 else 0
    host.event(ev.PodDeleted("first", 0.0))
    host.exited("first", "c")
    before = host.state.host.cpu.shared
    effects = host.ask(f"bind={other}", request=7)
    known = host.state.pods["p"]
    assert (known.phase, known.reason) == (Phase.FAILED, "MemoryPolicyError")
    assert f"found NUMA nodes {other}, expected some of {1 - other}," in known.message
    assert "StartContainer" not in kinds(effects)
    assert [e.accepted for e in effects if isinstance(e, ev.Answer)] == [False]
    assert host.state.host.cpu.shared == before and not host.state.host.memory.entries


def test_weighted_interleave_is_refused_where_the_kernel_has_none():
    host = TwoNodes()
    host.ask("weighted-interleave")
    assert "this kernel has none, expected Linux 6.9" in host.state.pods["p"].message
    host.setup = replace(host.setup, has_weighted_interleave=True)
    assert start_of(host.ask("weighted-interleave", "q")).mempolicy is not None


def test_a_runtime_that_sets_no_policy_says_so_once_and_in_the_pods_notes():
    host = TwoNodes()
    host.setup = replace(host.setup, runs_processes=False, without_mempolicy="the CRI cannot")
    told = [e.note for e in host.ask("interleave") if isinstance(e, ev.Publish)]
    [note] = [note for note in told if isinstance(note, MemoryPolicyNotSet)]
    assert (note.container, note.policy) == ("c", "interleave")
    [line] = notes_of(host.setup, host.state.pods["p"])
    assert line.startswith("c: memory policy interleave not set: the CRI cannot;")
