"""Puts an agent together from its parts and runs it until it is told to stop."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import structlog

from numalign.adapters.cgroups.tree import CgroupTree, mount_points
from numalign.adapters.cri import volumes
from numalign.adapters.cri.runtime import OOM_KILLED, CriRuntime
from numalign.adapters.daemon.clock import SteadyClock
from numalign.adapters.grpc.device_plugins import DevicePlugins
from numalign.adapters.grpc.plugin_watcher import PluginWatcher
from numalign.adapters.grpc.podresources import PodResources
from numalign.adapters.local import paths
from numalign.adapters.local.askers import own_abilities
from numalign.adapters.local.files import read_bounded
from numalign.adapters.local.manifests import ManifestDirectory
from numalign.adapters.local.objects import Objects
from numalign.adapters.local.state_files import StateDirectory
from numalign.adapters.processes.runtime import ProcessRuntime
from numalign.adapters.sources import discovery
from numalign.apps.agent import events
from numalign.apps.agent.config import PODS_MAX, AgentConfig, load
from numalign.apps.agent.driver import Agent
from numalign.apps.agent.model import AgentSetup
from numalign.apps.agent.runtimes import processes
from numalign.apps.agent.runtimes.containers import Containers, connected
from numalign.apps.agent.runtimes.decide_only import DecideOnly
from numalign.apps.agent.runtimes.environment import ValueSources
from numalign.apps.agent.runtimes.protocols import Runtime
from numalign.apps.agent.starting import takeover
from numalign.apps.agent.views.manifests import Look
from numalign.apps.agent.watching.cpus import follow_online
from numalign.apps.agent.watching.manifests import follow, remembered
from numalign.core.asker import Asker
from numalign.core.errors import ConfigError, PeerError
from numalign.core.kubelet import host as hosts
from numalign.core.kubelet.admission import node_fit
from numalign.core.kubelet.cgroup_limits import QuotaRule
from numalign.core.kubelet.devices import plugin_events
from numalign.core.machine.kubelet_view import machine_info
from numalign.core.machine.machine import Machine
from numalign.core.views.podresources import resources_view
from numalign.wire.checkpoints import devices as device_checkpoint
from numalign.wire.kubelet.config import KubeletConfig
from numalign.wire.kubelet.host_settings import default_config, host_settings

KNOWN_PODS_MAX: Final = 1_000  # active and ended ones together
CONFIG_BYTES_MAX: Final = 1024 * 1024
WEIGHTS: Final = "/sys/kernel/mm/mempolicy/weighted_interleave"
WITHOUT_MEMPOLICY: Final = {
    "cri": "the CRI cannot carry a memory policy to the container runtime",
    "none": "this agent runs nothing",
}

log = structlog.get_logger("numalign.agent")


@dataclass(frozen=True, slots=True)
class Options:
    state_dir: Path
    pods_dir: Path | None = None
    config: Path | None = None
    machine: str | None = None
    runtime: str = "process"  # or cri: a container runtime; or none: decide only
    cri_socket: Path | None = None  # None: the usual ones
    cgroup_root: Path = Path("/sys/fs/cgroup")
    sysfs: Path = Path("/sys")  # where CPUs are seen to go and come, on the machine itself
    host_name: str = field(default_factory=lambda: os.uname().nodename)
    objects_dir: Path | None = None  # of ConfigMaps and Secrets
    pods_as: Asker | None = None  # whose the manifests are; None: their owners'


@dataclass(slots=True)
class Parts:
    agent: Agent
    kubelet: KubeletConfig
    runtime: ProcessRuntime | CriRuntime | None
    plugins: DevicePlugins
    watcher: PluginWatcher
    pod_resources: PodResources
    manifests: ManifestDirectory | None
    first: list[events.Effect]
    notes: tuple[str, ...] = ()
    sysfs: Path | None = None  # where CPUs are seen to go and come; None: they do not


def read_config(path: Path | None) -> AgentConfig:
    """The configuration in a file, or what suits every machine; what it names lies beside it."""
    if path is None:
        return AgentConfig()
    return load(_bytes(path), source=str(path), read=lambda name: _bytes(path.parent / name))


def _bytes(path: Path) -> bytes:
    try:
        return read_bounded(path, CONFIG_BYTES_MAX)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error


def setup_of(config: AgentConfig, machine: Machine) -> tuple[AgentSetup, KubeletConfig]:
    """What stays the same while the agent runs; StartError or ConfigError if it cannot start."""
    kubelet = config.kubelet or default_config(machine)
    settings = host_settings(kubelet, machine, version=config.version, fidelity=config.fidelity)
    info = machine_info(machine)
    pods_max = config.pods_max or min(kubelet.pods_max_on(info.cpu_count), PODS_MAX)
    setup = AgentSetup(
        hosts.build(settings, info),
        node_fit.allocatable(settings, info, pods_max=pods_max),
        backoff_seconds=config.backoff_seconds,
        pods_known_max=max(KNOWN_PODS_MAX, 2 * pods_max),
        declared={item.resource: item.on(machine) for item in config.devices},
        kubelet=kubelet,
        ends_without_cpus=config.offline_cpus == "end",
    )
    return setup, kubelet


def with_runtime(setup: AgentSetup, runtime: str, *, has_objects: bool) -> AgentSetup:
    """The same with what containers can be given by a runtime on this host."""
    return replace(
        setup,
        runs_processes=runtime == "process",
        runs_containers=runtime == "cri",
        abilities=own_abilities(has_objects=has_objects, host_name=os.uname().nodename),
    )


async def assemble(options: Options, now: Callable[[], float] | None = None) -> Parts:
    """An agent that has taken up what was saved and what still runs."""
    clock = SteadyClock()
    now = now or clock
    machine = discovery.discover(options.machine)
    config = read_config(options.config)
    setup, kubelet = setup_of(config, machine)
    setup = with_runtime(setup, options.runtime, has_objects=options.objects_dir is not None)
    setup = replace(
        setup,
        has_weighted_interleave=Path(WEIGHTS).is_dir(),
        without_mempolicy=WITHOUT_MEMPOLICY.get(options.runtime, ""),
    )
    files = StateDirectory(options.state_dir, [device_checkpoint.FOLDER])
    files.prepare()
    runtime, bridge = await _runtime(options, config, setup, kubelet)
    runs = takeover.runs_of(await runtime.adopt()) if runtime else None
    taken = takeover.take_up(setup, files, runs, now())
    takeover.keep_aside(files, taken.before)
    state = taken.state
    volumes.sweep(options.state_dir / "volumes")
    volumes.remove_others(options.state_dir / "volumes", state.pods)
    if isinstance(runtime, CriRuntime):
        left = await runtime.pods()
    else:
        left = bridge.left_over() if isinstance(bridge, processes.Processes) else set()
    # Nobody asks for it any more; what still runs of it is ended, and then forgotten too.
    taken.effects.extend(events.ForgetPod(uid) for uid in left - state.pods.keys())
    agent: Agent

    def told(event: plugin_events.PluginEvent) -> None:
        _plugin_event(agent, event, now())

    plugins = DevicePlugins(options.state_dir / device_checkpoint.FOLDER, told)
    agent = Agent(setup, machine, files, bridge, plugins, now)
    agent.begin(state)
    agent.clock_jump = clock.jump if now is clock else agent.clock_jump
    if isinstance(bridge, DecideOnly):
        bridge.on_ended = lambda uid, name, code: _note_end(agent, uid, name, code, now())
    notes = runtime.notes if runtime else ("decides only: no containers are run",)
    return Parts(
        agent,
        kubelet,
        runtime,
        plugins,
        PluginWatcher(options.state_dir / "plugins_registry", plugins, told),
        PodResources(
            options.state_dir / "pod-resources" / "kubelet.sock",
            lambda: resources_view(setup.host, agent.state.host),
            counted=lambda call: agent.on_asked(call.version, call.method, failed=call.failed),
        ),
        manifests_of(options.pods_dir, options.host_name, options.pods_as),
        taken.effects,
        notes + taken.notes(),
        options.sysfs if options.machine is None else None,
    )


def _note_end(agent: Agent, uid: str, container: str, code: int, now: float) -> None:
    if (known := agent.state.pods.get(uid)) is not None:
        attempt = known.containers[container].restarts
        agent.tell(events.ContainerExited(uid, container, attempt, code, now))


def manifests_of(
    directory: Path | None, host_name: str, asker: Asker | None = None
) -> ManifestDirectory | None:
    """The directory of manifests, if one is given; ConfigError if it is none."""
    if directory is None:
        return None
    if not directory.is_dir():
        raise ConfigError(f"{directory}: found no directory, expected one of manifests")
    return ManifestDirectory(directory, host_name, asker)


async def _runtime(
    options: Options, config: AgentConfig, setup: AgentSetup, kubelet: KubeletConfig
) -> tuple[ProcessRuntime | CriRuntime | None, Runtime]:
    logs = options.state_dir / "logs"
    if options.runtime == "none":
        return None, DecideOnly(logs)
    quota = QuotaRule(
        enforced=kubelet.cpu_cfs_quota, period_us=kubelet.cpu_cfs_quota_period_ns // 1000
    )
    settings, info = setup.host.settings, setup.host.info
    assert setup.abilities is not None, "assemble() looks what they are"
    values = ValueSources(_objects(options), setup.abilities, setup.totals)
    if options.runtime == "cri":
        found = await _containers(options, config)
        return found, Containers(found, settings, info, options.state_dir, quota, values)
    try:
        runtime = ProcessRuntime(options.state_dir, _cgroups(options, config))
    except PeerError as error:
        log.warning("no_cgroups", error=str(error))
        runtime = ProcessRuntime(options.state_dir, None)
    bridge = processes.Processes(runtime, settings, options.state_dir, quota, values)
    return runtime, bridge


def _objects(options: Options) -> Objects:
    """Where ConfigMaps and Secrets are; ConfigError if that is no directory."""
    root = options.objects_dir
    if root is not None and not root.is_dir():
        raise ConfigError(f"{root}: found no directory, expected one of configmaps/ and secrets/")
    return Objects(root)


async def _containers(options: Options, config: AgentConfig) -> CriRuntime:
    tree = _cgroups(options, config)
    if tree is None or not tree.has_cpuset:
        what = "root" if tree is None else f"a cpuset controller below {options.cgroup_root}"
        raise ConfigError(f"--runtime cri: pods are kept in cgroups of their own; needs {what}")
    found = mount_points(options.cgroup_root, Path("/proc/self/mountinfo").read_text())
    mounts = [mount for mount, _ in found]
    return await connected(options.cri_socket, tree, mounts, options.state_dir)


def _cgroups(options: Options, config: AgentConfig) -> CgroupTree | None:
    """The host's cgroups where we may use them: as root."""
    if os.geteuid() != 0:
        return None
    mountinfo = Path("/proc/self/mountinfo").read_text()
    parent = config.cgroup_parent or paths.cgroup_parent(options.state_dir)
    tree = CgroupTree.detect(options.cgroup_root, mountinfo, parent)
    tree.take()
    return tree


def _plugin_event(agent: Agent, event: plugin_events.PluginEvent, now: float) -> None:
    match event:
        case plugin_events.PluginReported(resource, found, has_preferred, prestart):
            agent.tell(
                events.DevicesReported(
                    resource,
                    found,
                    now,
                    has_preferred=has_preferred,
                    needs_prestart=prestart,
                )
            )
        case plugin_events.PluginGone(resource) | plugin_events.PluginForgotten(resource):
            agent.tell(events.DevicesGone(resource, now))
        case plugin_events.PluginRegistered(resource) | plugin_events.RegistrationRefused(resource):
            agent.on_registered(resource)
            log.info("device_plugin", what=str(event))
        case _:
            log.warning("device_plugin", what=str(event))


# Running.


async def run(
    parts: Parts,
    *beside: Coroutine[None, None, None],
    before_end: Coroutine[None, None, None] | None = None,
) -> None:
    """Runs an agent and what is given beside it until SIGTERM or SIGINT. Containers go on.

    ``before_end`` is done while everything still runs.
    """
    agent = parts.agent
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    known = [
        name for name in agent.state.host.devices.resources if name not in agent.setup.declared
    ]
    await parts.plugins.start(known)
    await parts.watcher.start()
    await parts.pod_resources.start()
    period = max(parts.kubelet.cpu_reconcile_period_ns / 1e9, 0.1)
    work = [
        agent.run(parts.first),
        agent.tick(),
        agent.pace.watch(),
        agent.reconcile(period),
        _follow_manifests(parts),
        _follow_exits(parts),
        *([] if parts.sysfs is None else [follow_online(parts.sysfs, agent.tell)]),
        *beside,
    ]
    tasks = [loop.create_task(one) for one in work]
    waiter = loop.create_task(stop.wait())
    done, _ = await asyncio.wait([*tasks, waiter], return_when=asyncio.FIRST_COMPLETED)
    if before_end is not None:
        await before_end
    await _stop(parts, [*tasks, waiter])
    for task in done:
        if task is not waiter and task.exception() is not None:
            raise task.exception()  # type: ignore[misc] # it is an exception, as just seen


async def _stop(parts: Parts, tasks: list[asyncio.Task[Any]]) -> None:
    await parts.agent.finish()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await parts.agent.close()
    await parts.watcher.stop()
    await parts.plugins.stop()
    await parts.pod_resources.stop()
    match parts.runtime:
        case ProcessRuntime() as runtime:
            runtime.close()
        case CriRuntime() as runtime:
            await runtime.close()
        case None:
            pass


async def _follow_manifests(parts: Parts) -> None:
    agent = parts.agent

    def show(look: Look) -> None:
        agent.manifests = look

    if parts.manifests is not None:
        parts.manifests.remember(remembered(agent.state.pods))
    await follow(parts.manifests, agent.hand_in, show, agent.now)


async def _follow_exits(parts: Parts) -> None:
    if parts.runtime is None:
        await asyncio.Event().wait()
        return
    async for ended in parts.runtime.exits():
        message = "out of memory" if ended.oom_killed else ended.message
        parts.agent.tell(
            events.ContainerExited(
                ended.pod_uid,
                ended.container,
                ended.attempt,
                ended.code,
                parts.agent.now(),
                message,
                OOM_KILLED if ended.oom_killed else "",
            )
        )
