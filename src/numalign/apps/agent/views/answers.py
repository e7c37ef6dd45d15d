"""What the API answers, typed. The OpenAPI document and its page are made from these types.

A member without a default is always there; one with a default is left out where it has it.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from numalign.apps.render.drawing.structure import Layout
from numalign.wire.memory_block import MemoryBlock
from numalign.wire.moments import Moment, Series
from numalign.wire.placed_container import ContainerPlacement


def _is(text: str) -> Meta:
    return Meta(description=text)


Cpus = Annotated[str, _is("CPUs in the kernel's list format, such as 0-3,8")]
Quantities = dict[str, str]


class _Answer(msgspec.Struct, rename="camel", omit_defaults=True):
    pass


# Pods, in Kubernetes' words.


class ContainerStatus(_Answer):
    name: str
    image: str
    image_id: str = msgspec.field(name="imageID")
    ready: bool
    started: bool
    restart_count: int
    state: Annotated[dict[str, Any], _is("one of waiting, running and terminated, as in v1")]
    last_state: Annotated[dict[str, Any] | None, _is("how the run before ended, as terminated")] = (
        None
    )
    container_id: Annotated[str, _is("process://UID/CONTAINER/ATTEMPT")] = msgspec.field(
        name="containerID", default=""
    )


class Condition(_Answer):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class PodStatus(_Answer):
    phase: Annotated[str, _is("Pending, Running, Succeeded or Failed")]
    qos_class: Annotated[str, _is("Guaranteed, Burstable or BestEffort")]
    start_time: str | None
    reason: Annotated[str, _is("why a pod was refused, such as TopologyAffinityError")] = ""
    message: str = ""
    conditions: list[Condition] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    container_statuses: list[ContainerStatus] | None = None


class Owner(_Answer):
    """The workload that a pod is one of, as in v1."""

    kind: str
    name: str
    api_version: str = ""
    uid: str = ""
    controller: bool = False


class PodMetadata(_Answer):
    name: str
    namespace: str
    uid: str
    creation_timestamp: str | None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[Owner] | None = None


class PlacedContainer(ContainerPlacement):
    """What a container of the agent holds."""

    pid: int | None


class Placement(_Answer):
    """Where a pod sits: what Kubernetes has no word for."""

    source: Annotated[str, _is("api, or file: and the name of the manifest")]
    deleting: bool
    awaited_devices: Annotated[list[str], _is("resources whose plugin has not answered yet")]
    notes: Annotated[list[str], _is("what of the pod a plain process cannot have, one line each")]
    containers: Annotated[
        dict[str, PlacedContainer],
        _is("by name of the container; empty for a pod that has ended or was refused"),
    ]
    why: Annotated[str, _is("why a pod was refused, in one sentence, once it is known")] = ""
    pod_cpus: Annotated[str | None, _is("the CPUs of a pod with resources of its own")] = None
    pod_memory: list[MemoryBlock] | None = None


class Pod(_Answer):
    """A v1.Pod of Kubernetes, and the extra member numalign."""

    api_version: str
    kind: str
    metadata: PodMetadata
    spec: Annotated[dict[str, Any], _is("as it was given, what numalign does not look at left out")]
    status: PodStatus
    numalign: Placement


class PodList(_Answer):
    api_version: str
    kind: str
    metadata: dict[str, Any]
    items: list[Pod]


# The host.


class MachineFacts(_Answer):
    name: str
    sockets: int
    cores: int
    cpus: Cpus
    cpu_count: int
    offline: Cpus
    numa_nodes: str
    memory_bytes: int
    notes: list[str]


class SettingsInForce(_Answer):
    version: Annotated[str, _is("the Kubernetes version whose decisions are made")]
    topology_manager_policy: str
    topology_manager_scope: str
    topology_manager_policy_options: dict[str, str]
    cpu_manager_policy: str
    cpu_manager_policy_options: dict[str, str]
    memory_manager_policy: str
    fidelity: Annotated[str, _is("kubelet: its decisions as they are; safe: its defects repaired")]


class Source(_Answer):
    """What the answer is about: a running agent, or a host at some moment."""

    kind: Annotated[
        str, _is("agent, host, capture, simulation, machine, fleet (as published) or history")
    ]
    name: Annotated[str, _is("the host, file or text that was asked about")]
    has: Annotated[list[str], _is("which of events, history, manifests and metrics there are")]
    version: Annotated[str, _is("of numalign")]
    at: Annotated[float | None, _is("seconds since 1970; null: now")] = None
    live: Annotated[bool, _is("whether it changes while it is looked at")] = False
    fleet: Annotated[str | None, _is("where the page of its fleet is, relative to this")] = None
    notes: Annotated[list[str], _is("what is uncertain")] = []


class StrandedFacts(_Answer):
    """What is idle on a NUMA node beside nothing that it could be used with."""

    text: Annotated[str, _is("in one sentence")]
    idle: Annotated[dict[str, int], _is("whole CPUs, bytes, devices")]
    missing: Annotated[list[str], _is("of what nothing is left")]


class ReservedOnNode(_Answer):
    """Memory of one kind that is kept from pods on one NUMA node."""

    node: int
    type: str
    size_bytes: int


class Reserved(_Answer):
    cpus: Cpus
    memory: list[ReservedOnNode]
    total: Annotated[Quantities, _is("what is kept from pods, as quantities by resource")]


class SharedPool(_Answer):
    cpus: Cpus
    count: int


class CpusOfNode(_Answer):
    all: Cpus
    exclusive: Annotated[str, _is("given to containers")]
    shared: Annotated[str, _is("of the pool of all other containers")]
    free: Annotated[str, _is("of the pool, could be given to a container")]
    reserved: Annotated[str, _is("never given to a container")]


class MemoryOfNode(_Answer):
    type: str
    total_bytes: int
    system_reserved_bytes: int
    used_bytes: int
    free_bytes: int


class Holder(_Answer):
    namespace: str
    pod: str
    uid: str
    container: str


class Occupant(Holder):
    """A container that has something on a NUMA node."""

    cpus: Cpus
    exclusive: bool
    memory: list[MemoryBlock]


class NumaNode(_Answer):
    """One NUMA node, and who sits there."""

    id: int
    distances: list[int] | None
    cpus: CpusOfNode
    cores: Annotated[list[str], _is("the CPUs of each core")]
    memory: list[MemoryOfNode]
    memory_group: Annotated[list[int], _is("the nodes whose memory is now given together")]
    occupants: list[Occupant]
    stranded: StrandedFacts | None = None


class Device(_Answer):
    resource: str
    id: str
    nodes: list[int]
    healthy: bool
    holder: Holder | None


class Shape(_Answer):
    """The largest container that one NUMA node alone can still hold."""

    node: int
    cpus: Annotated[int, _is("CPUs of its own")]
    memory: Annotated[dict[str, int], _is("bytes by kind of memory")]
    devices: Annotated[dict[str, int], _is("free devices by resource")]


class Node(_Answer):
    machine: MachineFacts
    settings: SettingsInForce
    reserved: Reserved
    shared_pool: SharedPool
    allocatable: Annotated[Quantities, _is("what pods can have in total, as quantities")]
    requested: Annotated[Quantities, _is("what pods have asked for, as quantities")]
    nodes: list[NumaNode]
    devices: list[Device]
    largest: list[Shape]
    layout: Layout
    source: Source


class StrandedOnNode(StrandedFacts):
    node: int
    unused_by_shapes: Annotated[
        bool, _is("true: something else is left too, but no reference shape fits beside it")
    ] = False


class ShapeCapacity(_Answer):
    """How many more pods of a reference shape the host would take."""

    name: str
    amounts: Quantities
    fits: int
    binding: Annotated[str, _is("what stops it from taking one more")]
    weight: Annotated[int, _is("how often it is expected, beside the others")]


class HostCapacity(_Answer):
    shapes: Annotated[list[ShapeCapacity], _is("those of --shapes")]
    stranded: list[StrandedOnNode]


# The rest.


class Explained(_Answer):
    """What ``numalign explain -o json`` prints of a pod, asked of the host as it is now."""

    time: Annotated[float, _is("seconds since 1970")]
    items: Annotated[
        list[dict[str, Any]],
        _is("of each pod: admitted, sentence, placements and costs, or changes that would help"),
    ]
    notes: list[str]
    left_out: Annotated[int, _is("pods that were not asked about: too many, or no time left")]


class Decision(_Answer):
    time: Annotated[float, _is("seconds since 1970")]
    outcome: Annotated[str, _is("pod_admitted or pod_rejected")]
    namespace: str
    pod: str
    uid: str
    seconds: Annotated[float, _is("how long it took to decide")]
    reason: str = ""
    message: str = ""
    why: Annotated[str, _is("a refusal in one sentence, once it is known")] = ""
    trace: Annotated[
        list[dict[str, Any]], _is("what each provider answered, merged and gave, in order")
    ] = []
    explanation: Annotated[
        dict[str, Any] | None,
        _is("of a refusal: step, container, resources, demands by node, facts and hints"),
    ] = None


class Decisions(_Answer):
    items: list[Decision]


class History(_Answer):
    """The last moments, newest last, and what charts show of the last day."""

    moments: list[Moment]
    first: Annotated[int | None, _is("the id of the first one here")]
    last: Annotated[int | None, _is("the id of the last one here")]
    total: Annotated[int, _is("moments that are known")]
    series: Annotated[Series | None, _is("null if it was not asked for")]
    problem: Annotated[str, _is("why moments are not kept just now")] = ""


class PastMoment(_Answer):
    """The host right after a moment."""

    moment: Moment
    node: Node
    pods: Annotated[PodList, _is("those that were there, and the one that was refused")]
    trace: Annotated[list[dict[str, Any]] | None, _is("how it was decided")] = None


class Health(_Answer):
    status: Annotated[str, _is("ok or failing")]
    problems: list[str]


class ManifestPod(_Answer):
    namespace: str
    name: str
    uid: str
    phase: Annotated[
        str, _is("that of the pod; PutOff: it cannot be taken yet; empty: the agent has it not")
    ]


class ManifestStatus(_Answer):
    """One file of the directory of manifests."""

    file: str
    pods: Annotated[list[ManifestPod], _is("those of its last version that could be read")]
    problem: Annotated[str, _is("why it, or some pod of it, is not taken")] = ""
    notes: list[str] = []


class ManifestList(_Answer):
    directory: Annotated[str, _is("empty: none is followed")]
    problem: Annotated[str, _is("of the directory as a whole")]
    items: list[ManifestStatus]


class Change(_Answer):
    """What was done about one pod of an applied manifest."""

    namespace: str
    name: str
    uid: str
    result: Annotated[str, _is("created, replaced, unchanged, deleted or refused")]
    reason: Annotated[str, _is("why it was refused, or what it waits for")] = ""
    message: str = ""
    owner: Annotated[str, _is("kind and name of the workload, such as Deployment/web")] = ""


class Changes(_Answer):
    changes: list[Change]
    notes: Annotated[list[str], _is("what was passed over")]


class Run(_Answer):
    """A command that ``numalign run`` has in the foreground, for the process that becomes it."""

    uid: str
    namespace: str
    name: str
    state: Annotated[str, _is("waiting, starting or started")]
    reason: Annotated[str, _is("what it waits for")] = ""
    message: Annotated[str, _is("the same in one sentence")] = ""
    nodes: Annotated[str, _is("the NUMA nodes of its memory, as a list; empty: any")] = ""
    memory_policy: Annotated[str, _is("to be set before exec; empty: the kernel's default")] = ""
    policy_nodes: Annotated[str, _is("the NUMA nodes of the policy, as a list")] = ""
    env: Annotated[dict[str, str], _is("what device plugins want it to have")] = {}


class Error(_Answer):
    """Every answer that is not a success has this form."""

    error: Annotated[str, _is("a sentence for people")]
    reason: Annotated[str, _is("one word for programs; for a refused pod the kubelet's reason")]
    pod: Pod | None = None
    changes: Annotated[list[Change] | None, _is("of an applied manifest: all that was done")] = None
