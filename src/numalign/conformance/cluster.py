"""Replays decisions of the scheduler plugin, plainly and in columns, and pod fingerprints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from numalign.conformance.reading import Json, quantities
from numalign.core.cluster.nrt_match import match
from numalign.core.cluster.nrt_match.columns import Columns
from numalign.core.cluster.nrt_match.evaluate import evaluated
from numalign.core.cluster.nrt_match.match import Strategy
from numalign.core.cluster.nrt_match.need import (
    WORDS,
    Amounts,
    Ask,
    PodNeed,
    Why,
    nanos_of,
    total_of,
)
from numalign.core.cluster.nrt_match.need import offered as offered_names
from numalign.core.cluster.nrt_match.record import HostRecord, ZoneRecord
from numalign.core.cluster.publish.fingerprint import fingerprint
from numalign.core.cluster.publish.zones import (
    CONTAINER,
    MAX_NODES_ATTRIBUTE,
    NUMA_ID_MAX,
    POD,
    POLICY_ATTRIBUTE,
    SCOPE_ATTRIBUTE,
    SINGLE_NUMA_NODE,
    Attribute,
    HostTopology,
    TopologyConfig,
    config_of,
)
from numalign.core.pod import Qos

_WHYS: Final = {"init": Why.INIT_CONTAINER, "sidecar": Why.SIDECAR, "app": Why.CONTAINER}
_KINDS: Final = {why: kind for kind, why in _WHYS.items()}


def pod_set_fingerprint(line: Json) -> list[str]:
    """A set of pods, named ``namespace/name``, and its fingerprint."""
    pods = [(ns, name) for ns, _, name in (pod.partition("/") for pod in line["pods"])]
    return _difference("fingerprint", line["fingerprint"], fingerprint(pods))


def host_filter(line: Json) -> list[str]:
    """One pod on one host: the reason, and the NUMA node of each check that succeeded."""
    init = [Ask(_WHYS[c["kind"]], _amounts(c["requests"])) for c in line["init"]]
    need = _need(Qos(line["qos"]), [*init, *_apps(line["app"])], line.get("overhead"))
    host = _host(line, offered_names(line["node_allocatable"]))
    answer = match.filtered(host, need)
    expected = line["reason"] or None
    return [
        *_difference("reason", expected, WORDS.get(answer.why)),
        *_difference("reason in columns", expected, WORDS.get(_in_columns(host, need)[0])),
        *_difference("numa", line["numa"], _checks(host, need, answer)),
    ]


def _checks(host: HostRecord, need: PodNeed, answer: match.FilterResult) -> list[list[object]]:
    if host.config.scope == POD:
        return [["pod", node] for node in answer.nodes]
    return [[_KINDS[a.why], node] for a, node in zip(need.asks, answer.nodes, strict=False)]


def host_score(line: Json) -> list[str]:
    """One Guaranteed pod on one host: the scores of the strategies that look at use."""
    found: list[str] = []
    for name, expected in line["score"].items():
        is_edge = line.get("balanced_edge") and name == Strategy.BALANCED_ALLOCATION
        found += _scores(line, Strategy(name), expected, slack=1 if is_edge else 0)
    return found


def least_numa(line: Json) -> list[str]:
    """One Guaranteed pod on one host: the score by the number of NUMA nodes."""
    return _scores(line, Strategy.LEAST_NUMA_NODES, line["score"], slack=0)


def _scores(line: Json, strategy: Strategy, expected: int, *, slack: int) -> list[str]:
    need = _need(Qos.GUARANTEED, _apps(line["containers"]), None)
    host = _host(line, frozenset())
    weights: Mapping[str, int] = line.get("weights") or {}
    plain = match.score(host, need, strategy, weights)
    in_columns = _in_columns(host, need, strategy, weights)[1]
    found: list[str] = []
    for what, score in ((strategy.value, plain), (f"{strategy.value} in columns", in_columns)):
        if abs(score - expected) > slack:
            found += _difference(what, expected, score)
    return found


def _in_columns(
    host: HostRecord,
    need: PodNeed,
    strategy: Strategy = Strategy.LEAST_ALLOCATED,
    weights: Mapping[str, int] | None = None,
) -> tuple[Why, int]:
    """The same by the version that looks at all hosts at once."""
    columns = Columns()
    columns.put(host)
    found = evaluated(columns, need, strategy, weights or {}, scores_all=True)
    return Why(int(found.whys[0])), int(found.scores[0])


def _difference(what: str, expected: object, found: object) -> list[str]:
    return [] if found == expected else [f"{what}: expected {expected!r}, found {found!r}"]


def _need(qos: Qos, asks: list[Ask], overhead: Mapping[str, str] | None) -> PodNeed:
    return PodNeed(qos, tuple(asks), total_of(asks, _amounts(overhead or {})))


def _apps(containers: list[Mapping[str, str]]) -> list[Ask]:
    return [Ask(Why.CONTAINER, _amounts(requests)) for requests in containers]


def _amounts(texts: Mapping[str, str]) -> Amounts:
    return nanos_of(quantities({name: str(text) for name, text in texts.items()}))


def _host(line: Json, offered: frozenset[str]) -> HostRecord:
    zones = tuple(
        ZoneRecord(
            zone["id"],
            _amounts(zone["available"]),
            {int(name.removeprefix("node-")): c for name, c in (zone.get("costs") or {}).items()},
        )
        for zone in sorted(line["zones"], key=lambda zone: int(zone["id"]))
        if zone["id"] <= NUMA_ID_MAX
    )
    return HostRecord("host", _config(line), zones, offered)


def _config(line: Json) -> TopologyConfig:
    attributes = (
        Attribute(POLICY_ATTRIBUTE, line.get("policy", SINGLE_NUMA_NODE)),
        Attribute(SCOPE_ATTRIBUTE, line.get("scope", CONTAINER)),
        Attribute(MAX_NODES_ATTRIBUTE, str(line.get("max_numa_nodes", ""))),
    )
    return config_of(HostTopology("host", attributes=attributes))
