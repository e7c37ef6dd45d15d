"""One pod on its way through admission: what the providers say and give, step by step.

A Draft is the only mutable value of the core and lives no longer than one admission. It starts
from a HostState and ends in the next one. The rules themselves are in ``cpu_static``,
``memory_static``, ``devices`` and ``pod_level``; here is who is asked for what, and when.
"""

from __future__ import annotations

from collections.abc import Mapping

from numalign.core.kubelet.admission import pod_level
from numalign.core.kubelet.cpu import static as cpu_static
from numalign.core.kubelet.decisions import AllocationError
from numalign.core.kubelet.devices import devices
from numalign.core.kubelet.devices.devices import Preferred, Wanted
from numalign.core.kubelet.host import Host, HostState, Reusable, cleaned
from numalign.core.kubelet.memory import static as memory_static
from numalign.core.kubelet.memory.policy import MemoryPolicy
from numalign.core.kubelet.state import Block, MemoryState
from numalign.core.kubelet.topology.hints import Affinity, Hint, ProviderHints, ResourceHints
from numalign.core.pod import (
    Container,
    NotAnIntegerError,
    Pod,
    Qos,
    exclusive_cpus,
    has_pod_level_managers,
    is_memory_type,
    memory_requests,
    pod_exclusive_cpus,
    pod_limits,
    pod_memory_requests,
    qos_class,
)
from numalign.core.settings import Version


def no_preference(
    _name: str, _offered: tuple[str, ...], _must: tuple[str, ...], _count: int
) -> tuple[str, ...]:
    """The preferred allocation of a plugin that has none."""
    return ()


class Draft:
    """A pod in the middle of its admission."""

    def __init__(
        self,
        host: Host,
        state: HostState,
        pod: Pod,
        *,
        is_resize: bool = False,
        preferred: Preferred = no_preference,
        past_defects: bool = False,
    ) -> None:
        settings = host.settings
        self.host = host
        self.settings = settings
        self.pod = pod
        self.uid = pod.uid
        self.is_resize = is_resize
        self.preferred = preferred
        self.past_defects = past_defects
        self.hints: dict[str, Hint] = {}
        self.is_guaranteed = qos_class(pod, settings) is Qos.GUARANTEED
        self.is_pod_level = has_pod_level_managers(pod, settings)
        is_1_37 = settings.version is Version.V1_37
        # CPU and memory manager look away from pods with pod-level resources that they may not
        # manage, and, from 1.37 on, from every resize.
        self.is_managed = not (pod.has_pod_level_resources and not self.is_pod_level)
        self.is_resize_ignored = is_resize and is_1_37
        self.skips_empty_memory = is_1_37
        pods = state.pods if is_resize else {**state.pods, pod.uid: pod}
        state = cleaned(host, _with_pods(state, pods))
        self.before = state
        self.cpu = state.cpu
        self.memory = state.memory
        self.devices = state.devices
        self.reusable = state.reusable if state.reusable.uid == pod.uid else Reusable(pod.uid)

    # How it ends.

    def admitted(self) -> HostState:
        """The next state if the pod is taken."""
        before = self.before
        hints = before.hints
        if self.hints:
            hints = {**hints, self.uid: self.hints}
        return HostState(
            self.cpu,
            self.memory,
            self.devices,
            {**before.pods, self.uid: self.pod},
            hints,
            self.reusable,
            before.gone,
            before.unchecked,
            before.running,
        )

    def refused(self) -> HostState:
        """The next state if it is not: an added pod is inactive, what it was given is stale."""
        before = self.before
        pods, hints = before.pods, before.hints
        if not self.is_resize:
            pods = {uid: pod for uid, pod in pods.items() if uid != self.uid}
            hints = {uid: found for uid, found in hints.items() if uid != self.uid}
        return HostState(
            self.cpu,
            self.memory,
            self.devices,
            pods,
            hints,
            self.reusable,
            before.gone | {self.uid},
            before.unchecked,
            before.running,
        )

    def is_placed(self) -> bool:
        """Whether every container already holds exactly what it asks for, after a restart."""
        return all(self._is_placed(container) for container in self.pod.in_order) and (
            self.uid in self.cpu.entries
            or self.uid in self.memory.entries
            or self.uid in self.devices.entries
        )

    def _is_placed(self, container: Container) -> bool:
        count = self.cpu_count(container)
        held = self.cpu.entries.get(self.uid, {}).get(container.name)
        if count and (held is None or held.bit_count() != count):
            return False
        if container.is_regular_init:
            return True  # it may have given back its memory, and its devices to those after it
        blocks = self.memory.entries.get(self.uid, {}).get(container.name)
        if self.host.memory is not None and self.memory_request(container) and blocks is None:
            return False
        return all(
            len(self.devices.held(self.uid, container.name, name)) == limit.value()
            for name, limit in container.limits.items()
            if self.devices.is_device(name)
        )

    # Hints.

    def answers(self, container: Container | None) -> tuple[ProviderHints, ...]:
        """What devices, CPU and memory say of a container, or (None) of the whole pod."""
        if container is None:
            return (
                self._device_hints_of_pod(),
                self._cpu_hints_of_pod(),
                self._memory_hints_of_pod(),
            )
        return (
            self._device_hints(container),
            self._cpu_hints(container),
            self._memory_hints(container),
        )

    def _device_hints(self, container: Container) -> ProviderHints:
        found: dict[str, ResourceHints] = {}
        for name, limit in container.limits.items():
            if self.devices.is_device(name):
                found[name] = devices.hint(
                    self.devices,
                    name,
                    limit.value(),
                    self.host.all_nodes,
                    held=frozenset(self.devices.held(self.uid, container.name, name)),
                    reusable=self.reusable.devices.get(name, frozenset()),
                )
        return found

    def _device_hints_of_pod(self) -> ProviderHints:
        found: dict[str, ResourceHints] = {}
        for name, limit in pod_limits(self.pod, self.settings, with_overhead=False).items():
            if self.devices.is_device(name):
                held = [self.devices.held(self.uid, c.name, name) for c in self.pod.in_order]
                found[name] = devices.hint(
                    self.devices,
                    name,
                    limit.value(),
                    self.host.all_nodes,
                    held=frozenset().union(*held),
                    reusable=frozenset(),
                )
        return found

    def cpu_count(self, container: Container) -> int:
        """How many CPUs of its own the CPU manager would give a container."""
        if self.host.cpu is None or not self.is_managed:
            return 0
        return exclusive_cpus(self.pod, container, self.settings)

    def _cpu_hints(self, container: Container) -> ProviderHints:
        count = self.cpu_count(container)
        policy = self.host.cpu
        if policy is None or count == 0 or self.is_resize_ignored:
            return None
        held = self.cpu.entries.get(self.uid, {}).get(container.name)
        if held is None:
            free = self.cpu.shared & ~policy.reserved
            return {"cpu": cpu_static.hint_set(policy, free, self.reusable.cpus, count)}
        if held.bit_count() != count:
            return {"cpu": Affinity.NOWHERE}
        return {"cpu": cpu_static.hint_set(policy, held, 0, count)}

    def _cpu_hints_of_pod(self) -> ProviderHints:
        policy = self.host.cpu
        if policy is None or not self.is_managed or self.is_resize_ignored:
            return None
        count = pod_exclusive_cpus(self.pod, self.settings)
        if count == 0:
            return None
        if self.is_pod_level and pod_level.cpu_pool_problem(self.pod, self.settings):
            return {"cpu": Affinity.NOWHERE}
        union = 0
        entries = self.cpu.entries.get(self.uid, {})
        for container in self.pod.in_order:
            held = entries.get(container.name)
            if held is not None:
                if held.bit_count() != self.cpu_count(container):
                    return {"cpu": Affinity.NOWHERE}
                union |= held
        if union.bit_count() == count:
            return {"cpu": cpu_static.hint_set(policy, union, 0, count)}
        free = self.cpu.shared & ~policy.reserved
        return {"cpu": cpu_static.hint_set(policy, free, self.reusable.cpus | union, count)}

    def memory_request(self, container: Container) -> dict[str, int] | None:
        """The bytes a container asks for; None if the memory manager does not care."""
        if self.host.memory is None or not self.is_guaranteed or not self.is_managed:
            return None
        try:
            return memory_requests(self.pod, container, self.settings)
        except NotAnIntegerError:
            return None

    def _memory_hints(self, container: Container) -> ProviderHints:
        policy = self.host.memory
        request = self.memory_request(container)
        if policy is None or request is None or self.is_resize_ignored:
            return None
        if not request and self.skips_empty_memory:
            return None
        blocks = self.memory.entries.get(self.uid, {}).get(container.name)
        if blocks is not None:
            return memory_static.regenerated(blocks, request)
        return self._new_memory_hints(policy, request)

    def _memory_hints_of_pod(self) -> ProviderHints:
        policy = self.host.memory
        if policy is None or not self.is_guaranteed or not self.is_managed:
            return None
        if self.is_resize_ignored:
            return None
        try:
            request = pod_memory_requests(self.pod, self.settings)
        except NotAnIntegerError:
            return None
        if self.is_pod_level and pod_level.memory_pool_problem(self.pod, self.settings):
            return dict.fromkeys(request, Affinity.NOWHERE)
        entries = self.memory.entries.get(self.uid, {})
        for container in self.pod.in_order:
            if container.name in entries:
                return memory_static.regenerated(entries[container.name], request)
        return self._new_memory_hints(policy, request)

    def _new_memory_hints(self, policy: MemoryPolicy, request: dict[str, int]) -> ProviderHints:
        """Hints for what is not held yet; the same for every kind of memory that is asked for."""
        if not request:
            return {}
        found = memory_static.hint_set(policy, self.memory.machine, request, self.reusable.memory)
        return {} if found is None else dict.fromkeys(request, found)

    # Allocation.

    def give_devices(self, container: Container, hint: Hint) -> None:
        """Gives a container the devices that its limits name."""
        if self.is_resize_ignored:
            return
        names = [name for name in sorted(container.limits) if self.devices.is_device(name)]
        given = False
        for name in names:
            wanted = Wanted(self.uid, container.name, name, container.limits[name].value())
            reusable = self.reusable.devices.get(name, frozenset())
            devices.check_unchanged(self.devices, wanted)
            running = self.before.running
            if running is not None and (self.uid, container.name) in running:
                continue
            ids = devices.chosen(self.devices, wanted, hint, reusable, self.preferred)
            if ids:
                self.devices = devices.with_held(self.devices, wanted, ids)
                given = True
        if given:
            self.devices = devices.with_saved(self.devices)
        if names:
            held = {name: self.devices.held(self.uid, container.name, name) for name in names}
            after = devices.reusable_after(self.reusable.devices, container, held)
            self.reusable = Reusable(self.uid, self.reusable.cpus, self.reusable.memory, after)

    def give_cpus(self, container: Container, hint: Hint) -> None:
        """Gives a container its own CPUs, if it is to have any."""
        policy = self.host.cpu
        count = self.cpu_count(container)
        if policy is None or count == 0 or self.is_resize_ignored:
            return
        held = self.cpu.entries.get(self.uid, {}).get(container.name)
        if held is None or cpu_static.checks_cores_first(policy):
            cpu_static.check_full_cores(policy, self.cpu, count)
        if held is None:
            held = cpu_static.taken(policy, self.cpu, hint, self.reusable.cpus, count)
            if not self.past_defects:
                cpu_static.check_free(policy, self.cpu, self.reusable.cpus, held)
            self.cpu = cpu_static.stored(
                self.cpu,
                self.uid,
                container.name,
                held,
                self.cpu.shared & ~held,
                baselines=self.settings.gate("InPlacePodVerticalScalingExclusiveCPUs"),
            )
        reusable = cpu_static.reusable_after(self.reusable.cpus, container, held)
        if reusable != self.reusable.cpus:
            self.reusable = Reusable(
                self.uid, reusable, self.reusable.memory, self.reusable.devices
            )

    def give_memory(self, container: Container, hint: Hint) -> None:
        """Gives a container of a Guaranteed pod its memory."""
        policy = self.host.memory
        if policy is None or self.is_resize_ignored:
            return
        if not self.is_guaranteed or not self.is_managed:
            return
        blocks = self.memory.entries.get(self.uid, {}).get(container.name)
        if blocks is None or self.skips_empty_memory:
            try:
                request = memory_requests(self.pod, container, self.settings)
            except NotAnIntegerError as error:
                kinds = tuple(n for n in container.requests if is_memory_type(n))
                raise AllocationError(str(error), kinds) from error
            if not request and self.skips_empty_memory:
                return
            if blocks is None:
                self._give_new_memory(container, request, hint)
                return
        self._note_reusable_memory(container, blocks)

    def _give_new_memory(self, container: Container, request: dict[str, int], hint: Hint) -> None:
        policy, accounts = self.host.memory, self.memory.machine
        assert policy is not None, "memory is only given under a memory policy"
        reusable = self.reusable.memory
        mask = memory_static.chosen_nodes(policy, accounts, request, reusable, hint)
        accounts = memory_static.charged(accounts, mask, request, reusable.get(mask, {}))
        blocks = memory_static.blocks_of(mask, request)
        self._note_reusable_memory(container, blocks)
        own = {**self.memory.entries.get(self.uid, {}), container.name: blocks}
        if self.pod.init_containers:
            own = memory_static.shrunk(own, self.pod, container, blocks)
        entries = {**self.memory.entries, self.uid: own}
        self.memory = MemoryState(self.memory.policy, accounts, entries, self.memory.pod_blocks)

    def _note_reusable_memory(self, container: Container, blocks: tuple[Block, ...]) -> None:
        if not self.reusable.memory and not container.is_regular_init:
            return
        after = memory_static.reusable_after(self.reusable.memory, container, blocks)
        self.reusable = Reusable(self.uid, self.reusable.cpus, after, self.reusable.devices)

    def give_pod_cpus(self, hint: Hint) -> None:
        """Gives a pod with pod-level resources its CPUs as a whole."""
        policy = self.host.cpu
        if policy is None or self.is_resize_ignored:
            return
        try:
            self.cpu = pod_level.give_cpus(policy, self.cpu, self.pod, self.settings, hint)
        except pod_level.KeptPodSetError as error:
            if not policy.is_safe:
                self.cpu = error.state
            raise

    def give_pod_memory(self, hint: Hint) -> None:
        """Gives a pod with pod-level resources its memory as a whole."""
        policy = self.host.memory
        if policy is None or self.is_resize_ignored or not self.is_guaranteed:
            return
        try:
            self.memory = pod_level.give_memory(policy, self.memory, self.pod, self.settings, hint)
        except NotAnIntegerError:
            return


def _with_pods(state: HostState, pods: Mapping[str, Pod]) -> HostState:
    return HostState(
        state.cpu,
        state.memory,
        state.devices,
        pods,
        state.hints,
        state.reusable,
        state.gone,
        state.unchecked,
        state.running,
    )
