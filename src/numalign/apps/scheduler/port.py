"""What the front ends may ask of a running scheduler."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from numalign.wire.kubernetes.extender import BindAsked, HostsAsked, PreemptAsked, Victims


@dataclass(frozen=True, slots=True)
class Filtered:
    """Which hosts are left, and why the others are not; the hopeless ones not even when empty."""

    kept: Collection[str]
    failed: Mapping[str, str] = field(default_factory=dict)
    hopeless: Mapping[str, str] = field(default_factory=dict)


class SchedulerPort(Protocol):
    """A running scheduler. All of it is used from the thread of its event loop."""

    def problems(self) -> list[str]:
        """Why it is not ready; empty if it is."""

    def filter(self, asked: HostsAsked) -> Filtered:
        """Which of these hosts would take the pod."""

    def prioritize(self, asked: HostsAsked) -> Sequence[tuple[str, int]]:
        """How good each of these hosts is for the pod."""

    async def bind(self, asked: BindAsked) -> str:
        """Binds a pod to a host; an empty text, or what went wrong."""

    def preempt(self, asked: PreemptAsked) -> Mapping[str, Victims]:
        """The hosts on which the pod would fit once the victims are gone."""

    def metrics_text(self) -> bytes:
        """Prometheus' text format."""
