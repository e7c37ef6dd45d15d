"""A fleet of hosts that are not there: Node objects with a kubelet's decisions behind them.

    async with Fleet(api, plans(50)) as fleet:
        ...
        await fleet.settled()
        fleet.reasons        # Counter of what pods were refused for; "" counts the admitted ones

Every host decides with the deciding core in kubelet fidelity about the pods that are bound to it,
one after the other in the order in which they come, and writes their status as a kubelet does:
Running, or Failed with the kubelet's reason and message. Pods that are to be deleted are let go.
Each host publishes its NodeResourceTopology with the exporter's own pure part and publisher, after
``publish_seconds`` (None: never), so that late news can be tried too. All of it runs in one event
loop; nothing but the status of containers is made up.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import msgspec

from numalign.adapters.kubernetes.api_server import STRATEGIC, ApiServer, Changed, Gone, Listed
from numalign.apps.exporter.publishing import Publisher
from numalign.core.cluster.publish.export import HostReport, KnownPod, exported
from numalign.core.cluster.publish.zones import HostTopology
from numalign.core.errors import ApiError, WireError
from numalign.core.kubelet import host as hosts
from numalign.core.kubelet.admission import node_fit
from numalign.core.kubelet.admission.verdict import HostSnapshot, decide, refusal
from numalign.core.kubelet.devices import devices as device_rules
from numalign.core.kubelet.devices.devices import Device
from numalign.core.machine.kubelet_view import machine_info
from numalign.core.machine.synthetic import synthetic_machine
from numalign.core.pod import Pod
from numalign.core.settings import Version
from numalign.core.views.podresources import resources_view
from numalign.wire.kubelet.config import KubeletConfig
from numalign.wire.kubelet.host_settings import default_config, host_settings
from numalign.wire.kubernetes.api import EVENTS, HOSTS, NRTS, PODS, event_body
from numalign.wire.pods.manifests import core_pod
from numalign.wire.pods.records import PodRecord

REQUESTS_MAX = 16  # to the API server at the same time
QUIET_SECONDS = 0.5


@dataclass(frozen=True)
class HostPlan:
    """How one host is built and configured."""

    name: str
    shape: str = "2s:1n:8c:2t,mem=32Gi"
    policy: str = "single-numa-node"
    scope: str = "container"
    memory: bool = True  # whether the memory manager is static
    devices: Mapping[str, tuple[Device, ...]] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)

    def config(self) -> KubeletConfig:
        """The kubelet's configuration: static managers, CPU 0 and 100Mi reserved."""
        found = default_config(synthetic_machine(self.shape))
        if not self.memory:
            found = replace(found, memory_policy="None", reserved_memory=())
        return replace(found, topology_policy=self.policy, topology_scope=self.scope)


def plans(count: int, prefix: str = "host") -> list[HostPlan]:
    """Hosts of several shapes and policies, in turn."""
    kinds = [
        ("2s:1n:8c:2t,mem=32Gi", "single-numa-node", "container"),
        ("2s:2n:4c:2t,mem=16Gi", "restricted", "container"),
        ("2s:1n:6c:1t,mem=24Gi", "single-numa-node", "pod"),
        ("1s:4n:4c:1t,mem=8Gi", "restricted", "pod"),
        ("2s:2n:4c:1t,mem=16Gi", "best-effort", "container"),
    ]
    return [
        HostPlan(f"{prefix}-{number:03d}", *kinds[number % len(kinds)]) for number in range(count)
    ]


class FleetHost:
    """One host: what its kubelet knows and decides."""

    def __init__(self, plan: HostPlan) -> None:
        self.plan = plan
        self.machine = synthetic_machine(plan.shape)
        self.config = plan.config()
        settings = host_settings(self.config, self.machine, version=Version.V1_36)
        info = machine_info(self.machine)
        built = hosts.build(settings, info)
        self.pods_max = self.config.pods_max_on(len(self.machine.cpus))
        totals = node_fit.allocatable(settings, info, pods_max=self.pods_max)
        state = hosts.start(built)
        for name, found in plan.devices.items():
            resource = device_rules.device_resource(found)
            state = replace(
                state, devices=device_rules.with_reported(state.devices, name, resource)
            )
        self.snapshot = HostSnapshot(self.machine, built, state, totals)

    def admit(self, pod: Pod) -> tuple[str, str] | None:
        """The reason and message of a refusal; None if the pod is admitted."""
        self.snapshot, verdict = decide(self.snapshot, pod)
        return refusal(verdict)

    def end(self, uid: str) -> None:
        """A pod is gone, and gives back what it held."""
        host, state = self.snapshot.host, self.snapshot.state
        state = hosts.cleaned(host, hosts.ended(state, uid))
        self.snapshot = replace(self.snapshot, state=state)

    def topology(self) -> HostTopology:
        """What the exporter on this host publishes."""
        host, state = self.snapshot.host, self.snapshot.state
        pods = {(p.namespace, p.name): KnownPod(p, uid) for uid, p in state.pods.items()}
        return exported(
            HostReport(
                name=self.plan.name,
                machine=self.machine,
                info=host.info,
                settings=host.settings,
                view=resources_view(host, state),
                pods=pods,
                cpu_state=state.cpu,
                memory_state=state.memory,
                saved_devices=state.devices.saved,
                pods_max=self.pods_max,
            )
        )

    def node(self) -> dict:
        """The Node object, as a kubelet registers it."""
        totals = dict(self.snapshot.totals)
        amounts = {name: _amount(name, total) for name, total in totals.items()}
        amounts |= {name: str(len(found)) for name, found in self.plan.devices.items()}
        capacity = {**amounts, "cpu": str(len(self.machine.cpus))}
        now = _now()
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": self.plan.name,
                "labels": {"kubernetes.io/hostname": self.plan.name, **self.plan.labels},
            },
            "status": {
                "capacity": capacity,
                "allocatable": amounts,
                "nodeInfo": {
                    "kubeletVersion": "v1.36.4",
                    **dict.fromkeys(
                        (
                            "machineID",
                            "systemUUID",
                            "bootID",
                            "kernelVersion",
                            "osImage",
                            "containerRuntimeVersion",
                            "kubeProxyVersion",
                            "operatingSystem",
                            "architecture",
                        ),
                        "",
                    ),
                },
                "conditions": [
                    {
                        "type": "Ready",
                        "status": "True",
                        "reason": "KubeletReady",
                        "message": "kubelet is posting ready status",
                        "lastHeartbeatTime": now,
                        "lastTransitionTime": now,
                    }
                ],
            },
        }


def _amount(name: str, total: int) -> str:
    return f"{total}m" if name == "cpu" else str(total)


class _Metadata(msgspec.Struct):
    deletionTimestamp: str | None = None  # noqa: N815


class _Status(msgspec.Struct):
    phase: str = ""


class _Extra(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    status: _Status = msgspec.field(default_factory=_Status)


@dataclass(frozen=True)
class BoundPod:
    """A pod that was given to a host."""

    record: PodRecord
    is_leaving: bool
    phase: str

    @property
    def uid(self) -> str:
        return self.record.metadata.uid


def _bound_pod(data: bytes) -> BoundPod:
    try:
        record = msgspec.json.decode(data, type=PodRecord)
        extra = msgspec.json.decode(data, type=_Extra)
    except msgspec.DecodeError as error:
        raise WireError(str(error)) from error
    return BoundPod(record, extra.metadata.deletionTimestamp is not None, extra.status.phase)


class Fleet:
    """Hosts on one API server; start and end with ``async with``."""

    def __init__(
        self,
        api: ApiServer,
        plans: Iterable[HostPlan],
        *,
        publish_seconds: float | None = 0.1,
    ) -> None:
        self.api = api
        self.hosts = {plan.name: FleetHost(plan) for plan in plans}
        self.publish_seconds = publish_seconds
        self.reasons: Counter[str] = Counter()
        self.writes: Counter[str] = Counter()  # NodeResourceTopology objects written, by host
        self.errors: list[str] = []
        self._queues: dict[str, asyncio.Queue[BoundPod | str]] = {}
        self._known: dict[str, str] = {}  # uid -> host
        self._names: dict[str, tuple[str, str]] = {}
        self._dirty: dict[str, asyncio.Event] = {}
        self._slots = asyncio.Semaphore(REQUESTS_MAX)
        self._tasks: list[asyncio.Task] = []
        self._busy = 0
        self._listed = asyncio.Event()

    async def __aenter__(self) -> Fleet:
        await asyncio.gather(*(self._register(host) for host in self.hosts.values()))
        for name in self.hosts:
            self._queues[name] = asyncio.Queue()
            self._dirty[name] = asyncio.Event()
            self._task(self._work(name))
            if self.publish_seconds is not None:
                self._dirty[name].set()
                self._task(self._publishes(name, self.publish_seconds))
        self._task(self._follow())
        await self._listed.wait()
        await self.settled()
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _task(self, work) -> None:
        self._tasks.append(asyncio.create_task(work))

    async def settled(self, quiet_seconds: float = QUIET_SECONDS) -> None:
        """Waits until nothing has been under way for a while."""
        quiet_since = asyncio.get_running_loop().time()
        while asyncio.get_running_loop().time() - quiet_since < quiet_seconds:
            await asyncio.sleep(0.05)
            for task in self._tasks:
                if task.done():
                    task.result()
            waiting = any(not queue.empty() for queue in self._queues.values())
            unpublished = self.publish_seconds is not None and any(
                dirty.is_set() for dirty in self._dirty.values()
            )
            if waiting or unpublished or self._busy:
                quiet_since = asyncio.get_running_loop().time()

    async def remove(self) -> None:
        """Deletes the Node objects and what they published."""
        for name in self.hosts:
            await self.api.delete(HOSTS, name)
            await self.api.delete(NRTS, name)

    # What a kubelet does.

    async def _register(self, host: FleetHost) -> None:
        async with self._slots:
            node = host.node()
            try:
                await self.api.create(HOSTS, node)
            except ApiError as error:
                if error.code != 409:
                    raise
            status = {"status": node["status"]}
            await self.api.patch(HOSTS, host.plan.name, status, form=STRATEGIC, part="status")

    async def _follow(self) -> None:
        seen = self.api.watched(PODS, _bound_pod, fields="spec.nodeName!=")
        async with contextlib.aclosing(seen):
            async for event in seen:
                match event:
                    case Listed(items):
                        there = {item.uid for item in items}
                        for uid in [uid for uid in self._known if uid not in there]:
                            self._gone(uid)
                        for item in items:
                            self._seen(item)
                        self._listed.set()
                    case Changed(item):
                        self._seen(item)
                    case Gone(_, _, uid):
                        self._gone(uid)
                    case _:
                        self.errors.append(event.error)

    def _seen(self, pod: BoundPod) -> None:
        name = pod.record.spec.nodeName
        if name in self._queues:
            self._queues[name].put_nowait(pod)

    def _gone(self, uid: str) -> None:
        name = self._known.get(uid)
        if name is not None:
            self._queues[name].put_nowait(uid)

    async def _work(self, name: str) -> None:
        host, queue = self.hosts[name], self._queues[name]
        while True:
            what = await queue.get()
            self._busy += 1
            try:
                if isinstance(what, str):
                    self._forget(host, what)
                elif what.is_leaving:
                    self._forget(host, what.uid)
                    metadata = what.record.metadata
                    async with self._slots:
                        await self.api.delete(
                            PODS, metadata.name, metadata.namespace, uid=what.uid, grace_seconds=0
                        )
                elif what.uid not in self._known and what.phase in ("", "Pending", "Running"):
                    await self._admit(host, what)
            except ApiError as error:
                self.errors.append(str(error))
            finally:
                self._busy -= 1

    def _forget(self, host: FleetHost, uid: str) -> None:
        if self._known.pop(uid, None) is not None:
            host.end(uid)
            self._dirty[host.plan.name].set()

    async def _admit(self, host: FleetHost, pod: BoundPod) -> None:
        refused = host.admit(core_pod(pod.record))
        self._known[pod.uid] = host.plan.name
        self.reasons[refused[0] if refused else ""] += 1
        self._dirty[host.plan.name].set()
        metadata = pod.record.metadata
        status = _running(pod) if refused is None else _failed(*refused)
        async with self._slots:
            await self.api.patch(
                PODS,
                metadata.name,
                {"metadata": {"uid": pod.uid}, "status": status},
                namespace=metadata.namespace,
                form=STRATEGIC,
                part="status",
            )
            if refused is not None:
                await self._tell(pod, *refused)

    async def _tell(self, pod: BoundPod, reason: str, message: str) -> None:
        metadata = pod.record.metadata
        regarding = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": metadata.name,
            "namespace": metadata.namespace,
            "uid": pod.uid,
        }
        body = event_body(
            regarding=regarding,
            namespace=metadata.namespace,
            name=f"{metadata.name}.{pod.uid[:8]}",
            reason=reason,
            note=message,
            is_warning=True,
            component="kubelet",
            now=_now(),
        )
        await self.api.create(EVENTS, body, metadata.namespace)

    async def _publishes(self, name: str, delay: float) -> None:
        host, dirty = self.hosts[name], self._dirty[name]
        publisher = Publisher(self.api, name)
        owner = await publisher.find_host()
        written = None
        while True:
            await dirty.wait()
            await asyncio.sleep(delay)
            dirty.clear()
            self._busy += 1
            try:
                async with self._slots:
                    topology = host.topology()
                    if topology != written:
                        written = None  # what stands there if this fails
                        await publisher.write(topology, owner.uid if owner else "")
                        written = topology
                        self.writes[name] += 1
            except ApiError as error:
                self.errors.append(str(error))
                dirty.set()
            finally:
                self._busy -= 1


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _failed(reason: str, message: str) -> dict:
    return {
        "phase": "Failed",
        "reason": reason,
        "message": f"Pod was rejected: {message}",
        "startTime": _now(),
    }


def _running(pod: BoundPod) -> dict:
    now = _now()
    ready = [
        {"type": kind, "status": "True", "lastTransitionTime": now}
        for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
    ]
    return {
        "phase": "Running",
        "startTime": now,
        "conditions": ready,
        "containerStatuses": [
            {
                "name": container.name,
                "image": container.image,
                "imageID": "",
                "ready": True,
                "started": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": now}},
            }
            for container in pod.record.spec.containers or ()
        ],
    }
