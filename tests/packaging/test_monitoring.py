"""Dashboards, alert rules and the page about metrics speak of metrics that are there."""

from __future__ import annotations

import json
import re
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import yaml
from tests.apps.agent.processes import AgentProcess
from tests.packaging import dashboards, metrics_reference
from tests.packaging.dashboards import BOARDS, MONITORING
from tests.paths import DOCS
from tests.real import prometheus as real
from tests.real.kept import MissingError

from numalign.apps.exporter.metrics import ExporterMetrics
from numalign.apps.nri.metrics import NriMetrics
from numalign.apps.redeploy.metrics import RedeployMetrics
from numalign.apps.scheduler.metrics import SchedulerMetrics
from numalign.apps.scheduler.model import State
from numalign.core.cluster.scheduling.fleet import Fleet
from numalign.wire.fleet import shapes

ALERTS = MONITORING / "alerts.yaml"
RUNBOOK = DOCS / "runbook.md"
OURS = re.compile(r"\b(?:numalign|kubelet)_[a-z0-9_]+")


def rules():
    return [
        rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]
    ]


def known():
    """Every name that /metrics has."""
    found = set()
    for one in (one for metrics in metrics_reference.programs().values() for one in metrics):
        found.add(one.name)
        if one.kind == "histogram":
            found |= {f"{one.name}_bucket", f"{one.name}_sum", f"{one.name}_count"}
    return found


def test_the_page_about_metrics_is_what_the_code_has():
    found = metrics_reference.PAGE.read_text()
    assert found == metrics_reference.page(), "run python -m tests.packaging.metrics_reference"


@pytest.mark.parametrize("name", BOARDS)
def test_the_dashboards_are_what_their_source_says(name):
    found = (MONITORING / f"dashboard-{name}.json").read_text()
    assert found == dashboards.text(name), "run python -m tests.packaging.dashboards"
    panels = json.loads(found)["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert len({(p["gridPos"]["x"], p["gridPos"]["y"]) for p in panels}) == len(panels)


def test_every_query_asks_for_metrics_that_are_there():
    names = known()
    asked = {**dashboards.queries(), **{rule["alert"]: rule["expr"] for rule in rules()}}
    unknown = {where: set(OURS.findall(query)) - names for where, query in asked.items()}
    assert {where: found for where, found in unknown.items() if found} == {}


def test_every_alert_has_its_place_in_the_runbook():
    headings = re.findall(r"^## (\w+)$", RUNBOOK.read_text(), re.M)
    assert [rule["alert"] for rule in rules()] == headings
    for rule in rules():
        assert rule["annotations"]["runbook_url"] == f"docs/runbook.md#{rule['alert'].lower()}"
        assert rule["labels"]["severity"] in {"info", "warning", "critical"}


class Answers(BaseHTTPRequestHandler):
    """What the programs other than the agent answer; their own code writes it."""

    def do_GET(self):
        body = self.server.texts[self.path]
        self.send_response(200)
        self.send_header("content-type", "text/plain; version=0.0.4")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def programs():
    """The loopback address of a server with the metrics of each program at its name."""
    mix = shapes.reference_mix(b"a: {cpu: 1, memory: 1Gi}", "shapes")
    scheduler, exporter = SchedulerMetrics(), ExporterMetrics()
    scheduler.follow_capacity(mix, lambda _: None)
    exporter.follow_capacity(mix)
    scheduler.leading.set(1)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    server.texts = {
        "/nri": NriMetrics().text(),
        "/export": exporter.text(),
        "/redeploy": RedeployMetrics().text(),
        "/scheduler": scheduler.text(State(Fleet())),
    }
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"127.0.0.1:{server.server_port}", list(server.texts)
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.e2e
def test_a_real_prometheus_takes_every_rule_and_answers_every_query(tmp_path, programs):
    try:
        tools = real.programs()
    except MissingError as missing:
        pytest.skip(str(missing))
    subprocess.run([tools / "promtool", "check", "rules", ALERTS], check=True)
    address, paths = programs
    with AgentProcess(arguments=["--listen", "127.0.0.1:0"]) as agent:
        targets = [
            ("agent", agent.tcp().removeprefix("http://"), "/metrics"),
            *((p[1:], address, p) for p in paths),
        ]
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(ALERTS)],
            "scrape_configs": [
                {
                    "job_name": f"numalign-{name}",
                    "metrics_path": path,
                    "static_configs": [{"targets": [target]}],
                }
                for name, target, path in targets
            ],
        }
        with real.prometheus(tmp_path, yaml.safe_dump(config)) as found:
            until = time.monotonic() + 60
            while len(found.ask("query", query="up == 1")["result"]) < len(targets):
                assert time.monotonic() < until, found.ask("targets")
                time.sleep(0.5)
            time.sleep(3)  # rates need two samples
            without = [
                where
                for where, query in dashboards.queries().items()
                if not found.ask("query", query=query)["result"]
            ]
            groups = found.ask("rules")["groups"]
    health = {rule["name"]: rule["health"] for group in groups for rule in group["rules"]}
    assert health == {rule["alert"]: "ok" for rule in rules()}
    # Nothing has happened: those that count by label have no series yet.
    counted_by_label = ("{{reason}}", "{{result}}", "{{kind}}", "{{method}}", "{{verb}}")
    silent = {where for where in without if not any(label in where for label in counted_by_label)}
    assert silent == {"fleet: Publications that failed: {{instance}}"}
