"""What the redeploy loop counts."""

from __future__ import annotations

from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

from numalign.apps.redeploy.model import RedeployState


class RedeployMetrics:
    """The counts of one replica; nothing is global."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        counter = partial(Counter, registry=self._registry)
        gauge = partial(Gauge, registry=self._registry)
        self.refusals = counter(
            "numalign_redeploy_refusals", "Pods that a kubelet refused.", ["host", "reason"]
        )
        self.actions = counter(
            "numalign_redeploy_actions",
            "What was done about pods, by kind of owner and by how it ended.",
            ["action", "owner_kind", "result"],
        )
        self.give_ups = counter("numalign_redeploy_give_ups", "Owners that had too many refusals.")
        self.watch_troubles = counter(
            "numalign_redeploy_watch_troubles",
            "Refusals and broken connections while following the cluster.",
        )
        self.leading = gauge("numalign_redeploy_leading", "Whether this replica acts.")
        self._waiting = gauge("numalign_redeploy_waiting_pods", "Pods whose gate is closed.")
        self._refused = gauge(
            "numalign_redeploy_refused_pods", "Refused pods that are still there."
        )
        self._avoided = gauge(
            "numalign_redeploy_avoided_pairs",
            "Pairs of a shape and a host that had a refusal lately.",
        )

    def take_gauges(self, state: RedeployState) -> None:
        self._waiting.set(len(state.waiting))
        self._refused.set(len(state.refused))
        self._avoided.set(len(state.avoided))

    def text(self) -> bytes:
        return generate_latest(self._registry)
