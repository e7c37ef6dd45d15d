"""``numalign capacity``: how many more pods of a shape fit, and what binds."""

# ruff: noqa: PLC0415 - a command loads what it needs when it runs
from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from numalign.cli.app import examples, new_app
from numalign.cli.main import FAILED, OK
from numalign.cli.options import ClusterOptions, optional, unfold
from numalign.cli.output import Output, output_option
from numalign.core.errors import ConfigError

if TYPE_CHECKING:
    from numalign.core.cluster.scheduling.constraints import HostFacts
    from numalign.core.fleet.capacity import Capacity, FleetHost
    from numalign.wire.kubernetes.scheduling import ClusterPod

FORMATS: Final = ("table", "json", "yaml")
HEAD: Final = ("POOL", "HOSTS", "FITS", "WHAT BINDS")
HOST_HEAD: Final = ("HOST", "POOL", "FITS", "WHAT BINDS")
BINDING_SHOWN_MAX: Final = 3

app = new_app()


@app.command(
    epilog=examples(
        "numalign capacity --shape cpu=16,memory=64Gi",
        "numalign capacity --shape cpu=16,memory=64Gi,hugepages-1Gi=8Gi,nvidia.com/gpu=1",
        "numalign capacity -f deployment.yaml --hosts",
        "numalign capacity --from fleet.tar.gz --shape cpu=8,memory=16Gi -o json",
    )
)
@unfold
def capacity(
    *,
    ctx: typer.Context,
    shape: Annotated[
        list[str] | None,
        optional("--shape", metavar="AMOUNTS", help="A shape: cpu=16,memory=64Gi. Repeat."),
    ] = None,
    files: Annotated[
        list[str] | None,
        optional("--filename", "-f", metavar="FILE|DIR|-", help="Pods or workloads as shapes."),
    ] = None,
    source: Annotated[
        Path | None,
        optional("--from", metavar="FILE", help="A capture in place of the live cluster."),
    ] = None,
    hosts: Annotated[bool, typer.Option("--hosts", help="A line for each host.")] = False,
    pool_label: Annotated[
        str | None,
        optional("--pool-label", metavar="LABEL", help="The label of hosts that names their pool."),
    ] = None,
    output: Annotated[str, output_option(*FORMATS)] = "table",
    cluster: ClusterOptions,
) -> int:
    """Say how many more pods of a shape fit, by host, pool and fleet.

    Each host is filled by its own managers until it refuses the next pod, so the count is what its
    kubelet would take; equal hosts are filled once. What binds is told too. Hosts that publish no
    placement ('numalign export') are named and not counted. The exit code is 1 if none fits.
    """
    from numalign.apps.cluster_view.fleet import fleet_hosts
    from numalign.cli.cluster.client import from_capture, read_cluster
    from numalign.core.fleet.capacity import capacities

    shapes = _shapes(shape or [], files or [])
    found = from_capture(source) if source else read_cluster(cluster, with_pods=True)
    fleet, silent = fleet_hosts(found.hosts, found.topologies, found.pods_by_host(), pool_label)
    facts = {host.name: host for host in found.hosts}
    if not fleet:
        raise ConfigError(
            f"none of {len(silent)} hosts publishes its placement. Run 'numalign export' on them."
        )
    out = Output.of(ctx)
    counts = {
        name: capacities(fleet, one.pod, partial(_objection, one, facts))
        for name, one in shapes.items()
    }
    if output != "table":
        out.data(output, [_record(name, fleet, silent, own) for name, own in counts.items()])
    else:
        for name, own in counts.items():
            _show(out, name, fleet, own, by_host=hosts)
        for name in (name for name, one in shapes.items() if one.rules is not None):
            out.text(f"{name}: its rules about other pods are not looked at\n")
        if silent:
            shown = ", ".join(silent[:5]) + (", …" if len(silent) > 5 else "")
            out.text(f"not counted, since they publish no placement: {len(silent)} ({shown})\n")
    fits = all(sum(one.count for one in own.values()) for own in counts.values())
    return OK if fits else FAILED


def read_wanted(texts: Sequence[str], files: Sequence[str]) -> list[ClusterPod]:
    """All pods of texts and manifests, each with a uid and a name of its own."""
    from dataclasses import replace

    from numalign.cli.manifests import texts as read_texts
    from numalign.wire.kubernetes.scheduling import pods_of_manifest

    found = [pod for text in texts for pod in _shapes([text], []).values()]
    for place in files:
        for source, data in read_texts(place):
            found += pods_of_manifest(data, source=source, replicas=True)
    names = Counter(one.pod.name for one in found)
    wanted = []
    for i, one in enumerate(found):
        name = one.pod.name if names[one.pod.name] == 1 else f"{one.pod.name} ({i + 1})"
        wanted.append(replace(one, pod=replace(one.pod, uid=f"wanted-{i}", name=name)))
    return wanted


def _shapes(texts: Sequence[str], files: Sequence[str]) -> dict[str, ClusterPod]:
    from numalign.cli.manifests import texts as read_texts
    from numalign.core.cluster.scheduling.constraints import HostRequirements, Toleration
    from numalign.wire.fleet.shapes import shape_of
    from numalign.wire.kubernetes.scheduling import ClusterPod, pods_of_manifest

    # A shape says amounts and nothing else, so no taint keeps it away.
    anywhere = HostRequirements(tolerations=(Toleration(operator="Exists"),))
    found = {text: ClusterPod(shape_of(text), anywhere) for text in texts}
    for place in files:
        for source, data in read_texts(place):
            for one in pods_of_manifest(data, source=source):
                found[f"{one.pod.namespace or 'default'}/{one.pod.name}"] = one
    if not found:
        raise ConfigError("found no shape, expected --shape cpu=16,memory=64Gi or -f FILE")
    return found


def _objection(pod: ClusterPod, facts: Mapping[str, HostFacts], name: str) -> str | None:
    """Why a host is not for a pod, whatever room it has."""
    from numalign.core.cluster.scheduling.constraints import objection

    host = facts.get(name)
    if host is None:
        return None
    if host.is_unschedulable:
        return "closed for new pods (cordoned)"
    return objection(pod.requirements, host) if host.is_ready else "not ready"


def _pools(
    fleet: Sequence[FleetHost], own: Mapping[str, Capacity]
) -> dict[str, tuple[int, int, Counter[str]]]:
    found: dict[str, tuple[int, int, Counter[str]]] = {}
    for host in fleet:
        hosts, count, binding = found.get(host.pool, (0, 0, Counter()))
        binding[own[host.name].binding.words] += 1
        found[host.pool] = (hosts + 1, count + own[host.name].count, binding)
    return dict(sorted(found.items()))


def _words(binding: Counter[str]) -> str:
    ordered = sorted(binding.items(), key=lambda item: (-item[1], item[0]))
    shown = [f"{words} ({count})" for words, count in ordered[:BINDING_SHOWN_MAX]]
    return ", ".join(shown) + (", …" if len(ordered) > BINDING_SHOWN_MAX else "")


def _show(
    out: Output,
    name: str,
    fleet: Sequence[FleetHost],
    own: Mapping[str, Capacity],
    *,
    by_host: bool,
) -> None:
    from numalign.apps.render.columns import columns
    from numalign.apps.render.text import Tone, line

    total = sum(one.count for one in own.values())
    out.lines([line(f"{name}: {total} more on {len(fleet)} hosts", Tone.TITLE)])
    if by_host:
        rows = [
            (h.name, h.pool or "-", str(own[h.name].count), own[h.name].binding.words)
            for h in fleet
        ]
        head = HOST_HEAD
    else:
        pools = _pools(fleet, own)
        rows = [(p or "-", str(n), str(c), _words(b)) for p, (n, c, b) in pools.items()]
        head = HEAD
    right = (2,) if by_host else (1, 2)
    out.lines(columns(head, rows, width=out.table_width, flexible=(3,), right=right, prose=(3,)))


def _record(
    name: str, fleet: Sequence[FleetHost], silent: Sequence[str], own: Mapping[str, Capacity]
) -> dict[str, Any]:
    return {
        "shape": name,
        "fits": sum(one.count for one in own.values()),
        "pools": {
            pool: {"hosts": hosts, "fits": count, "binding": dict(sorted(binding.items()))}
            for pool, (hosts, count, binding) in _pools(fleet, own).items()
        },
        "hosts": [
            {
                "host": host.name,
                "pool": host.pool,
                "fits": own[host.name].count,
                "binding": {
                    "where": own[host.name].binding.where.value,
                    "resources": list(own[host.name].binding.resources),
                    "words": own[host.name].binding.words,
                },
            }
            for host in fleet
        ],
        "notCounted": list(silent),
    }
