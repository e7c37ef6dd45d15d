"""What a report must say of a scenario before its figures are believed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from numalign.wire.fleet.scenario.form import ScenarioForm

_RECREATED: Final = {
    "at-once": "A refused pod is made anew a second later, as by a ReplicaSet",
    "back-off": "A refused pod is made anew after 10 s, doubled each time, as by a Job",
    "never": "A refused pod is not made anew",
}


def notes_of(form: ScenarioForm) -> Iterable[str]:
    """The assumptions behind hosts and work, in sentences."""
    if any(work.openb for work in form.work):
        yield (
            "The openb pods do not say who has CPUs of its own; in the published list only 2,549 "
            "of 8,152 ask for whole CPUs and 7 are Guaranteed. Here all are Guaranteed: CPUs are "
            "rounded up, and a part of a GPU counts as a whole one. That is our assumption."
        )
    if any(group.openb for group in form.hosts):
        yield (
            "The openb hosts do not say how many NUMA nodes they have. Here each has two, with its "
            "GPUs spread over both."
        )
    if any(work.dlrm for work in form.work):
        machines = ", ".join(f"{g.count} x {g.machine}" for g in form.hosts if g.machine)
        yield (
            f"The DLRM trace names no machines; these are the scenario's choice: {machines}. An "
            "RDMA share is taken in quarters of a card, and 1 % as none."
        )
    if any(work.preset for work in form.work):
        yield "A preset is a table of our own making, not a measurement of anyone's fleet."
    if any(name == "totals" or name.startswith("upstream") for name in form.schedulers):
        yield (
            "totals and upstream choose by chance among hosts of equal score, as a kube-scheduler "
            "does, and score every host; a real one stops at a part of a large fleet."
        )
    chosen = form.controllers
    yield (
        f"{_RECREATED[chosen.recreate]}, at most {chosen.attempts_max} times in all"
        + (", and wait at redeploy's gate." if chosen.redeploy else ".")
    )
