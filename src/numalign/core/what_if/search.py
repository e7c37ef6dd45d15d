"""The search for changes that let a refused pod in: a change, and the verdicts asked for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from numalign.core.explain.causes import Case
from numalign.core.explain.explain import Explanation
from numalign.core.kubelet import host as hosts
from numalign.core.kubelet.admission.draft import no_preference
from numalign.core.kubelet.admission.verdict import verdict_on
from numalign.core.kubelet.decisions import Admitted
from numalign.core.kubelet.devices.devices import Preferred
from numalign.core.kubelet.host import Host, HostState
from numalign.core.pod import Pod
from numalign.core.settings import Settings

RUNS_MAX: Final = 4_000  # verdicts of one search


class Kind(StrEnum):
    """What is changed, in the order in which an operator would try it."""

    RECREATE = "anew"  # the pod is deleted and created again
    REQUEST = "request"
    ORDER = "order"  # of its containers
    QOS = "qos"
    LEAVE = "leave"  # other pods go
    REPAIR = "repair"  # unhealthy devices come back
    HOST = "host"  # a setting of the kubelet


_ORDER: Final = {kind: number for number, kind in enumerate(Kind)}


@dataclass(frozen=True, slots=True)
class Change:
    """One change after which the pod is admitted, and how the host then places it."""

    kind: Kind
    text: str
    pod: Pod
    verdict: Admitted
    size: float = 0.0  # how much is changed, to sort changes of one kind
    settings: Settings | None = None  # of the changed host
    leaving: tuple[str, ...] = ()  # uids of pods that would have to go
    repaired: tuple[str, ...] = ()  # resources whose devices would all be healthy
    drained: bool = False  # true only on the host without its pods
    refused_again: tuple[str, ...] = ()  # running pods that the changed kubelet would refuse
    exact: bool = True  # whether nothing smaller of its kind exists
    edits: tuple[tuple[str | None, str, str, str], ...] = ()  # container, resource, from, to

    @property
    def gives_up(self) -> bool:
        """Whether the pod would do without something that it was made for."""
        return any("/" in resource and after == "0" for _, resource, _, after in self.edits)

    @property
    def rank(self) -> tuple[bool, int, bool, int, float, str]:
        """The key that sorts changes: what is tried first, and of one kind the smallest."""
        kind, refused = _ORDER[self.kind], len(self.refused_again)
        return self.gives_up, kind, self.drained, refused, self.size, self.text


Going = Callable[[str, int], bool]  # what is searched, verdicts so far -> whether to go on


def _always(_stage: str, _runs: int) -> bool:
    return True


class StoppedError(Exception):
    """The caller wants no more, or the limit of a search is reached."""


@dataclass(slots=True)
class Search:
    """One refused pod and the verdicts asked for on its behalf."""

    case: Case
    explanation: Explanation
    preferred: Preferred = no_preference
    going: Going = _always
    owners: Mapping[str, str] = field(default_factory=dict)  # pod uid -> what keeps it running
    stage: str = ""
    runs: int = 0
    runs_max: int = RUNS_MAX
    is_stopped: bool = field(default=False)

    def admits(
        self, pod: Pod, *, host: Host | None = None, state: HostState | None = None
    ) -> Admitted | None:
        """The placement if the host admits the pod, as changed."""
        self.count()
        _, verdict = verdict_on(
            host or self.case.host,
            state or self.case.before,
            self.case.totals,
            pod,
            preferred=self.preferred,
        )
        return verdict if isinstance(verdict, Admitted) else None

    def count(self) -> None:
        """Notes one verdict; StoppedError where no more are wanted."""
        if self.runs >= self.runs_max or not self.going(self.stage, self.runs):
            self.is_stopped = True
            raise StoppedError
        self.runs += 1


def freed_of(host: Host, state: HostState, uids: tuple[str, ...]) -> HostState:
    """The state after these pods have gone and what they held is free."""
    for uid in uids:
        state = replace(hosts.ended(state, uid), gone=state.gone | {uid})
    return hosts.cleaned(host, state)
