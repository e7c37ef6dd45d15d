"""A scenario made into hosts and work, ready to run."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path as FilePath
from typing import Final

import msgspec

from numalign.adapters.local.packed import read_file, unpacked
from numalign.adapters.sources.discovery import discover
from numalign.adapters.sources.fleet_captures import read_fleet
from numalign.apps.cluster_view.fleet import fleet_hosts
from numalign.apps.simulator import presets
from numalign.apps.simulator.report.summary import AS_IS
from numalign.core.cluster.publish.placement import PublishedPlacement
from numalign.core.cluster.scheduling.rebuild import Frame, frame_of
from numalign.core.errors import NumalignError, WireError
from numalign.core.fleet.measures import Mix, ReferencePod
from numalign.core.fleet.rooms import Rooms
from numalign.core.fleet.simulation.model import Controllers, Job, Recreate, SimHost
from numalign.core.fleet.simulation.schedulers import record_of
from numalign.core.kubelet.devices.devices import Device
from numalign.core.kubelet.host import HostState
from numalign.core.machine.kubelet_view import machine_info
from numalign.core.machine.machine import Machine
from numalign.core.pod import Pod
from numalign.core.settings import Version
from numalign.wire.fleet.scenario.form import HostsForm, VariantForm
from numalign.wire.fleet.scenario.lines import Path
from numalign.wire.fleet.scenario.reading import Scenario, shape_pod
from numalign.wire.fleet.traces import dlrm, openb, recorded
from numalign.wire.fleet.traces.work import ListedPod
from numalign.wire.kubelet import config as kubelet_config
from numalign.wire.kubelet.config import KubeletConfig
from numalign.wire.kubelet.host_settings import default_config, host_settings
from numalign.wire.kubernetes import nrt
from numalign.wire.kubernetes.scheduling import host_from_json, pod_from_json

MIX_SIZE_MAX: Final = 12  # classes of an automatic mix: each costs a question per placement
MIX_COVERS: Final = 0.95
SHAPES_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class HostPlan:
    """Equal hosts: what they are made of."""

    names: tuple[str, ...]
    group: str
    machine: Machine | None  # None: from a capture, which has less than a whole machine
    config: KubeletConfig | None
    frame: Frame
    states: Mapping[str, HostState] = field(default_factory=dict)  # of hosts that are not empty


@dataclass(frozen=True, slots=True)
class Plan:
    """One variant of a scenario, without what the seed and the scheduler decide."""

    variant: str
    hosts: tuple[HostPlan, ...]
    controllers: Controllers
    schedulers: tuple[str, ...]


def plans(scenario: Scenario) -> list[Plan]:
    """The scenario as it is, and each of its variants."""
    form = scenario.form
    base = FilePath(scenario.source).parent
    variants = [VariantForm(name=AS_IS), *form.variants]
    found = []
    for number, variant in enumerate(variants):
        changes: Path = ("variants", number - 1) if number else ()
        hosts = tuple(
            plan
            for i, group in enumerate(form.hosts)
            for plan in _Group(scenario, ("hosts", i), group, changes, variant, base).plans()
        )
        chosen = variant.controllers or form.controllers
        controllers = Controllers(Recreate(chosen.recreate), chosen.redeploy, chosen.attempts_max)
        schedulers = tuple(variant.schedulers or form.schedulers)
        found.append(Plan(variant.name, hosts, controllers, schedulers))
    return found


@dataclass(frozen=True, slots=True)
class _Group:
    """A group of hosts under a variant; what is wrong with it is told by the line."""

    scenario: Scenario
    path: Path
    form: HostsForm
    changes: Path  # where the variant stands; empty: there is none
    variant: VariantForm
    base: FilePath

    def plans(self) -> Iterable[HostPlan]:
        form = self.form
        if form.openb is not None:
            yield from self._openb_plans(form.openb)
            return
        if form.capture is not None:
            yield from self._captured_plans(self.base / form.capture)
            return
        source = form.machine or ""
        beside = self.base / source
        try:
            machine = discover(str(beside) if beside.is_file() else source)
        except NumalignError as error:
            raise self.scenario.problem((*self.path, "machine"), str(error)) from error
        names = tuple(f"{form.group}-{i:04}" for i in range(form.count))
        yield self._plan(names, machine, form.devices)

    def _captured_plans(self, path: FilePath) -> Iterable[HostPlan]:
        """The hosts of a capture with what runs there, which stays for the whole run."""
        form, variant = self.form, self.variant
        if variant.kubelet or variant.version or form.kubelet:
            where = self.changes if variant.kubelet or variant.version else self.path
            raise self.scenario.problem(
                where, "hosts of a capture keep their configuration, expected no kubelet or version"
            )
        try:
            found = read_fleet(path)
        except NumalignError as error:
            raise self.scenario.problem((*self.path, "capture"), str(error)) from error
        topologies = [nrt.read(bytes(one)).topology for one in found.topologies]
        pods: dict[str, list[Pod]] = {}
        for one in found.pods:
            pod = pod_from_json(bytes(one))
            if pod.host and not pod.is_over:
                pods.setdefault(pod.host, []).append(pod.pod)
        facts = [host_from_json(bytes(one)) for one in found.hosts]
        hosts, silent = fleet_hosts(facts, {t.name: t for t in topologies}, pods)
        if silent or not hosts:
            text = f"{path}: {len(silent)} of {len(silent) + len(hosts)} hosts publish no placement"
            raise self.scenario.problem((*self.path, "capture"), f"{text}, expected all to")
        for host in hosts:
            names = (host.name,)
            pool = host.pool or form.group
            yield HostPlan(names, pool, None, None, host.frame, {host.name: host.state})

    def _openb_plans(self, source: str) -> Iterable[HostPlan]:
        """Two NUMA nodes for each host of the list, with GPUs on both; which is our assumption."""
        path = self.base / source
        text = _text(self.scenario, (*self.path, "openb"), path)
        shapes: dict[tuple[int, int, int], list[str]] = {}
        for host in openb.host_shapes(str(path), text):
            key = (host.cpu_milli // 1000, host.memory_mib, host.gpus)
            shapes.setdefault(key, []).append(host.name)
        for (cpus, memory, gpus), names in sorted(shapes.items()):
            cores = max(2, cpus // 4 * 2) // 2
            machine = discover(f"2s:1n:{cores}c:2t,mem={memory // 2}Mi")
            devices = {openb.GPU: gpus} if gpus else {}
            yield self._plan(tuple(names), machine, devices, is_per_host=True)

    def _plan(
        self,
        names: tuple[str, ...],
        machine: Machine,
        devices: Mapping[str, int],
        *,
        is_per_host: bool = False,
    ) -> HostPlan:
        fields = {**self.form.kubelet, **self.variant.kubelet}
        version = Version(self.variant.version or self.form.version)
        try:
            config = _config(fields, machine, version)
            settings = host_settings(config, machine, version=version)
            placement = PublishedPlacement(
                machine_info(machine),
                settings,
                _devices(machine, devices, is_per_host=is_per_host),
                (),
                0,
                self.form.pods_max,
            )
            frame = frame_of(placement)
        except NumalignError as error:
            raise self._kubelet_problem(str(error)) from error
        return HostPlan(names, self.form.group, machine, config, frame)

    def _kubelet_problem(self, text: str) -> WireError:
        """At the field that the text names, else at all that was given."""
        # The scenario as it is comes first, so what is wrong with a variant is what it changes.
        of_variant = bool(self.changes) and bool(self.variant.kubelet)
        fields = self.variant.kubelet if of_variant else self.form.kubelet
        path: Path = (*(self.changes if of_variant else self.path), "kubelet")
        named = next((name for name in fields if name in text), None)
        if named is None:
            named = next(
                (n for n, v in fields.items() if any(str(part) in text for part in _leaves(v))),
                None,
            )
        return self.scenario.problem(path if named is None else (*path, named), text)


def _leaves(value: object) -> Iterable[object]:
    """The names and values in a field of a configuration, such as the options of a policy."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield name
            yield from _leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner)
    else:
        yield value


def _config(fields: Mapping[str, object], machine: Machine, version: Version) -> KubeletConfig:
    """What suits the machine, with the fields that the scenario gives."""
    suits = kubelet_config.document_of(default_config(machine))
    document = {**suits, "topologyManagerPolicy": "single-numa-node", **fields}
    return kubelet_config.load(msgspec.json.encode(document), version=version)


def _devices(
    machine: Machine, counts: Mapping[str, int], *, is_per_host: bool
) -> dict[str, tuple[Device, ...]]:
    nodes = [node.id for node in machine.nodes if node.cpus]
    found: dict[str, tuple[Device, ...]] = {}
    for resource, count in counts.items():
        short = resource.rpartition("/")[2]
        total = count if is_per_host else count * len(nodes)
        found[resource] = tuple(
            Device(f"{short}-{i:03}", (nodes[i * len(nodes) // total],)) for i in range(total)
        )
    return found


def sim_hosts(plan: Plan, order: Callable[[list[SimHost]], None]) -> list[SimHost]:
    """All hosts with nothing on them, in the order that decides between equals."""
    found: list[SimHost] = []
    kept: dict[int, Rooms] = {}
    for group in plan.hosts:
        rooms = kept.setdefault(id(group.frame), Rooms(group.frame))
        empty = rooms.room(group.frame.empty)
        for name in group.names:
            state = group.states.get(name, group.frame.empty)
            room = rooms.room(state) if name in group.states else empty
            host = SimHost(0, name, group.group, rooms, state, room, None)  # type: ignore[arg-type] # published below
            host.record = record_of(name, host)
            found.append(host)
    order(found)
    for index, host in enumerate(found):
        host.index = index
    return found


# Work.


def jobs_of(scenario: Scenario, fleet_cpus: int, seed: int) -> list[Job]:
    """All work of a scenario by arrival; the same for the same seed."""
    found: list[ListedPod] = []
    for number in range(len(scenario.form.work)):
        listed = _listed(scenario, number, fleet_cpus, seed)
        if len(scenario.form.work) > 1:
            listed = [replace(pod, name=f"w{number}-{pod.name}") for pod in listed]
        found += listed
    found.sort(key=lambda pod: pod.at)
    return [
        Job(pod.name, pod.pod, pod.at, pod.seconds, pod.owner or pod.name, pod.per_host_max)
        for pod in found
    ]


def _listed(scenario: Scenario, number: int, fleet_cpus: int, seed: int) -> list[ListedPod]:
    work = scenario.form.work[number]
    if work.preset is not None:
        return presets.generated(
            work.preset,
            pods=work.pods or presets.PODS_DEFAULT,
            hours=work.hours,
            load=work.load,
            fleet_cpus=fleet_cpus,
            seed=seed,
        )
    found = _from_list(scenario, number)
    if work.arrivals == "shuffled":
        rng = random.Random(f"arrivals {seed}")  # noqa: S311 - a simulation, no secret
        rng.shuffle(found)
        found = [replace(pod, at=float(i), seconds=None) for i, pod in enumerate(found)]
    return found[: work.pods]


def _from_list(scenario: Scenario, number: int) -> list[ListedPod]:
    work, base = scenario.form.work[number], FilePath(scenario.source).parent
    readers: dict[str, tuple[str | None, Callable[[str, str], list[ListedPod]]]] = {
        "openb": (work.openb, openb.numa_pods),
        "dlrm": (work.dlrm, dlrm.pods),
        "recorded": (work.recorded, recorded.pods),
    }
    for kind, (place, read) in readers.items():
        if place is not None:
            path = base / place
            return read(str(path), _text(scenario, ("work", number, kind), path))
    raise AssertionError("a source of work names one list")


def _text(scenario: Scenario, where: Path, path: FilePath) -> str:
    """The text of a file that a scenario names."""
    try:
        data = unpacked(read_file(path, str(path)), str(path))
        return data.decode()
    except UnicodeDecodeError as error:
        text = f"{path}: found bytes that are no UTF-8, expected a CSV text"
        raise scenario.problem(where, text) from error
    except NumalignError as error:
        raise scenario.problem(where, str(error)) from error


# The reference mix.


def mix_of(scenario: Scenario, jobs: Sequence[Job]) -> Mix:
    """The mix of the scenario; without one the most frequent classes of the work."""
    if scenario.form.mix:
        return [
            ReferencePod(name, shape_pod(name, shape), shape.weight)
            for name, shape in scenario.form.mix.items()
        ]
    counts = Counter(id(job.pod) for job in jobs)
    pods = {id(job.pod): job.pod for job in jobs}
    ordered = sorted(counts.items(), key=lambda item: (-item[1], shape_text(pods[item[0]])))
    found: list[ReferencePod] = []
    covered = 0
    for key, count in ordered[:MIX_SIZE_MAX]:
        if covered >= MIX_COVERS * len(jobs):
            break
        found.append(ReferencePod(shape_text(pods[key]), pods[key], count))
        covered += count
    return found


def shapes_of(scenario: Scenario, mix: Mix) -> Mix:
    """The shapes whose capacity is followed; without any the largest of the mix."""
    if scenario.form.shapes:
        return [
            ReferencePod(name, shape_pod(name, shape), shape.weight)
            for name, shape in scenario.form.shapes.items()
        ]
    by_size = sorted(mix, key=lambda one: (-_cpus(one), one.name))
    return by_size[:SHAPES_MAX]


def _cpus(one: ReferencePod) -> int:
    return sum(c.limits["cpu"].value() for c in one.pod.containers if "cpu" in c.limits)


def shape_text(pod: Pod) -> str:
    """A shape in a few characters, such as 16 CPUs + 32Gi + 2 sriov_vf."""
    [container] = pod.containers
    parts = []
    for name, amount in container.limits.items():
        if name == "cpu":
            parts.append(f"{amount} CPUs")
        elif name == "memory":
            parts.append(str(amount))
        else:
            parts.append(f"{amount} {name.rpartition('/')[2]}")
    return " + ".join(parts)
