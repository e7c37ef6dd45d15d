"""Changes of the host: one setting of the kubelet at a time.

A changed kubelet starts from the state files that it finds. Where it would refuse them, the host
has to be drained first, and the verdict is that of the host without its pods.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from numalign.core.errors import StartError
from numalign.core.explain.explain import empty_state, pod_name
from numalign.core.kubelet import host as hosts
from numalign.core.kubelet.admission.admission import admit
from numalign.core.kubelet.cpu.policy import ALIGN_SOCKET, OPTIONS, SPREAD_CORES
from numalign.core.kubelet.decisions import Admitted
from numalign.core.kubelet.devices.devices import with_reported
from numalign.core.kubelet.host import Host, HostState
from numalign.core.kubelet.topology.policy import CLOSEST, POLICIES
from numalign.core.settings import Settings
from numalign.core.values.sizes import counted
from numalign.core.what_if.search import Change, Kind, Search

ALPHA_GATE = "CPUManagerPolicyAlphaOptions"


def settings(search: Search) -> Iterator[Change]:
    """Each single setting with which the host would admit the pod."""
    case = search.case
    for text, changed in variants(case.host.settings):
        try:
            host = hosts.build(changed, case.host.info)
        except StartError:
            continue  # this kubelet would not start at all
        state = restarted(host, case.before)
        drained = state is None
        if state is None:
            if search.explanation.fits_when_empty:
                continue  # the drain alone would do it
            state = empty_state(host, case.before.devices)
        verdict = search.admits(case.pod, host=host, state=state)
        if verdict is None:
            continue
        refused = () if drained else refused_again(host, state)
        yield Change(
            Kind.HOST,
            f"{text} ({_cost(case.host.settings, changed, refused, drained=drained)})",
            case.pod,
            verdict,
            size=_distance(case.host.settings, changed),
            settings=changed,
            drained=drained,
            refused_again=refused,
        )


def _cost(before: Settings, after: Settings, refused: tuple[str, ...], *, drained: bool) -> str:
    """What has to be done for a changed setting, and what it does to others."""
    if drained:
        files = [
            name
            for name, changed in (
                ("cpu_manager_state", before.cpu_policy != after.cpu_policy),
                ("memory_manager_state", before.memory_policy != after.memory_policy),
            )
            if changed
        ]
        named = " and ".join(files) or "its state files"
        return f"drain the host, remove {named}, restart the kubelet"
    if not refused:
        return "restart the kubelet"
    more = ", …" if len(refused) > 1 else ""
    pods = counted(len(refused), "running pod")
    return f"restart the kubelet; {pods} would then be refused: {refused[0]}{more}"


_STRICTNESS: Final = ("none", "best-effort", "restricted", "single-numa-node")


def _distance(before: Settings, after: Settings) -> float:
    """How far a host is from the one that it was: options, then policies, a manager last."""
    if before.topology_policy != after.topology_policy:
        return abs(
            _STRICTNESS.index(before.topology_policy) - _STRICTNESS.index(after.topology_policy)
        )
    managers = (before.cpu_policy, before.memory_policy)
    return 4 if managers != (after.cpu_policy, after.memory_policy) else 0


def repairs(search: Search) -> Iterator[Change]:
    """Unhealthy devices of the resources at fault, healthy again."""
    case = search.case
    sick = {
        name: found
        for name in search.explanation.resources
        if (found := case.before.devices.resources.get(name)) is not None
        and found.healthy.bit_count() < len(found.ids)
    }
    if not sick:
        return
    state = case.before
    for name, found in sick.items():
        well = replace(found, healthy=(1 << len(found.ids)) - 1)
        state = replace(state, devices=with_reported(state.devices, name, well))
    verdict = search.admits(case.pod, state=state)
    if verdict is not None:
        count = sum(len(r.ids) - r.healthy.bit_count() for r in sick.values())
        text = f"bring back {counted(count, 'unhealthy device')} of {' and '.join(sick)}"
        yield Change(Kind.REPAIR, text, case.pod, verdict, size=count, repaired=tuple(sick))


def variants(now: Settings) -> Iterator[tuple[str, Settings]]:
    """The settings that differ in one thing, with words for it."""
    for policy in ("none", *POLICIES):
        if policy != now.topology_policy:
            yield f"set topologyManagerPolicy: {policy}", replace(now, topology_policy=policy)
    if now.topology_policy != "none":
        scope = "pod" if now.topology_scope == "container" else "container"
        yield f"set topologyManagerScope: {scope}", replace(now, topology_scope=scope)
        yield from _toggled_closest(now)
    if now.cpu_policy == "static":
        for option in sorted(OPTIONS):
            yield _toggled(now, option)
        yield "set cpuManagerPolicy: none", replace(now, cpu_policy="none", cpu_options={})
    if now.memory_policy == "Static":
        yield "set memoryManagerPolicy: None", replace(now, memory_policy="None")


def _toggled_closest(now: Settings) -> Iterator[tuple[str, Settings]]:
    options = _flipped(now.topology_options, CLOSEST)
    word = "switch on" if CLOSEST in options else "switch off"
    yield (
        f"{word} the topology manager's option {CLOSEST}",
        replace(now, topology_options=options),
    )


def _flipped(options: Mapping[str, str], name: str) -> dict[str, str]:
    rest = {key: value for key, value in options.items() if key != name}
    is_on = options.get(name, "false").lower() in {"true", "1", "t"}
    return rest if is_on else {**rest, name: "true"}


def _toggled(now: Settings, option: str) -> tuple[str, Settings]:
    options = _flipped(now.cpu_options, option)
    changed = replace(now, cpu_options=options)
    if option not in options:
        return f"switch off the CPU manager's option {option}", changed
    text = f"switch on the CPU manager's option {option}"
    if option in {SPREAD_CORES, ALIGN_SOCKET} and not now.gate(ALPHA_GATE):
        changed = replace(changed, gates={**now.gates, ALPHA_GATE: True})
        text += f" (alpha: with the feature gate {ALPHA_GATE})"
    return text, changed


def restarted(host: Host, state: HostState) -> HostState | None:
    """The state with which the changed kubelet would go on; None where it would not start."""
    settings_ = host.settings
    if state.cpu.policy != settings_.cpu_policy or state.memory.policy != settings_.memory_policy:
        return None
    try:
        fresh = hosts.start(host, cpu=state.cpu, memory=state.memory)
    except StartError:
        return None
    return replace(state, cpu=fresh.cpu, memory=fresh.memory)


def refused_again(host: Host, state: HostState) -> tuple[str, ...]:
    """The running pods that the changed kubelet would refuse when it starts."""
    refused = []
    for pod in state.pods.values():
        after, decision = admit(host, state, pod)
        if isinstance(decision, Admitted):
            state = after
        else:
            refused.append(pod_name(pod))
    return tuple(refused)
