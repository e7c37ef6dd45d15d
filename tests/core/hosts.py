"""Small hosts and pods for tests of the deciding core."""

from dataclasses import replace

from numalign.core.kubelet import host
from numalign.core.kubelet.admission.admission import admit
from numalign.core.kubelet.devices import devices
from numalign.core.machine.kubelet_view import CoreInfo, MachineInfo, NodeInfo
from numalign.core.machine.machine import HugePages
from numalign.core.pod import Container, Pod
from numalign.core.settings import Fidelity, ReservedMemory, Settings, Version
from numalign.core.values.quantity import Quantity
from numalign.core.values.sets import parse_list

GI = 1 << 30
MI = 1 << 20


def machine(
    nodes=2, cores=4, threads=2, *, sockets=None, memory=16 * GI, hugepages=0, cpu_nodes=None
):
    """A machine with CPUs numbered node by node; distances 10, 12 in a socket, 32 elsewhere."""
    sockets = sockets or nodes
    first = 0
    found = []
    for node in range(nodes):
        own = []
        if cpu_nodes is None or node in cpu_nodes:
            for _ in range(cores):
                own.append(CoreInfo(tuple(range(first, first + threads)), node * sockets // nodes))
                first += threads
        row = tuple(
            10
            if other == node
            else 12
            if other * sockets // nodes == node * sockets // nodes
            else 32
            for other in range(nodes)
        )
        pages = (HugePages(2 * MI, hugepages),) if hugepages else ()
        found.append(NodeInfo(node, memory, pages, row, tuple(own)))
    return MachineInfo(tuple(found), sockets, nodes * memory)


def settings(
    policy="restricted",
    *,
    scope="container",
    safe=False,
    version=Version.V1_36,
    reserved="0",
    memory=True,
    cpu_options=(),
    topology_options=None,
    gates=None,
):
    """Static managers with one reserved CPU list and 1Gi of reserved memory on node 0."""
    count = parse_list(reserved).bit_count()
    reservation = {"cpu": Quantity.of(count)}
    if memory:
        reservation["memory"] = Quantity.of(GI)
    return Settings(
        version=version,
        fidelity=Fidelity.SAFE if safe else Fidelity.KUBELET,
        topology_policy=policy,
        topology_scope=scope,
        topology_options=topology_options or {},
        cpu_policy="static",
        cpu_options=dict.fromkeys(cpu_options, "true"),
        reserved_cpus=reserved,
        memory_policy="Static" if memory else "None",
        reserved_memory=(ReservedMemory(0, "memory", Quantity.of(GI)),) if memory else (),
        node_allocatable_reservation=reservation,
        gates={"CPUManagerPolicyAlphaOptions": True, **(gates or {})},
    )


def resources(cpu=None, memory=None, **others):
    """Resource amounts; a name such as ``gpu`` stands for example.com/gpu."""
    found = {}
    if cpu is not None:
        found["cpu"] = Quantity.parse(str(cpu))
    if memory is not None:
        found["memory"] = Quantity.parse(str(memory))
    for name, amount in others.items():
        full = (
            name.replace("hugepages_", "hugepages-")
            if "hugepages" in name
            else f"example.com/{name}"
        )
        found[full] = Quantity.parse(str(amount))
    return found


def container(name="c0", cpu=None, memory=None, *, init=False, sidecar=False, **others):
    """A container whose requests equal its limits."""
    amounts = resources(cpu, memory, **others)
    return Container(name, amounts, amounts, init or sidecar, sidecar)


def pod(uid, *containers, own=None):
    """A pod; ``own`` are resources of the pod itself."""
    inits = tuple(c for c in containers if c.is_init)
    apps = tuple(c for c in containers if not c.is_init)
    return Pod(uid, uid, "default", inits, apps, own, own)


class Driver:
    """A host with its state, for tests that admit one pod after the other."""

    def __init__(self, configured, info, plugins=None):
        self.host = host.build(configured, info)
        self.plugins = plugins or {}
        self.state = self._registered(host.start(self.host))

    def _registered(self, state):
        found = state.devices
        for name, items in self.plugins.items():
            found = devices.with_reported(found, name, devices.device_resource(items))
        return replace(state, devices=found)

    def admit(self, new):
        self.state, decision = admit(self.host, self.state, new)
        return decision

    def end(self, uid):
        self.state = host.cleaned(self.host, host.ended(self.state, uid))

    def restart(self):
        pods = dict(self.state.pods)
        before = self.state
        started = host.start(
            self.host, cpu=before.cpu, memory=before.memory, saved_devices=before.devices.saved
        )
        self.state = replace(self._registered(started), pods=pods)
        return {uid: self.admit(p) for uid, p in pods.items()}
