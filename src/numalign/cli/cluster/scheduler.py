"""``numalign scheduler``: place the pods of a cluster so that no kubelet refuses them."""

# ruff: noqa: PLC0415 - a command loads what it needs when it runs
from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from numalign.cli.app import examples, new_app
from numalign.cli.options import (
    AllowedHostOption,
    ClusterOptions,
    ShapesOption,
    TlsCertOption,
    TlsKeyOption,
    optional,
    unfold,
)

app = new_app()


@dataclass(frozen=True, slots=True)
class Asked:
    is_extender: Annotated[
        bool,
        typer.Option("--extender", help="Answer a kube-scheduler, as an extender of it."),
    ] = False
    is_standalone: Annotated[
        bool,
        typer.Option("--standalone", help="Schedule the pods of a schedulerName of our own."),
    ] = False
    is_pre_placing: Annotated[
        bool,
        typer.Option(
            "--pre-place",
            help="Find the hosts of pods that carry our scheduling gate (numalign.io/pre-place); "
            "the kube-scheduler binds them.",
        ),
    ] = False
    scheduler_name: Annotated[
        str, typer.Option(help="Standalone: the schedulerName of the pods that are ours.")
    ] = "numalign"
    level: Annotated[
        str,
        typer.Option(
            help="exact: what the kubelet of each host will decide, where it publishes its "
            "placement; upstream: the rules of NodeResourceTopologyMatch."
        ),
    ] = "exact"
    strategy: Annotated[
        str,
        typer.Option(
            help="How hosts are scored: LeastAllocated, MostAllocated, BalancedAllocation or "
            "LeastNUMANodes."
        ),
    ] = "LeastAllocated"
    packing: Annotated[
        str,
        typer.Option(
            help="Score by free NUMA nodes instead: fragmentation (least becomes useless to the "
            "mix of --shapes), keep-whole (large shapes stay free), spread, or none."
        ),
    ] = "none"
    shapes: ShapesOption = None
    is_strict: Annotated[
        bool, typer.Option("--strict", help="Refuse hosts that publish nothing about NUMA.")
    ] = False
    waits_for_publication: Annotated[
        bool,
        typer.Option(
            "--patient",
            help="Give a host its next pinned pod only when it has published the last one.",
        ),
    ] = False
    is_asked_thrice: Annotated[
        bool,
        typer.Option(
            "--three-calls",
            help="Extender: answer with all hosts that would do, score and bind, instead of "
            "with the best host, which is kept for the pod.",
        ),
    ] = False
    score_max: Annotated[
        int, typer.Option(min=1, max=100, help="Extender: the highest score that is given.")
    ] = 10
    open_gate_after: Annotated[
        float | None,
        typer.Option(
            min=1.0,
            help="Pre-place: open the gate of a pod about which nobody has decided for so many "
            "seconds; without it such pods wait.",
        ),
    ] = None
    makes_room: Annotated[
        bool,
        typer.Option(
            "--preemption/--no-preemption",
            help="Standalone and pre-place: evict pods of lower priority, within their disruption "
            "budgets, for one that fits nowhere.",
        ),
    ] = True
    listen: Annotated[
        str, typer.Option("--listen", help="Address of the verbs, health and metrics; '' for none.")
    ] = "127.0.0.1:8423"
    probes_listen: Annotated[
        str,
        typer.Option(
            "--probes-listen",
            help="Another address, for probes and metrics only; other hosts may reach it.",
        ),
    ] = ""
    page_listen: Annotated[
        str | None,
        optional(
            "--page-listen",
            metavar="ADDRESS",
            help="Address of the page with all hosts, on loopback; '' for none. Without it: "
            "127.0.0.1:8426, if that is free.",
        ),
    ] = None
    tls_cert: TlsCertOption = None
    tls_key: TlsKeyOption = None
    tls_client_ca: Annotated[
        Path | None,
        optional(
            "--tls-client-ca",
            help="Clients must have a certificate of this authority. Needed to listen on "
            "more than loopback.",
        ),
    ] = None
    allowed_hosts: AllowedHostOption = None
    is_electing: Annotated[
        bool,
        typer.Option(
            "--leader-elect/--no-leader-elect",
            help="Standalone and pre-place: only the replica that holds the lease acts.",
        ),
    ] = True
    lease: Annotated[
        str, typer.Option("--lease", help="Standalone and pre-place: namespace/name of the lease.")
    ] = "kube-system/numalign-scheduler"


@app.command(
    epilog=examples(
        "numalign scheduler --pre-place",
        "numalign scheduler --extender",
        "numalign scheduler --standalone --scheduler-name numalign",
        "numalign scheduler --extender --level upstream --strategy MostAllocated",
    )
)
@unfold
def scheduler(*, asked: Asked, cluster: ClusterOptions) -> int:
    """Place the pods of a cluster so that no kubelet refuses them.

    With --pre-place it finds the hosts of pods that wait at its scheduling gate, and an unchanged
    kube-scheduler binds them there. As an extender it is asked by a kube-scheduler about every pod.
    Standalone it is a second scheduler for pods with its schedulerName. Hosts publish what they
    have with 'numalign export'.
    """
    from numalign.cli.cluster.scheduler_process import run_scheduler

    return run_scheduler(asked, cluster)
