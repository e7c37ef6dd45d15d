"""A container runtime behind the agent: what a pod's manifest and placement mean for CRI."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from numalign.adapters.cgroups.tree import CgroupTree, CpusetPlacement
from numalign.adapters.cri import client as cri_client
from numalign.adapters.cri import groups as cri_groups
from numalign.adapters.cri import volumes as cri_volumes
from numalign.adapters.cri.runtime import CriRuntime, StartRequest
from numalign.adapters.daemon.beside import Beside
from numalign.apps.agent.events import Pin, StartContainer
from numalign.apps.agent.model import AgentPod
from numalign.apps.agent.runtimes.environment import ValueSources
from numalign.apps.agent.runtimes.expansion import arguments
from numalign.apps.agent.runtimes.expected import amounts_of_pod, expected, nodes_of
from numalign.apps.agent.runtimes.processes import drift_text, records_of
from numalign.apps.agent.runtimes.protocols import Started
from numalign.core.errors import ConfigError, PostponedError
from numalign.core.kubelet import cgroup_limits
from numalign.core.kubelet.devices.plugin_answer import Allocation
from numalign.core.machine.kubelet_view import MachineInfo
from numalign.core.pod import Qos, exclusive_cpus, qos_class
from numalign.core.settings import Settings
from numalign.core.values.sets import CpuSet, NodeSet
from numalign.wire.grpc import cri as wire
from numalign.wire.grpc.cri_values import (
    BindMount,
    ContainerSpec,
    Namespaces,
    PullPolicy,
    Resources,
    SandboxSpec,
    Seccomp,
    Security,
)
from numalign.wire.pods.records import ContainerRecord, Hook, Probe, SecurityContext

HOST_NAME_LENGTH_MAX: Final = 63
CONFIG_ERROR: Final = "CreateContainerConfigError"  # the kubelet's
_SECCOMP: Final = {
    "RuntimeDefault": Seccomp.RUNTIME_DEFAULT,
    "Unconfined": Seccomp.UNCONFINED,
}


async def connected(
    socket: Path | None, tree: CgroupTree, mounts: list[Path], state: Path
) -> CriRuntime:
    """The runtime behind a socket, ready for pods; ConfigError if none can be used."""
    client, version = await cri_client.connected(socket)
    by_systemd = await cri_client.persistently(client.has_systemd_driver, "its configuration")
    fault = await cri_client.persistently(client.network_fault, "its status")
    if by_systemd:
        await client.close()
        raise ConfigError(
            f"{client.socket}: {version.name} makes cgroups through systemd, expected its "
            "cgroupfs driver (for containerd: SystemdCgroup = false)"
        )
    notes = [f"containers are run by {version.name} {version.version} at {client.socket}"]
    if fault:
        notes.append(f"pods get the network of the host: {version.name} has no other ({fault})")
    return CriRuntime(
        client,
        version.name,
        cri_groups.PodGroups(tree, mounts),
        owner_of(state),
        log_path=lambda uid, container: log_path(state, uid, container),
        notes=(*notes, *tree.notes),
    )


def owner_of(state: Path) -> str:
    """What tells the containers of this agent from those of others: its state directory."""
    return hashlib.sha256(str(state).encode()).hexdigest()[:16]


def log_path(state: Path, uid: str, container: str) -> Path:
    return state / "logs" / uid / f"{container}.log"


class Containers:
    def __init__(
        self,
        runtime: CriRuntime,
        settings: Settings,
        info: MachineInfo,
        state: Path,
        quota: cgroup_limits.QuotaRule,
        values: ValueSources,
    ) -> None:
        self.runtime = runtime
        self._settings = settings
        self._info = info
        self._state = state
        self._quota = quota
        self._disk = Beside("numalign-containers", 4)
        self._values = values

    async def start(self, request: StartContainer) -> Started:
        """Starts a container; PeerError if it cannot be started, PostponedError if not yet."""
        try:
            order = await self._disk.run(self._start_request, request)
        except OSError as error:  # a full disk, say
            text = f"{error.filename}: {error.strerror}"
            raise PostponedError(text, reason=CONFIG_ERROR) from error
        except ConfigError as error:
            raise PostponedError(str(error), reason=CONFIG_ERROR) from error
        running, container_id = await self.runtime.start(order)
        return Started(running.pid, f"{self.runtime.name}://{container_id}")

    def _start_request(self, request: StartContainer) -> StartRequest:
        pod = request.pod
        record = next(r for r in records_of(pod) if r.name == request.container)
        return StartRequest(
            sandbox=self._sandbox(pod, request.uid),
            qos=qos_class(pod.pod, self._settings),
            pod_limits=amounts_of_pod(pod.pod, self._settings, self._quota),
            container=self._container(record, request),
            pull=pull_policy(record),
        )

    def _sandbox(self, pod: AgentPod, uid: str) -> SandboxSpec:
        spec, metadata = pod.record.spec, pod.record.metadata
        namespaces = Namespaces(
            host_network=spec.hostNetwork,
            host_pid=spec.hostPID,
            host_ipc=spec.hostIPC,
            shared_pid=spec.shareProcessNamespace,
        )
        given = security_of(spec.securityContext, None, "the pod")
        logs = self.log_path(uid, "c").parent
        logs.mkdir(mode=0o700, parents=True, exist_ok=True)
        return SandboxSpec(
            uid=uid,
            name=pod.pod.name,
            namespace=pod.pod.namespace,
            # With the host's network it has the host's name.
            hostname="" if spec.hostNetwork else pod.pod.name[:HOST_NAME_LENGTH_MAX].rstrip("-."),
            log_directory=str(logs),
            cgroup_parent=self.runtime.groups.parent_of(qos_class(pod.pod, self._settings), uid),
            labels={**(metadata.labels or {}), **_names(pod, uid)},
            annotations={
                **(metadata.annotations or {}),
                "kubernetes.io/config.source": pod.source.partition(":")[0],
            },
            namespaces=namespaces,
            security=Security(
                privileged=any(_is_privileged(r) for r in records_of(pod)),
                user=given.user,
                group=given.group,
                groups=given.groups,
            ),
        )

    def _container(self, record: ContainerRecord, request: StartContainer) -> ContainerSpec:
        pod, extra = request.pod, request.extra
        spec = pod.record.spec
        env = self._values.variables(pod, record, extra.envs)
        source = cri_volumes.Source(
            self._state / "volumes" / request.uid, self._values.keys_for(pod)
        )
        grace = spec.terminationGracePeriodSeconds
        return ContainerSpec(
            name=record.name,
            attempt=request.attempt,
            image=record.image,
            command=arguments(record.command or (), env),
            args=arguments(record.args or (), env),
            working_dir=record.workingDir,
            envs=env,
            mounts=_together(cri_volumes.mounts(spec, record, source), extra),
            devices=extra.devices,
            cdi_names=extra.cdi_names,
            labels={**_names(pod, request.uid), wire.CONTAINER_NAME: record.name},
            annotations={
                "io.kubernetes.container.restartCount": str(request.attempt),
                "io.kubernetes.pod.terminationGracePeriod": str(30 if grace is None else grace),
                **extra.annotations,
            },
            log_path=self.log_path(request.uid, record.name).name,
            resources=self._resources(request),
            security=security_of(
                record.securityContext, spec.securityContext, f"container {record.name}"
            ),
        )

    def _resources(self, request: StartContainer) -> Resources:
        pod = request.pod
        container = next(c for c in pod.pod.in_order if c.name == request.container)
        is_own = exclusive_cpus(pod.pod, container, self._settings) > 0
        sizes = {pages.size_bytes for node in self._info.nodes for pages in node.hugepages}
        return Resources(
            limits=cgroup_limits.limits_of_container(
                pod.pod, container, self._settings, exclusive=is_own, quota=self._quota
            ),
            cpus=CpuSet(request.cpus),
            mems=None if request.nodes is None else NodeSet(request.nodes),
            hugepages=cgroup_limits.hugepages_of(container, sizes),
            oom_score_adj=cgroup_limits.oom_score_adj(
                pod.pod, container, self._settings, self._info.memory_bytes
            ),
            kills_as_group=self.runtime.groups.kills_as_group,
        )

    async def stop(self, uid: str, container: str, grace_seconds: float) -> None:
        """Asks a container to end, and ends it after the grace period."""
        await self.runtime.stop(uid, container, grace_seconds)

    async def run_probe(
        self, uid: str, container: str, probe: Probe, record: ContainerRecord
    ) -> str:
        """Not asked: the table of fields says so."""
        del uid, container, probe, record
        return ""

    async def run_hook(
        self, uid: str, container: str, hook: Hook, record: ContainerRecord, seconds_max: float
    ) -> str:
        """Not done: the table of fields says so."""
        del uid, container, hook, record, seconds_max
        return ""

    async def pin(self, pins: Sequence[Pin]) -> None:
        """Moves containers that run or are being started."""
        await self.runtime.pin_all(
            {(e.uid, e.container): CpusetPlacement(CpuSet(e.cpus), nodes_of(e)) for e in pins}
        )

    async def pin_helpers(self, cpus: int) -> None:
        """The runtime's own helpers are where its operator put them."""
        del cpus

    async def set_qos_weights(self, weights: Iterable[tuple[Qos, cgroup_limits.Limits]]) -> None:
        """Gives the QoS classes their shares of CPU time."""
        for qos, limits in weights:
            await self._disk.run(self.runtime.groups.limit_qos, qos, limits)

    async def repair_drift(self, pins: Sequence[Pin], pods: Mapping[str, AgentPod]) -> list[str]:
        """What is not as it should be, one line each, after it was put right."""
        wanted = expected(pins, pods, self._settings, self._quota)
        # The amounts of a container are the runtime's to hold.
        of_ours = [replace(one, limits=None) for one in wanted]
        return [drift_text(drift) for drift in await self.runtime.repair_drift(of_ours)]

    async def release_pod(self, uid: str) -> None:
        """Ends the sandbox of a pod that will not run again."""
        self.runtime.release_pod(uid)

    async def forget_pod(self, uid: str) -> None:
        """Removes sandbox, containers, cgroups, logs and volumes of a pod."""
        self.runtime.forget_pod(uid)
        await self._disk.run(self._remove_files, uid)

    def _remove_files(self, uid: str) -> None:
        shutil.rmtree(self._state / "logs" / uid, ignore_errors=True)
        cri_volumes.remove(self._state / "volumes" / uid)

    def log_path(self, uid: str, container: str) -> Path:
        return log_path(self._state, uid, container)


def _names(pod: AgentPod, uid: str) -> dict[str, str]:
    return {
        wire.POD_NAME: pod.pod.name,
        wire.POD_NAMESPACE: pod.pod.namespace,
        wire.POD_UID: uid,
    }


def _is_privileged(record: ContainerRecord) -> bool:
    return record.securityContext is not None and record.securityContext.privileged


def pull_policy(record: ContainerRecord) -> PullPolicy:
    """When to pull; by default as the API server decides it from the tag."""
    if record.imagePullPolicy:
        return PullPolicy(record.imagePullPolicy)
    name, at, _ = record.image.rpartition("@")
    tag = (name or record.image).rpartition("/")[2].partition(":")[2]
    return PullPolicy.ALWAYS if not at and tag in {"", "latest"} else PullPolicy.IF_MISSING


def _together(volumes: tuple[BindMount, ...], extra: Allocation) -> tuple[BindMount, ...]:
    """The pod's volumes and what device plugins want; for the same path the pod's own counts."""
    taken = {mount.container_path for mount in volumes}
    plugins = [m for m in extra.mounts if m.container_path not in taken]
    more = [BindMount(m.container_path, m.host_path, m.read_only) for m in plugins]
    return (*volumes, *more)


def security_of(own: SecurityContext | None, pods: SecurityContext | None, where: str) -> Security:
    """What a container may do: what it says itself, else what its pod says."""
    own, pods = own or SecurityContext(), pods or SecurityContext()
    for found in (own, pods):
        for name in ("appArmorProfile", "seLinuxOptions", "procMount"):
            if getattr(found, name):
                raise _not_supported(f"{where}: securityContext.{name}")
    seccomp = own.seccompProfile or pods.seccompProfile
    if seccomp is not None and seccomp.type not in _SECCOMP:
        raise _not_supported(f"{where}: securityContext.seccompProfile of type {seccomp.type}")
    groups = [*(pods.supplementalGroups or ())]
    if pods.fsGroup is not None:
        groups.append(pods.fsGroup)
    capabilities = own.capabilities
    return Security(
        privileged=own.privileged,
        user=_first(own.runAsUser, pods.runAsUser),
        group=_first(own.runAsGroup, pods.runAsGroup),
        groups=tuple(groups),
        read_only_root=own.readOnlyRootFilesystem,
        no_new_privileges=own.allowPrivilegeEscalation is False,
        capabilities_added=tuple((capabilities and capabilities.add) or ()),
        capabilities_dropped=tuple((capabilities and capabilities.drop) or ()),
        must_not_be_root=bool(_first(own.runAsNonRoot, pods.runAsNonRoot)),
        seccomp=None if seccomp is None else _SECCOMP[seccomp.type],
    )


def _first(own: int | None, pods: int | None) -> int | None:
    return pods if own is None else own


def _not_supported(what: str) -> PostponedError:
    text = f"{what} is not supported, and the container is not run without it; remove it"
    return PostponedError(text, reason=CONFIG_ERROR)
