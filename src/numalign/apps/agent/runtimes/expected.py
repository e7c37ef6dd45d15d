"""What must hold of running containers and their pods: placement and amounts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from numalign.adapters.processes.values import Expected
from numalign.apps.agent.events import Pin
from numalign.apps.agent.model import AgentPod
from numalign.core.kubelet.cgroup_limits import (
    Limits,
    QuotaRule,
    limits_of_container,
    limits_of_pod,
)
from numalign.core.pod import Pod, exclusive_cpus
from numalign.core.settings import Settings
from numalign.core.values.sets import CpuSet, NodeSet


def nodes_of(pin: Pin) -> NodeSet | None:
    """The NUMA nodes of a pin as a set; None: leave them."""
    return None if pin.nodes is None else NodeSet(pin.nodes)


def amounts_of_container(pod: Pod, name: str, settings: Settings, quota: QuotaRule) -> Limits:
    """The limits of a container of a pod."""
    container = next(c for c in pod.in_order if c.name == name)
    is_own = exclusive_cpus(pod, container, settings) > 0
    return limits_of_container(pod, container, settings, exclusive=is_own, quota=quota)


def amounts_of_pod(pod: Pod, settings: Settings, quota: QuotaRule) -> Limits:
    """The limits of a whole pod."""
    own = any(exclusive_cpus(pod, c, settings) > 0 for c in pod.in_order)
    return limits_of_pod(pod, settings, any_exclusive=own, quota=quota)


def expected(
    pins: Iterable[Pin], pods: Mapping[str, AgentPod], settings: Settings, quota: QuotaRule
) -> list[Expected]:
    """What to compare running containers with."""
    return [
        Expected(
            pod_uid=pin.uid,
            container=pin.container,
            cpus=CpuSet(pin.cpus),
            mems=nodes_of(pin),
            limits=amounts_of_container(pods[pin.uid].pod, pin.container, settings, quota),
            pod_limits=amounts_of_pod(pods[pin.uid].pod, settings, quota),
        )
        for pin in pins
    ]
