"""What the redeploy loop counts."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

from numalign.apps.redeploy.model import RedeployState


class RedeployMetrics:
    """The counts of one replica; nothing is global."""

    def __init__(self) -> None:
        registry = CollectorRegistry()
        self._registry = registry
        self.refusals = Counter(
            "numalign_redeploy_refusals",
            "Pods that a kubelet refused.",
            ["host", "reason"],
            registry=registry,
        )
        self.actions = Counter(
            "numalign_redeploy_actions",
            "What was done about pods, by kind of owner and by how it ended.",
            ["action", "owner_kind", "result"],
            registry=registry,
        )
        self.give_ups = Counter(
            "numalign_redeploy_give_ups", "Owners that had too many refusals.", registry=registry
        )
        self.watch_troubles = Counter(
            "numalign_redeploy_watch_troubles",
            "Refusals and broken connections while following the cluster.",
            registry=registry,
        )
        self.leading = Gauge(
            "numalign_redeploy_leading", "Whether this replica acts.", registry=registry
        )
        self._waiting = Gauge(
            "numalign_redeploy_waiting_pods", "Pods whose gate is closed.", registry=registry
        )
        self._refused = Gauge(
            "numalign_redeploy_refused_pods",
            "Refused pods that are still there.",
            registry=registry,
        )
        self._avoided = Gauge(
            "numalign_redeploy_avoided_pairs",
            "Pairs of a shape and a host that had a refusal lately.",
            registry=registry,
        )

    def take_gauges(self, state: RedeployState) -> None:
        self._waiting.set(len(state.waiting))
        self._refused.set(len(state.refused))
        self._avoided.set(len(state.avoided))

    def text(self) -> bytes:
        return generate_latest(self._registry)
