"""Options of the static CPU policy and the CPUs that it reserves."""

from dataclasses import replace

import pytest
from tests.core.hosts import machine, settings

from numalign.core.errors import StartError
from numalign.core.kubelet.cpu.policy import cpu_policy
from numalign.core.kubelet.cpu.topology import cpu_topology
from numalign.core.values.quantity import Quantity
from numalign.core.values.sets import format_list

TOPOLOGY = cpu_topology(machine())


def made(**changes):
    options = changes.pop("options", ())
    return cpu_policy(replace(settings(cpu_options=options), **changes), TOPOLOGY)


def test_a_reservation_of_parts_of_a_cpu_is_rounded_up():
    amount = {"cpu": Quantity.parse("1200m")}
    found = made(reserved_cpus="", node_allocatable_reservation=amount)
    assert format_list(found.reserved) == "0-1"


def test_a_list_must_name_as_many_cpus_as_are_reserved():
    with pytest.raises(StartError, match="size of 0-2 did not equal 1"):
        made(reserved_cpus="0-2")


def test_every_cpu_of_a_core_with_a_reserved_one_is_lost_for_full_cores():
    assert format_list(made().reserved_cores) == "0-1"


def test_reserved_cpus_are_shared_unless_the_reservation_is_strict():
    assert format_list(made().assignable) == "0-15"
    assert format_list(made(options=["strict-cpu-reservation"]).assignable) == "1-15"


def test_options_that_contradict_each_other_are_refused():
    with pytest.raises(StartError, match="can not be used at the same time"):
        made(options=["full-pcpus-only", "distribute-cpus-across-cores"])


def test_an_alpha_option_needs_its_gate():
    with pytest.raises(StartError, match="Alpha-level Options not enabled"):
        made(options=["align-by-socket"], gates={})


def test_whole_cores_are_the_groups_that_are_distributed():
    found = made(options=["full-pcpus-only", "distribute-cpus-across-numa"])
    assert found.distribution.group == 2
    assert made(options=["distribute-cpus-across-numa"]).distribution.group == 1
    assert made().distribution is None
