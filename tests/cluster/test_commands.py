"""What people ask about a cluster, on the real API server."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys

import pytest
from tests.cluster import work
from tests.cluster.fleet import HostPlan
from tests.cluster.test_scheduler import fleet_on

pytestmark = pytest.mark.e2e


@contextlib.asynccontextmanager
async def four_pods(plane):
    """A host with four NUMA nodes of four CPUs, and on each a pod with three; a fifth waits."""
    plan = HostPlan("numa-4", "1s:4n:4c:1t,mem=8Gi", "single-numa-node")
    async with fleet_on(plane, [plan]) as fleet:
        for number in range(4):
            plane.apply(work.pod(f"p{number}", "numa-4"))
        plane.apply(work.pod("waiting", schedulerName="nobody"))
        while fleet.reasons[""] < 4:
            await asyncio.sleep(0.1)
        await fleet.settled()
        yield fleet


def called(plane, *arguments: str, stdin: str = "") -> tuple[int, str]:
    command = [sys.executable, "-m", "numalign", *arguments, "--kubeconfig", str(plane.kubeconfig)]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1, 2), done.stderr
    assert "bug" not in done.stderr, done.stderr
    return done.returncode, done.stdout or done.stderr


def test_hosts_pods_fit_and_explain_say_what_is_there(plane):
    async def story():
        async with four_pods(plane):
            await asyncio.to_thread(asked)

    def asked():
        code, text = called(plane, "hosts")
        assert code == 0
        assert "single-numa-node" in text
        assert "1 of 4" in text
        _, text = called(plane, "hosts", "-o", "json")
        (host,) = json.loads(text)
        assert [n["resources"]["cpu"]["available"] for n in host["nodes"]] == [0, 1, 1, 1]
        assert host["largest"]["cpu"] == 1
        code, text = called(plane, "hosts", "nowhere")
        assert (code, text) == (
            2,
            "error: found no host 'nowhere' in the cluster. See 'numalign hosts'.\n",
        )

        _, text = called(plane, "pods", "-A", "-o", "json")
        places = {p["pod"]: (p["numaNodes"], p["cpus"]) for p in json.loads(text)}
        assert places == {
            "p0": ([0], "1-3"),
            "p1": ([1], "4-6"),
            "p2": ([2], "8-10"),
            "p3": ([3], "12-14"),
        }
        assert "12-14" in called(plane, "pods")[1]

        code, text = called(plane, "fit", "-f", "-", stdin=work.pod("new"))
        assert code == 1
        assert "too few CPUs in one NUMA node (has 1 of 3 free)" in " ".join(text.split())
        code, text = called(plane, "fit", "-f", "-", "-o", "json", stdin=work.pod("new", cpu="1"))
        assert code == 0
        assert json.loads(text)[0]["hosts"][0]["fits"] is True

        code, text = called(plane, "explain", "pod", "waiting")
        assert code == 1
        assert "waits: of 1 host: 1 too few CPUs in one NUMA node" in text
        code, text = called(plane, "explain", "pod", "p1", "-o", "json")
        assert code == 0
        assert json.loads(text)[0]["status"] == "running on numa-4"
        code, text = called(plane, "explain", "pod", "nobody")
        assert code == 2

    asyncio.run(story())
