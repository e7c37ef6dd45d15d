"""Probes and metrics of components without an API of their own."""

from __future__ import annotations

from starlette.testclient import TestClient

from numalign.web.probes import application


class Component:
    def __init__(self, *problems):
        self._problems = list(problems)

    def problems(self):
        return self._problems

    def metrics_text(self):
        return b"numalign_x 1\n"


def asked(path, *problems, method="GET"):
    with TestClient(application(Component(*problems))) as client:
        return client.request(method, path)


def test_it_is_alive_whatever_happens_and_ready_without_problems():
    assert asked("/healthz", "broken").status_code == 200
    assert asked("/readyz").json() == {"status": "ok", "problems": []}
    broken = asked("/readyz", "no socket")
    assert (broken.status_code, broken.json()["problems"]) == (503, ["no socket"])


def test_metrics_are_plain_text():
    found = asked("/metrics")
    assert found.text == "numalign_x 1\n"
    assert found.headers["content-type"].startswith("text/plain; version=0.0.4")


def test_nothing_can_be_changed():
    for path in ("/healthz", "/readyz", "/metrics"):
        assert asked(path, method="POST").status_code == 405
    assert asked("/other").status_code == 404
