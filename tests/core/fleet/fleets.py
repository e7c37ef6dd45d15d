"""Random hosts that decide with the core, some of them as full as they get."""

from tests.core import hosts
from tests.core.cluster.scheduling.kubelets import GPU, a_pod

from numalign.core.cluster.publish.placement import PublishedPlacement
from numalign.core.cluster.scheduling.rebuild import frame_of
from numalign.core.kubelet import host as kubelet
from numalign.core.kubelet.admission.verdict import verdict_on
from numalign.core.kubelet.decisions import Admitted
from numalign.core.kubelet.devices.devices import Device

POLICIES = ("single-numa-node", "single-numa-node", "restricted", "best-effort", "none")


def a_frame(rng, *, policy=None, nodes=None):
    count = nodes or rng.choice([1, 2, 2, 4])
    info = hosts.machine(
        count, rng.choice([4, 8]), rng.choice([1, 2]), memory=rng.choice([16, 64]) * hosts.GI
    )
    settings = hosts.settings(
        policy or rng.choice(POLICIES),
        scope=rng.choice(["container", "pod"]),
        memory=rng.random() < 0.6,
        reserved=rng.choice(["0", "0-1"]),
        cpu_options=rng.choice(
            [(), (), ("full-pcpus-only",), ("strict-cpu-reservation",)]
            + [("distribute-cpus-across-numa",)] * (policy is None)
        ),
    )
    devices = {}
    if rng.random() < 0.6:
        devices[GPU] = tuple(
            Device(f"gpu{i}", (rng.randrange(count),)) for i in range(rng.randrange(1, 5))
        )
    return frame_of(PublishedPlacement(info, settings, devices, (), 0, rng.choice([12, 110])))


def sizes(rng):
    return (
        rng.choice([1, 2, 3, 4, 6, 8, 16]),
        rng.choice([1, 2, 4, 8, 20]),
        rng.choice([0, 0, 1, 2]),
    )


def grown(rng, frame, count):
    """The state after random pods came and went."""
    state = frame.empty
    for i in range(count):
        if state.pods and rng.random() < 0.3:
            state = kubelet.ended(state, rng.choice(sorted(state.pods)))
            state = kubelet.cleaned(frame.host, state)
        after, verdict = verdict_on(frame.host, state, frame.totals, a_pod(f"p{i}", sizes(rng)))
        state = kubelet.cleaned(frame.host, after)
        assert isinstance(verdict, Admitted) or f"p{i}" not in state.pods
    return state
