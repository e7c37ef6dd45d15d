"""Writes the dashboards of packaging/monitoring: ``python -m tests.packaging.dashboards``.

What is told in a panel is decided here; Grafana's long form of it is made from that.
"""

from __future__ import annotations

import json
import sys
from typing import Any, Final, NamedTuple

from tests.paths import CHECKOUT

MONITORING: Final = CHECKOUT / "packaging" / "monitoring"
SCHEMA_VERSION: Final = 39  # of Grafana 10.4 and newer
_HALF, _HEIGHT = 12, 8
_SOURCE: Final = {"type": "prometheus", "uid": "${source}"}


class Panel(NamedTuple):
    title: str
    text: str  # what it means, for whoever points at it
    queries: dict[str, str]  # legend -> query
    unit: str = "short"
    kind: str = "timeseries"


RATE: Final = "$__rate_interval"


def _quantiles(metric: str, chosen: str, by: str = "") -> dict[str, str]:
    labels = f"le, {by}" if by else "le"
    name = f" {{{{{by}}}}}" if by else ""
    return {
        f"{legend}{name}": f"histogram_quantile({share}, sum by ({labels}) "
        f"(rate({metric}_bucket{{{chosen}}}[{RATE}])))"
        for legend, share in (("median", 0.5), ("99th percentile", 0.99))
    }


HOST: Final = 'instance=~"$instance"'
BOARDS: Final[dict[str, tuple[str, str, list[Panel]]]] = {
    "host": (
        "numalign / host",
        "numalign_pods or numalign_nri_connected or numalign_export_scans_total",
        [
            Panel("Problems", "What /readyz tells; 0 is well.",
                  {"{{instance}}": f"numalign_problems{{{HOST}}}"}, kind="stat"),
            Panel("Pods", "By phase.", {"{{phase}}": f"sum by (phase) (numalign_pods{{{HOST}}})"}),
            Panel("CPUs given to containers", "By NUMA node.",
                  {"node {{numa_node}}": "sum by (numa_node) "
                   f"(kubelet_cpu_manager_allocation_per_numa{{{HOST}}})"}),
            Panel("Shared pool", "CPUs in which everybody else runs.",
                  {"agent": f"kubelet_cpu_manager_shared_pool_size_millicores{{{HOST}}} / 1000",
                   "NRI plugin": f"numalign_nri_shared_cpus{{{HOST}}}"}),
            Panel("Refused pods", "Each is explained: numalign describe pod NAME.",
                  {"{{reason}}": "sum by (reason) (increase(numalign_decisions_total"
                   f'{{outcome="rejected", {HOST}}}[{RATE}]))'}),
            Panel("Delay of the agent's loop", "All answers come that much later.",
                  _quantiles("numalign_loop_delay_seconds", HOST), "s"),
            Panel("Manifests that are not taken", "numalign get manifests says why.",
                  {"{{state}}": f'numalign_manifests{{state!="taken", {HOST}}}'}),
            Panel("Answers of the NRI plugin", "A container waits for them.",
                  _quantiles("numalign_nri_request_seconds", HOST, "method"), "s"),
            Panel("Containers of the NRI plugin", "Refused by reason, and those that run unplaced.",
                  {"refused: {{reason}}": "sum by (reason) (increase("
                   f"numalign_nri_containers_refused_total{{{HOST}}}[{RATE}]))",
                   "unplaced": f"numalign_nri_unplaced{{{HOST}}}"}),
            Panel("Age of what the exporter published", "Schedulers decide on what is published.",
                  {"{{instance}}":
                   f"time() - numalign_export_last_success_timestamp_seconds{{{HOST}}}"}, "s"),
        ],
    ),
    "fleet": (
        "numalign / fleet",
        "numalign_export_scans_total or numalign_scheduler_leading",
        [
            Panel("Hosts that publish", "Topologies known to the scheduler, beside all hosts.",
                  {"{{kind}}": "max by (kind) (numalign_scheduler_known)"}),
            Panel("How many more pods fit", "By reference shape, as the kubelets would decide.",
                  {"{{shape}}": "max by (shape) "
                   '(numalign_capacity_pods and on (instance) numalign_scheduler_leading == 1)'}),
            Panel("F_numa", "Idle, and of no use to the pods that are expected.",
                  {"{{resource}}": "max by (resource) (numalign_capacity_useless and on (instance) "
                   "numalign_scheduler_leading == 1)"}),
            Panel("Stranded", "Idle on NUMA nodes where no reference shape could sit.",
                  {"{{resource}}": "max by (resource) (numalign_capacity_stranded "
                   "and on (instance) numalign_scheduler_leading == 1)"}),
            Panel("Refusals by kubelets", "By reason; a scheduler that sees NUMA nodes has none.",
                  {"{{reason}}": "sum by (reason) "
                   f"(increase(numalign_redeploy_refusals_total[{RATE}]))"}),
            Panel("Refused pods and pods at the gate", "What waits for the redeploy loop.",
                  {"refused": "max(numalign_redeploy_refused_pods)",
                   "waiting": "max(numalign_redeploy_waiting_pods)",
                   "pairs to avoid": "max(numalign_redeploy_avoided_pairs)"}),
            Panel("Publications that failed", "By exporter.",
                  {"{{instance}}": "sum by (instance) (increase("
                   f'numalign_export_publishes_total{{result="failed"}}[{RATE}])) > 0'}),
            Panel("Hosts without an exact placement", "Too large to be published, or not known.",
                  {"hosts": "count(numalign_export_placement_bytes == 0) or vector(0)"}),
        ],
    ),
    "scheduler": (
        "numalign / scheduler",
        "numalign_scheduler_leading",
        [
            Panel("Leader", "Exactly one replica acts.",
                  {"{{instance}}": f"numalign_scheduler_leading{{{HOST}}}"}, kind="stat"),
            Panel("Attempts", "By what came of them.",
                  {"{{result}}": "sum by (result) "
                   f"(rate(numalign_scheduler_attempts_total{{{HOST}}}[{RATE}]))"}, "ops"),
            Panel("Pods without a host", "no_host_fits: kubectl numa explain pod NAME says why.",
                  {"{{state}}": "max by (state) "
                   f"(numalign_scheduler_pods_waiting{{{HOST}}})"}),
            Panel("Time of a decision", "For one pod, over all hosts.",
                  _quantiles("numalign_scheduler_decision_seconds", HOST), "s"),
            Panel("Time of a binding", "Of the API server.",
                  _quantiles("numalign_scheduler_bind_seconds", HOST), "s"),
            Panel("Answers to a kube-scheduler", "With --extender.",
                  _quantiles("numalign_scheduler_extender_seconds", HOST, "verb"), "s"),
            Panel("Preemptions", "By what came of them.",
                  {"{{result}}": "sum by (result) (increase("
                   f"numalign_scheduler_preemptions_total{{{HOST}}}[{RATE}]))"}),
            Panel("Not readable, not written", "Objects passed over, events dropped.",
                  {"unreadable {{kind}}": "sum by (kind) (increase("
                   f"numalign_scheduler_objects_unreadable_total{{{HOST}}}[{RATE}]))",
                   "events dropped": "sum(increase("
                   f"numalign_scheduler_events_dropped_total{{{HOST}}}[{RATE}]))"}),
        ],
    ),
}  # fmt: skip


def dashboard(name: str) -> dict[str, Any]:
    """One dashboard in Grafana's JSON."""
    title, instances, panels = BOARDS[name]
    source = {"name": "source", "type": "datasource", "query": "prometheus", "label": "Prometheus"}
    instance = {
        "name": "instance",
        "type": "query",
        "label": "instance",
        "datasource": _SOURCE,
        "query": {"query": f"query_result({instances})", "refId": "instance"},
        "regex": '/instance="([^"]+)"/',
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
    }
    return {
        "uid": f"numalign-{name}",
        "title": title,
        "tags": ["numalign"],
        "schemaVersion": SCHEMA_VERSION,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": [source, instance]},
        "panels": [_panel(at, panel) for at, panel in enumerate(panels)],
    }


def _panel(at: int, panel: Panel) -> dict[str, Any]:
    place = {"x": at % 2 * _HALF, "y": at // 2 * _HEIGHT, "w": _HALF, "h": _HEIGHT}
    return {
        "id": at + 1,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.text,
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"legend": {"showLegend": True, "displayMode": "list", "placement": "bottom"}}
        if panel.kind == "timeseries"
        else {"reduceOptions": {"calcs": ["lastNotNull"]}},
        "targets": [
            {"refId": chr(ord("A") + n), "datasource": _SOURCE, "expr": query, "legendFormat": name}
            for n, (name, query) in enumerate(panel.queries.items())
        ],
    }


def text(name: str) -> str:
    """One dashboard as it is in its file."""
    return json.dumps(dashboard(name), indent=1) + "\n"


def queries() -> dict[str, str]:
    """Every query of every dashboard, by where it is, with the variables filled in."""
    found = {}
    for name, (_, instances, panels) in BOARDS.items():
        found[f"{name}: instances"] = instances
        for panel in panels:
            for legend, query in panel.queries.items():
                filled = query.replace(RATE, "5m").replace("$instance", ".*")
                found[f"{name}: {panel.title}: {legend}"] = filled
    return found


def main() -> int:
    """Writes all of them."""
    for name in BOARDS:
        (MONITORING / f"dashboard-{name}.json").write_text(text(name))
    sys.stdout.write(f"wrote {len(BOARDS)} dashboards\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
