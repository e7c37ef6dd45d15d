"""Both values are shown where a saved state and the host differ."""

from dataclasses import replace

from tests.core.hosts import GI, machine, settings

from numalign.apps.agent.starting.differences import Difference, differences
from numalign.core.kubelet import host as hosts
from numalign.core.kubelet.cpu.policy import STRICT
from numalign.core.settings import ReservedMemory
from numalign.core.values.quantity import Quantity
from numalign.wire.checkpoints import state_files

NOW = settings("best-effort", memory=True)


def files_of(configured, info):
    state = hosts.start(hosts.build(configured, info))
    return state_files.encoded(state, configured)


def found(configured, info, *, saved=NOW, had=None):
    return differences(files_of(saved, had or info), configured, hosts.build(configured, info))


def test_nothing_differs_on_the_same_host():
    assert found(NOW, machine(nodes=2)) == ()


def test_policies_are_shown_and_nothing_below_them():
    none = replace(NOW, cpu_policy="none", memory_policy="None")
    assert found(none, machine(nodes=2), had=machine(nodes=1)) == (
        Difference("CPU manager policy", "static", "none"),
        Difference("memory manager policy", "Static", "None"),
    )


def test_cpus_and_nodes_of_another_machine_are_shown():
    shown = {d.what: (d.saved, d.now) for d in found(NOW, machine(nodes=2), had=machine(nodes=1))}
    assert shown["NUMA nodes"] == ("0", "0-1")
    cpus = shown["CPUs"]
    assert cpus[0] != cpus[1]
    assert cpus[1].startswith("0-")


def test_reserved_memory_is_shown_with_both_amounts():
    more = Quantity.of(3 * 2**30, binary=True)
    now = replace(
        NOW,
        reserved_memory=(ReservedMemory(0, "memory", more),),
        node_allocatable_reservation={**NOW.node_allocatable_reservation, "memory": more},
    )
    shown = [d for d in found(now, machine(nodes=2)) if d.what.endswith("reserved")]
    assert (shown[0].what, shown[0].now) == ("memory of NUMA node 0, reserved", "3 GiB")
    assert shown[0].saved != "3 GiB"


def test_cpus_that_are_strictly_reserved_today_are_shown():
    strict = replace(NOW, cpu_options={STRICT: "true"})
    shown = {d.what: (d.saved, d.now) for d in found(strict, machine(nodes=2))}
    assert shown["reserved CPUs"][0].endswith("in the shared pool")
    assert shown["reserved CPUs"][1].endswith("strictly reserved")


def test_amounts_that_read_the_same_are_shown_in_bytes():
    [shown] = found(NOW, machine(nodes=1, memory=16 * GI + 4096), had=machine(nodes=1))
    assert shown == Difference(
        "memory of NUMA node 0, total", "17179869184 bytes", "17179873280 bytes"
    )


def test_files_that_cannot_be_read_have_no_values():
    host = hosts.build(NOW, machine(nodes=1))
    broken = {state_files.CPU: b"{", state_files.MEMORY: b"x"}
    assert differences(broken, NOW, host) == ()
