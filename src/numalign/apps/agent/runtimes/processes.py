"""The process runtime behind the agent: what a pod's manifest and placement mean for a process."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from numalign.adapters.cgroups.tree import CpusetPlacement
from numalign.adapters.cri import volumes
from numalign.adapters.daemon.beside import Beside
from numalign.adapters.local.objects import NOT_READY
from numalign.adapters.processes import probing
from numalign.adapters.processes.records import Mount, RunSpec
from numalign.adapters.processes.runtime import Drift, Exited, ProcessRuntime, Running
from numalign.apps.agent.events import Pin, StartContainer
from numalign.apps.agent.model import AgentPod
from numalign.apps.agent.runtimes.environment import ValueSources
from numalign.apps.agent.runtimes.expansion import arguments
from numalign.apps.agent.runtimes.expected import (
    amounts_of_container,
    amounts_of_pod,
    expected,
    nodes_of,
)
from numalign.apps.agent.runtimes.protocols import Started
from numalign.core.errors import ConfigError, PeerError, PostponedError
from numalign.core.kubelet.cgroup_limits import Limits, QuotaRule
from numalign.core.kubelet.devices.plugin_answer import Allocation
from numalign.core.pod import Qos, qos_class
from numalign.core.settings import Settings
from numalign.core.values.sets import CpuSet, NodeSet
from numalign.wire.grpc.cri_values import Propagation
from numalign.wire.pods.confinement import confinement
from numalign.wire.pods.records import ContainerRecord, Hook, Probe

# The interpreter that runs the agent, for containers that want one: commands may say $(NAME).
PYTHON_VARIABLE: Final = "NUMALIGN_PYTHON"
PATH_DEFAULT: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Processes:
    def __init__(
        self,
        runtime: ProcessRuntime,
        settings: Settings,
        state: Path,
        quota: QuotaRule,
        values: ValueSources,
    ) -> None:
        self.runtime = runtime
        self._settings = settings
        self._logs = state / "logs"
        self._volumes = state / "volumes"
        self._quota = quota
        self._values = values
        self._disk = Beside("numalign-specs", 4)

    async def start(self, request: StartContainer) -> Started:
        """Starts a container; PeerError if it cannot be started, PostponedError if not yet."""
        try:
            started = await self._started(request)
        except ConfigError as error:
            raise PeerError(str(error)) from error
        except OSError as error:  # a full disk, say
            text = f"{error.filename}: {error.strerror}"
            raise PostponedError(text, reason=NOT_READY) from error
        if isinstance(started, Exited):
            raise PeerError(started.message or f"ended at once with code {started.code}")
        return Started(started.pid)

    async def _started(self, request: StartContainer) -> Running | Exited:
        key, where = (request.uid, request.container), CpuSet(request.cpus)
        nodes = None if request.nodes is None else NodeSet(request.nodes)
        qos = qos_class(request.pod.pod, self._settings)
        # Known to be starting before anything takes time, so that no move passes it by.
        with self.runtime.expecting(key, qos, CpusetPlacement(where, nodes)):
            spec = await self._disk.run(self._spec, request)
            if (run := request.pod.run) is not None:
                caller = run.caller
                return await self.runtime.attach(spec, caller.pid, caller.start, caller.boot)
            return await self.runtime.start(spec)

    def _spec(self, request: StartContainer) -> RunSpec:
        pod = request.pod
        record = next(r for r in records_of(pod) if r.name == request.container)
        abilities = self._values.abilities
        confined, faults = confinement(pod.record.spec, record, pod.asker, abilities)
        if faults:  # told when it was submitted; one from before an update comes here
            raise PostponedError("; ".join(faults), reason=NOT_READY)
        env = self._environment(pod, record, request.extra)
        return RunSpec(
            pod_uid=request.uid,
            container=request.container,
            attempt=request.attempt,
            argv=arguments((*(record.command or ()), *(record.args or ())), env),
            env=env,
            cwd=record.workingDir or "/",
            log_path=self.log_path(request.uid, request.container),
            cpus=CpuSet(request.cpus),
            mems=None if request.nodes is None else NodeSet(request.nodes),
            mempolicy=request.mempolicy,
            qos=qos_class(pod.pod, self._settings),
            limits=amounts_of_container(pod.pod, request.container, self._settings, self._quota),
            pod_limits=amounts_of_pod(pod.pod, self._settings, self._quota),
            confinement=confined,
            mounts=self._mounts(pod, record),
            asker=pod.asker,
        )

    def _environment(
        self, pod: AgentPod, record: ContainerRecord, extra: Allocation
    ) -> dict[str, str]:
        """The container's own variables win over those of device plugins."""
        given = {
            "PATH": PATH_DEFAULT,
            "HOSTNAME": pod.record.spec.hostname or pod.pod.name,
            PYTHON_VARIABLE: sys.executable,
            **extra.envs,
        }
        return self._values.variables(pod, record, given)

    def _mounts(self, pod: AgentPod, record: ContainerRecord) -> tuple[Mount, ...]:
        """What a container gets of its pod's volumes, each with how it is to be looked up."""
        if not record.volumeMounts:
            return ()
        spec, asker = pod.record.spec, pod.asker or self._values.abilities.own
        context = spec.securityContext
        source = volumes.Source(
            self._volumes / pod.pod.uid,
            self._values.keys_for(pod),
            None if context is None else context.fsGroup,
            is_root=asker.is_root,
        )
        host_paths = [v.hostPath for v in spec.volumes or () if v.hostPath is not None]
        kinds = {str(Path(wanted.path)): wanted.type for wanted in host_paths}
        found = []
        for mount in volumes.mounts(spec, record, source):
            if mount.propagation is Propagation.BOTH_WAYS:
                text = f"container {record.name}: mountPropagation: Bidirectional would reach the "
                raise PostponedError(f"{text}host; give another one", reason=NOT_READY)
            path = mount.host_path
            kind = kinds.get(path)
            found.append(
                Mount(
                    path,
                    mount.container_path,
                    mount.read_only,
                    mount.propagation is Propagation.FROM_HOST,
                    (kind or "").removesuffix("OrCreate"),
                    is_own=kind is None,
                )
            )
        return tuple(found)

    async def run_probe(
        self, uid: str, container: str, probe: Probe, record: ContainerRecord
    ) -> str:
        """Asks a running container; empty if it is well, else how it is not."""
        return await probing.probe_error(probe, record, self._inside(uid, container))

    async def run_hook(
        self, uid: str, container: str, hook: Hook, record: ContainerRecord, seconds_max: float
    ) -> str:
        """Does what a hook says; empty if it went well, else how it failed."""
        inside = self._inside(uid, container)
        return await probing.hook_error(hook, record, inside, seconds_max)

    def _inside(self, uid: str, container: str) -> probing.RunInside:
        async def run(argv: Sequence[str], seconds_max: float) -> tuple[int, str]:
            try:
                return await self.runtime.run_inside(uid, container, argv, seconds_max)
            except PeerError as error:  # it has just ended
                return 128, str(error)

        return run

    async def stop(self, uid: str, container: str, grace_seconds: float) -> None:
        """Asks a container to end, and ends it after the grace period."""
        await self.runtime.stop(uid, container, grace_seconds)

    async def pin(self, pins: Sequence[Pin]) -> None:
        """Moves containers that run or are being started."""
        await self.runtime.move(
            {(e.uid, e.container): CpusetPlacement(CpuSet(e.cpus), nodes_of(e)) for e in pins}
        )

    async def pin_helpers(self, cpus: int) -> None:
        """Keeps what watches over containers away from CPUs that a container has alone."""
        await self.runtime.pin_supervisors(CpuSet(cpus))

    async def set_qos_weights(self, weights: Iterable[tuple[Qos, Limits]]) -> None:
        """Gives the QoS classes their shares of CPU time."""
        for qos, limits in weights:
            await self.runtime.limit_qos(qos, limits)

    async def repair_drift(self, pins: Sequence[Pin], pods: Mapping[str, AgentPod]) -> list[str]:
        """What is not as it should be, one line each, after it was put right."""
        wanted = expected(pins, pods, self._settings, self._quota)
        return [drift_text(drift) for drift in await self.runtime.repair_beside(wanted)]

    async def release_pod(self, uid: str) -> None:
        """Removes the cgroups of a pod that will not run again."""
        await self.runtime.release(uid)

    async def forget_pod(self, uid: str) -> None:
        """Removes records, cgroups and logs of a pod, once nothing of it runs."""
        if any(running == uid for running, _ in self.runtime.running()):
            return  # the end of the last of them leads here again
        await self.runtime.forget(uid)
        await self._disk.run(self._remove_files, uid)

    def _remove_files(self, uid: str) -> None:
        shutil.rmtree(self._logs / uid, ignore_errors=True)
        volumes.remove(self._volumes / uid)

    def left_over(self) -> set[str]:
        """The pods of which something is on the disk."""
        logs = self._logs.iterdir() if self._logs.is_dir() else ()
        return self.runtime.uids() | {path.name for path in logs}

    def log_path(self, uid: str, container: str) -> Path:
        return self._logs / uid / f"{container}.log"


def drift_text(d: Drift) -> str:
    where = f"{d.container} of pod {d.pod_uid}: {d.kind} {d.where}"
    return f"{where}: found {d.found}, expected {d.expected}"


def records_of(pod: AgentPod) -> Iterable[ContainerRecord]:
    """All containers of a pod as they were given, init containers first."""
    spec = pod.record.spec
    return [*(spec.initContainers or ()), *(spec.containers or ())]
