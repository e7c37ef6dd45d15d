"""The process runtime behind the agent: what a pod's manifest and placement mean for a process."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from numalign.adapters.cgroups.tree import CpusetPlacement
from numalign.adapters.cri import volumes
from numalign.adapters.local.objects import NOT_READY
from numalign.adapters.processes import probing
from numalign.adapters.processes.records import Mount, RunSpec
from numalign.adapters.processes.runtime import Drift, Exited, Expected, ProcessRuntime
from numalign.apps.agent.events import Pin, StartContainer
from numalign.apps.agent.model import AgentPod
from numalign.apps.agent.runtimes.environment import ValueSources
from numalign.apps.agent.runtimes.protocols import Started
from numalign.core.errors import ConfigError, PeerError, PostponedError
from numalign.core.kubelet.cgroup_limits import (
    Limits,
    QuotaRule,
    limits_of_container,
    limits_of_pod,
)
from numalign.core.kubelet.devices.plugin_answer import Allocation
from numalign.core.pod import Qos, exclusive_cpus, qos_class
from numalign.core.settings import Settings
from numalign.core.values.sets import CpuSet, NodeSet
from numalign.wire.grpc.cri_values import Propagation
from numalign.wire.pods.confinement import confinement
from numalign.wire.pods.records import ContainerRecord, Hook, Probe

# The interpreter that runs the agent, for containers that want one: commands may say $(NAME).
PYTHON_VARIABLE: Final = "NUMALIGN_PYTHON"
_REFERENCE: Final = re.compile(r"\$\$|\$\(([^)]*)\)")
PATH_DEFAULT: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Processes:
    starts_in_background = False

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

    async def start(self, request: StartContainer) -> Started:
        """Starts a container; PeerError if it cannot be started, PostponedError if not yet."""
        try:
            spec = self._spec(request)
        except ConfigError as error:
            raise PeerError(str(error)) from error
        except OSError as error:  # a full disk, say
            text = f"{error.filename}: {error.strerror}"
            raise PostponedError(text, reason=NOT_READY) from error
        if (run := request.pod.run) is not None:
            caller = run.caller
            attached = await self.runtime.attach(spec, caller.pid, caller.start, caller.boot)
            return Started(attached.pid)
        started = await self.runtime.start(spec)
        if isinstance(started, Exited):
            raise PeerError(started.message or f"ended at once with code {started.code}")
        return Started(started.pid)

    def _spec(self, request: StartContainer) -> RunSpec:
        pod = request.pod
        record = next(r for r in records_of(pod) if r.name == request.container)
        container = next(c for c in pod.pod.in_order if c.name == request.container)
        own = [exclusive_cpus(pod.pod, c, self._settings) > 0 for c in pod.pod.in_order]
        is_own = exclusive_cpus(pod.pod, container, self._settings) > 0
        abilities = self._values.abilities
        confined, faults = confinement(pod.record.spec, record, pod.asker, abilities)
        if faults:  # told when it was submitted; one from before an update comes here
            raise PostponedError("; ".join(faults), reason=NOT_READY)
        env = self._environment(pod, record, request.extra)
        return RunSpec(
            pod_uid=request.uid,
            container=request.container,
            attempt=request.attempt,
            argv=tuple(expanded(t, env) for t in (*(record.command or ()), *(record.args or ()))),
            env=env,
            cwd=record.workingDir or "/",
            log_path=self.log_path(request.uid, request.container),
            cpus=CpuSet(request.cpus),
            mems=None if request.nodes is None else NodeSet(request.nodes),
            mempolicy=request.mempolicy,
            qos=qos_class(pod.pod, self._settings),
            limits=limits_of_container(
                pod.pod, container, self._settings, exclusive=is_own, quota=self._quota
            ),
            pod_limits=limits_of_pod(
                pod.pod, self._settings, any_exclusive=any(own), quota=self._quota
            ),
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
        return self._values.variables(pod, record, given, expanded)

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
        """Moves running containers; those that are just ending are passed over."""
        running = set(self.runtime.running())
        placements = {
            (e.uid, e.container): CpusetPlacement(CpuSet(e.cpus), nodes_of(e))
            for e in pins
            if (e.uid, e.container) in running
        }
        if placements:
            self.runtime.pin_all(placements)

    def pin_helpers(self, cpus: int) -> None:
        """Keeps what watches over containers away from CPUs that a container has alone."""
        self.runtime.pin_supervisors(CpuSet(cpus))

    def set_qos_weights(self, weights: Iterable[tuple[Qos, Limits]]) -> None:
        """Gives the QoS classes their shares of CPU time."""
        for qos, limits in weights:
            self.runtime.limit_qos(qos, limits)

    async def repair_drift(self, pins: Sequence[Pin]) -> list[str]:
        """What is not as it should be, one line each, after it was put right."""
        expected = [
            Expected(pod_uid=e.uid, container=e.container, cpus=CpuSet(e.cpus), mems=nodes_of(e))
            for e in pins
        ]
        return [drift_text(drift) for drift in self.runtime.repair(expected)]

    def release_pod(self, uid: str) -> None:
        """Nothing is left of processes that have ended but their records."""
        del uid

    def forget_pod(self, uid: str) -> None:
        """Removes records, cgroups and logs of a pod."""
        for container in self.runtime.containers_of(uid):
            self.runtime.remove(uid, container)
        shutil.rmtree(self._logs / uid, ignore_errors=True)
        volumes.remove(self._volumes / uid)

    def log_path(self, uid: str, container: str) -> Path:
        return self._logs / uid / f"{container}.log"


def drift_text(d: Drift) -> str:
    where = f"{d.container} of pod {d.pod_uid}: {d.kind} {d.where}"
    return f"{where}: found {d.found}, expected {d.expected}"


def nodes_of(pin: Pin) -> NodeSet | None:
    """The NUMA nodes of a pin as a set; None: leave them."""
    return None if pin.nodes is None else NodeSet(pin.nodes)


def records_of(pod: AgentPod) -> Iterable[ContainerRecord]:
    """All containers of a pod as they were given, init containers first."""
    spec = pod.record.spec
    return [*(spec.initContainers or ()), *(spec.containers or ())]


def expanded(text: str, env: Mapping[str, str]) -> str:
    """The text with $(NAME) replaced as Kubernetes does; unknown names stay, $$ is a dollar."""
    return _REFERENCE.sub(lambda m: _replaced(m, env), text)


def _replaced(match: re.Match[str], env: Mapping[str, str]) -> str:
    if match[0] == "$$":
        return "$"
    return env.get(match[1], match[0])
