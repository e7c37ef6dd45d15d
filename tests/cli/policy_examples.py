"""Writes examples/policies/README.md: ``python -m tests.cli.policy_examples``."""

from __future__ import annotations

from dataclasses import replace

from tests.paths import CHECKOUT

from numalign.adapters.sources.discovery import discover
from numalign.apps.agent import config as agent_config
from numalign.core.explain.explain import asked, explain
from numalign.core.kubelet import host
from numalign.core.kubelet.admission import node_fit
from numalign.core.kubelet.admission.verdict import HostSnapshot
from numalign.core.kubelet.decisions import Admitted, Placement
from numalign.core.kubelet.devices import devices
from numalign.core.machine.kubelet_view import machine_info
from numalign.core.pod import qos_class
from numalign.core.settings import Fidelity, Version
from numalign.core.values.sets import format_list
from numalign.wire.kubelet.host_settings import host_settings
from numalign.wire.pods.manifests import core_pod, load_all

FOLDER = CHECKOUT / "examples" / "policies"
PAGE = FOLDER / "README.md"
MACHINE = "2s:1n:4c:2t"
PODS = (
    "best-effort",
    "burstable",
    "guaranteed-integer",
    "guaranteed-fraction",
    "best-effort-devices",
)
POLICIES = ("none", "best-effort", "restricted", "single-numa-node")
HEAD = f"""\
# What each topology policy makes of a pod

<!-- Written by `python -m tests.cli.policy_examples`; do not edit by hand. A test holds it to what
numalign says. -->

Five pods, from asking for nothing to asking for CPUs, memory and devices, on a host with two NUMA
nodes of eight CPUs ({MACHINE}). CPU 0 is reserved. `example.com/device` and `example.com/device-b`
are on node 1, `example.com/device-a` is on node 0. To see any of it in detail:

    cd examples/policies
    numalign explain -f best-effort-devices.yaml --on {MACHINE} --kubelet-config host.yaml

and change `topologyManagerPolicy` or `topologyManagerScope` in kubelet.yaml.
"""


def snapshot(policy: str, scope: str) -> HostSnapshot:
    """The host of the examples with this policy."""

    def beside(name: str) -> bytes:
        return (FOLDER / name).read_bytes()

    chosen = agent_config.load(beside("host.yaml"), source="host.yaml", read=beside)
    assert chosen.kubelet is not None, "the file names a KubeletConfiguration"
    machine = discover(MACHINE)
    config = replace(chosen.kubelet, topology_policy=policy, topology_scope=scope)
    settings = host_settings(config, machine, version=Version.V1_36, fidelity=Fidelity.KUBELET)
    managers = host.build(settings, machine_info(machine))
    state = host.start(managers)
    for item in chosen.devices:
        resource = devices.device_resource(item.on(machine))
        found = devices.with_reported(state.devices, item.resource, resource)
        state = replace(state, devices=found)
    totals = node_fit.allocatable(settings, managers.info)
    return HostSnapshot(machine, managers, state, totals)


def section(name: str) -> str:
    """What is said of one pod under every policy and scope."""
    path = FOLDER / f"{name}.yaml"
    [record] = load_all(path.read_bytes(), source=path.name)
    pod = core_pod(record, uid=name)
    comment = " ".join(
        line.removeprefix("# ") for line in path.read_text().splitlines() if line.startswith("#")
    )
    qos = qos_class(pod, snapshot("none", "container").host.settings)
    rows = ["| policy | scope | answer |", "| --- | --- | --- |"]
    for policy in POLICIES:
        said = {scope: _said(snapshot(policy, scope), pod) for scope in ("container", "pod")}
        if policy == "none" or len(set(said.values())) == 1:
            rows.append(f"| {policy} | either | {said['container']} |")
        else:
            rows += [f"| {policy} | {scope} | {text} |" for scope, text in said.items()]
    return f"\n## [{name}]({name}.yaml): {qos}\n\n{comment}\n\n" + "\n".join(rows) + "\n"


def _said(on: HostSnapshot, pod: object) -> str:
    case = asked(on, pod)  # type: ignore[arg-type]  # a Pod
    if isinstance(case.verdict, Admitted):
        return "; ".join(_placed(placement) for placement in case.verdict.placements)
    found = explain(case)
    text = found.sentence.partition("is refused: ")[2]
    return f"**{found.reason}**: {text}"


def _placed(placement: Placement) -> str:
    cpus = "shared pool" if placement.cpus is None else f"CPUs {format_list(placement.cpus)}"
    parts = [f"admitted: {cpus}"]
    parts += [f"memory on node {','.join(map(str, b.nodes))}" for b in placement.memory]
    parts += [ids for found in placement.devices.values() for ids in found]
    if placement.hint.nodes is not None and placement.hint.nodes.bit_count() == 1:
        parts.append(f"aligned to node {format_list(placement.hint.nodes)}")
    elif placement.hint.nodes is not None and not placement.hint.preferred:
        parts.append("not aligned")
    return ", ".join(parts)


def text() -> str:
    """The whole page."""
    return HEAD + "".join(map(section, PODS))


if __name__ == "__main__":
    PAGE.write_text(text())
