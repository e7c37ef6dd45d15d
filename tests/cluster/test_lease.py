"""Leader election on a real API server: one acts, and another one when it is gone."""

from __future__ import annotations

import asyncio
import json

import pytest

from numalign.adapters.kubernetes.api_server import ApiServer
from numalign.adapters.kubernetes.lease import Election

pytestmark = pytest.mark.e2e


def election(api, identity, changes, name):
    return Election(
        api,
        namespace="default",
        name=name,
        identity=identity,
        on_change=lambda leading: changes.append((identity, leading)),
        duration_seconds=3.0,
        renew_seconds_max=2.0,
        retry_seconds=0.3,
    )


async def true_within(is_true, seconds):
    async with asyncio.timeout(seconds):
        while not is_true():
            await asyncio.sleep(0.05)


def lease(plane, name):
    return json.loads(plane.kubectl("get", "lease", name, "-o", "json"))["spec"]


def test_the_second_takes_over_at_once_from_one_that_ends_and_later_from_one_that_dies(plane):
    async def story():
        changes = []
        async with ApiServer.connect(plane.kubeconfig) as api:
            one = election(api, "one", changes, "turns")
            two = election(api, "two", changes, "turns")
            first = asyncio.create_task(one.run())
            await true_within(lambda: one.is_leading, 5)
            second = asyncio.create_task(two.run())
            await asyncio.sleep(4)  # longer than the lease lasts without being renewed
            assert (one.is_leading, two.is_leading) == (True, False)
            assert lease(plane, "turns")["holderIdentity"] == "one"
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)
            await true_within(lambda: two.is_leading, 2)  # given back, not run out
            # A replica that dies gives nothing back.
            third = election(api, "three", changes, "turns")
            two._give_back = lambda: asyncio.sleep(0)
            second.cancel()
            await asyncio.gather(second, return_exceptions=True)
            begun = asyncio.get_running_loop().time()
            task = asyncio.create_task(third.run())
            await true_within(lambda: third.is_leading, 8)
            waited = asyncio.get_running_loop().time() - begun
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        return changes, waited, lease(plane, "turns")

    changes, waited, spec = asyncio.run(story())
    assert changes[:3] == [("one", True), ("one", False), ("two", True)]
    assert waited >= 2.5
    assert spec["holderIdentity"] == ""
    assert spec["leaseTransitions"] == 2


def test_who_cannot_renew_stops_before_another_one_could_begin(plane):
    async def story():
        changes = []
        loop = asyncio.get_running_loop()
        async with ApiServer.connect(plane.kubeconfig) as api:
            one = election(api, "one", changes, "silence")
            task = asyncio.create_task(one.run())
            await true_within(lambda: one.is_leading, 5)
            await asyncio.to_thread(plane.stop_api_server)
            begun = loop.time()
            await true_within(lambda: not one.is_leading, 3.0)
            stopped = loop.time() - begun
            await asyncio.to_thread(plane.start_api_server)
            await true_within(lambda: one.is_leading, 15)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            return stopped

    assert asyncio.run(story()) < 3.0
