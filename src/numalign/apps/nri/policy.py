"""How this host decides: the host file applied to the machine, and what a pod changes of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from numalign.apps.nri.annotations import FULL_CORES, POLICY, SCOPE, ChoiceError, PodOptions
from numalign.core.errors import StartError
from numalign.core.kubelet import host as hosts
from numalign.core.kubelet.cpu import policy as cpu_options
from numalign.core.kubelet.host import Host
from numalign.core.kubelet.topology.policy import MAX_NODES, NODES_MAX_DEFAULT, topology_policy
from numalign.core.machine.kubelet_view import machine_info
from numalign.core.machine.machine import Machine
from numalign.core.settings import Fidelity, Version
from numalign.wire.kubelet.host_settings import default_config, host_settings
from numalign.wire.nri.host_file import HostFile

VERSION: Final = Version.V1_36
_Choice = tuple[str, str, bool]


@dataclass(frozen=True, slots=True)
class HostPolicy:
    """The host as its file says. Choices of pods are worked out once each."""

    host: Host
    namespaces: tuple[str, ...]
    _variants: dict[_Choice, Host] = field(default_factory=dict, compare=False, repr=False)

    def host_for(self, options: PodOptions) -> Host:
        """The host as one pod wants it; ChoiceError where the host cannot do that."""
        settings, cpu = self.host.settings, self.host.cpu
        full = cpu is not None and cpu_options.FULL_CORES in cpu.options
        choice = (
            options.policy or settings.topology_policy,
            options.scope or settings.topology_scope,
            full if options.full_cores is None else options.full_cores,
        )
        if choice not in self._variants:
            self._variants[choice] = self._variant(choice)
        return self._variants[choice]

    def _variant(self, choice: _Choice) -> Host:
        policy, scope, full = choice
        settings = replace(self.host.settings, topology_policy=policy, topology_scope=scope)
        try:
            topology = topology_policy(settings, self.host.info)
        except StartError as error:
            raise ChoiceError(f"annotations {POLICY}, {SCOPE}: {error}") from error
        cpu = self.host.cpu
        if cpu is not None:
            if policy == "single-numa-node" and cpu_options.ALIGN_SOCKET in cpu.options:
                raise ChoiceError(
                    f"annotation {POLICY}: single-numa-node cannot be had on a host with the "
                    f"option {cpu_options.ALIGN_SOCKET}"
                )
            if full and cpu_options.SPREAD_CORES in cpu.options:
                raise ChoiceError(
                    f"annotation {FULL_CORES}: cannot be had on a host with the option "
                    f"{cpu_options.SPREAD_CORES}"
                )
            wanted = frozenset({cpu_options.FULL_CORES})
            cpu = replace(cpu, options=cpu.options | wanted if full else cpu.options - wanted)
        elif full:
            raise ChoiceError(f"annotation {FULL_CORES}: this host gives no container its own CPUs")
        return replace(self.host, settings=settings, topology=topology, cpu=cpu)


def host_policy(found: HostFile | None, machine: Machine) -> HostPolicy:
    """The policy of a host file, or (None) a cautious one; ConfigError or StartError if wrong.

    Many NUMA nodes are no reason to refuse: the search does not grow with their number here.
    """
    config = default_config(machine) if found is None else found.kubelet
    count = len(machine.nodes)
    if count > NODES_MAX_DEFAULT and MAX_NODES not in config.topology_options:
        options = {**config.topology_options, MAX_NODES: str(count)}
        config = replace(config, topology_options=options)
    settings = host_settings(config, machine, version=VERSION, fidelity=Fidelity.SAFE)
    namespaces = HostFile(config).namespaces if found is None else found.namespaces
    return HostPolicy(hosts.build(settings, machine_info(machine)), namespaces)
