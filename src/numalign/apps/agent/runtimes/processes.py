"""The process runtime behind the agent: what a pod's manifest and placement mean for a process."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from numalign.adapters.cgroups.tree import CpusetPlacement
from numalign.adapters.processes.records import RunSpec
from numalign.adapters.processes.runtime import Drift, Exited, Expected, ProcessRuntime
from numalign.apps.agent.events import Pin, StartContainer
from numalign.apps.agent.model import AgentPod
from numalign.apps.agent.runtimes.protocols import Started
from numalign.core.errors import ConfigError, PeerError
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
from numalign.wire.pods.records import ContainerRecord

# The interpreter that runs the agent, for containers that want one: commands may say $(NAME).
PYTHON_VARIABLE: Final = "NUMALIGN_PYTHON"
_REFERENCE: Final = re.compile(r"\$\$|\$\(([^)]*)\)")
PATH_DEFAULT: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Processes:
    starts_in_background = False

    def __init__(
        self, runtime: ProcessRuntime, settings: Settings, logs: Path, quota: QuotaRule
    ) -> None:
        self.runtime = runtime
        self._settings = settings
        self._logs = logs
        self._quota = quota

    async def start(self, request: StartContainer) -> Started:
        """Starts a container; PeerError if it cannot be started."""
        try:
            spec = self._spec(request)
        except ConfigError as error:
            raise PeerError(str(error)) from error
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
        env = _environment(pod, record, request.extra)
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
        )

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


def _environment(pod: AgentPod, record: ContainerRecord, extra: Allocation) -> dict[str, str]:
    """The container's own variables win over those of device plugins."""
    env = {
        "PATH": PATH_DEFAULT,
        "HOSTNAME": pod.pod.name,
        PYTHON_VARIABLE: sys.executable,
        **extra.envs,
    }
    for item in record.env or ():
        env[item.name] = expanded(item.value, env)
    return env


def expanded(text: str, env: Mapping[str, str]) -> str:
    """The text with $(NAME) replaced as Kubernetes does; unknown names stay, $$ is a dollar."""
    return _REFERENCE.sub(lambda m: _replaced(m, env), text)


def _replaced(match: re.Match[str], env: Mapping[str, str]) -> str:
    if match[0] == "$$":
        return "$"
    return env.get(match[1], match[0])
