"""From a host to its published object and back: the scheduler sees the host that there is."""

import json
import random
from dataclasses import replace

import pytest
from tests.core import hosts as examples

from numalign.core.cluster.publish.export import HostReport, KnownPod, exported
from numalign.core.cluster.scheduling.rebuild import rebuilt
from numalign.core.kubelet import host
from numalign.core.kubelet.admission import node_fit
from numalign.core.kubelet.admission.admission import placements
from numalign.core.kubelet.admission.verdict import refusal, verdict_on
from numalign.core.kubelet.devices import devices
from numalign.core.kubelet.devices.devices import Device
from numalign.core.machine.kubelet_view import machine_info
from numalign.core.machine.synthetic import synthetic_machine
from numalign.core.values.sets import bits
from numalign.core.views.podresources import View, resources_view
from numalign.wire.grpc import podresources as wire
from numalign.wire.kubernetes import nrt

SHAPES = ["2s:1n:8c:2t,mem=16Gi", "2s:2n:4c:2t,mem=8Gi,hp2Mi=512", "1s:4n:4c:1t,mem=4Gi"]
POLICIES = ["none", "best-effort", "restricted", "single-numa-node"]
NIC = "example.com/nic"


class Case:
    """A random host, in kubelet fidelity, that admits and ends random pods."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.machine = synthetic_machine(self.rng.choice(SHAPES))
        info = machine_info(self.machine)
        options = self.rng.choice([[], ["full-pcpus-only"], ["distribute-cpus-across-numa"]])
        settings = examples.settings(
            self.rng.choice(POLICIES),
            scope=self.rng.choice(["container", "pod"]),
            cpu_options=options,
        )
        self.host = host.build(settings, info)
        self.totals = node_fit.allocatable(settings, info)
        found = tuple(Device(f"n{i}", (i % len(info.nodes),)) for i in range(6))
        state = host.start(self.host)
        reported = devices.with_reported(state.devices, NIC, devices.device_resource(found))
        self.state = replace(state, devices=reported)
        self.count = 0

    def pod(self):
        self.count += 1
        rng = self.rng

        def one(number, **kind):
            cpu = rng.choice(["1", "2", "2", "3", "4", "500m", "1500m"])
            others = {"nic": 1} if rng.random() < 0.2 else {}
            return examples.container(f"c{number}", cpu, f"{rng.randint(1, 5)}Gi", **kind, **others)

        containers = [one(number) for number in range(rng.randint(1, 2))]
        if rng.random() < 0.3:
            containers.append(one(8, init=True))
        if rng.random() < 0.2:
            containers.append(one(9, sidecar=True))
        if rng.random() < 0.2:
            containers = [
                replace(c, limits={}) for c in containers if "example.com/nic" not in c.limits
            ]
            containers = containers or [examples.container("c0")]
        return examples.pod(f"pod-{self.count}", *containers)

    def live(self, steps):
        for _ in range(steps):
            if self.state.pods and self.rng.random() < 0.3:
                gone = self.rng.choice(sorted(self.state.pods))
                self.state = host.cleaned(self.host, host.ended(self.state, gone))
            else:
                self.state, _ = verdict_on(self.host, self.state, self.totals, self.pod())
                self.state = host.cleaned(self.host, self.state)
                for uid in self.state.pods:
                    self.state = host.containers_started(self.state, uid)

    def published(self):
        """The object as a scheduler reads it, past both wires."""
        view = resources_view(self.host, self.state)
        view = View(
            wire.pods_of(wire.list_response(view.pods)),
            wire.allocatable_of(wire.allocatable_response(view.allocatable)),
        )
        topology = exported(
            HostReport(
                name="h",
                machine=self.machine,
                info=self.host.info,
                settings=self.host.settings,
                view=view,
                pods={(p.namespace, p.name): KnownPod(p, u) for u, p in self.state.pods.items()},
                cpu_state=self.state.cpu,
                memory_state=self.state.memory,
                saved_devices=self.state.devices.saved,
            )
        )
        return nrt.read(json.dumps(nrt.body(topology)).encode()).topology


@pytest.mark.parametrize("seed", range(60))
def test_the_rebuilt_host_holds_the_same_and_decides_the_same(seed):
    case = Case(seed)
    case.live(12)
    found = case.published()
    again = rebuilt(found.placement, case.state.pods.values())
    assert again.confirmed == case.state.pods.keys()
    assert found.placement.shared_cpus == case.state.cpu.shared
    assert again.state.cpu.shared == case.state.cpu.shared
    assert again.state.cpu.entries == case.state.cpu.entries
    assert {n: m.tables for n, m in again.state.memory.machine.items()} == {
        n: m.tables for n, m in case.state.memory.machine.items()
    }
    assert again.state.devices.in_use.get(NIC, frozenset()) == case.state.devices.in_use.get(
        NIC, frozenset()
    )
    for _ in range(6):
        pod = case.pod()
        here, verdict = verdict_on(case.host, case.state, case.totals, pod)
        there, predicted = verdict_on(again.frame.host, again.state, again.frame.totals, pod)
        assert refusal(predicted) == refusal(verdict)
        if refusal(verdict) is None:
            assert placements(there, pod) == placements(here, pod)


@pytest.mark.parametrize("seed", range(40))
def test_what_is_available_is_what_the_managers_have_left(seed):
    case = Case(seed)
    case.live(12)
    found = case.published()
    held = 0
    for containers in case.state.cpu.entries.values():
        for uid_cpus in containers.values():
            held |= uid_cpus
    for zone, node in zip(found.zones, case.machine.nodes, strict=True):
        amounts = {r.name: r.available.value() for r in zone.resources}
        free = set(node.cpus) - set(bits(held)) - set(bits(case.host.cpu.reserved))
        listed = {c.name for p in case.state.pods.values() for c in p.in_order if c.is_regular_init}
        if not listed:  # what is held for init containers is in no list
            assert amounts["cpu"] == len(free)
