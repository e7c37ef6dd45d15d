"""Messages that are well-formed and wrong: the plugin answers each of them, and goes on."""

import asyncio
import os
import random
from contextlib import suppress
from functools import reduce
from operator import or_

from tests.apps.nri.host import policy
from tests.wire.nri.test_garbage import mutated

from numalign.adapters.local.state_files import StateDirectory
from numalign.adapters.nri.cpusets import Cpusets
from numalign.adapters.nri.two_copies import TwoCopies
from numalign.apps.nri import saved
from numalign.apps.nri.driver import Driver
from numalign.apps.nri.metrics import NriMetrics
from numalign.apps.nri.model import NriState
from numalign.core.errors import WireError
from numalign.wire.nri._generated import nri_v1alpha1_pb2 as pb

# More in a longer run: NUMALIGN_FRAMES=100000.
FRAMES = int(os.environ.get("NUMALIGN_FRAMES", "2000"))
ANNOTATIONS = (
    {"numalign.io/policy": "restricted", "numalign.io/scope": "pod"},
    {"numalign.io/exclusive": "db", "numalign.io/full-cores": "true"},
    {"numalign.io/memory": "interleave"},
    {"numalign.io/containers": "init/a:cpu=1;sidecar/log:cpu=100m;app/db:cpu=2,memory=1Gi"},
    {},
)
TEXTS = (
    *(
        "",
        "0",
        "1-",
        "0-99999999999",
        "\0",
        "../..",
        "a" * 5000,
        "\u20ac\n",
        "db,db",
        ",",
        ";",
        "/",
    ),
    *("-1", "1,9", "kubepods.slice:cri-containerd:x", "app/db:cpu=1e30", "app/db:cpu=-1", "p1"),
    *("app/db:cpu=2;app/db:cpu=2", "init/db:cpu=1", "app/db:memory=9E", "2MB", "99999999999GB"),
)
NUMBERS = (0, 1, -1, 2, 1000, 262_144, 2**31 - 1, 2**32 - 1, 2**63 - 1, 2**64 - 1, -(2**63))


def messages(rng):
    """One request of each kind, about one of a few pods."""
    number = rng.randrange(6)
    uid = f"{number}-0000"
    pod = pb.PodSandbox(id=f"s{number}", uid=uid, name=f"p{number}", namespace="n", pid=7)
    pod.annotations.update(rng.choice(ANNOTATIONS))
    pod.linux.cgroup_parent = f"/kubepods/{rng.choice(('', 'burstable/'))}pod{uid}"
    one = pb.Container(id=f"c{number}", pod_sandbox_id=pod.id, name="db", state=rng.randrange(5))
    resources = one.linux.resources
    resources.cpu.shares.value = rng.choice((2, 1024, 2048))
    resources.cpu.quota.value, resources.cpu.period.value = 100_000, 100_000
    resources.cpu.cpus, resources.cpu.mems = rng.choice((("1,9", "0"), ("0-15", "0-1"), ("", "")))
    resources.memory.limit.value = 1 << 26
    resources.hugepage_limits.add(page_size="2MB", limit=1 << 21)
    one.linux.cgroups_path = f"{pod.linux.cgroup_parent}/c{number}"
    return [
        ("CreateContainer", pb.CreateContainerRequest(pod=pod, container=one)),
        ("UpdateContainer", pb.UpdateContainerRequest(pod=pod, container=one)),
        ("StopContainer", pb.PodEvent(pod=pod, container=one)),
        ("Synchronize", pb.SynchronizeRequest(pods=[pod], containers=[one])),
        ("StateChange", pb.StateChangeEvent(event=rng.randrange(14), pod=pod, container=one)),
        ("RunPodSandbox", pb.PodEvent(pod=pod)),
        ("StopPodSandbox", pb.PodEvent(pod=pod)),
        ("RemoveContainer", pb.PodEvent(pod=pod, container=one)),
        ("Configure", pb.ConfigureRequest(NRI_version="v0.12.1", runtime_name="r")),
    ]


def scalars(message):
    """Every number and text in a message, as the message that has it and its field."""
    for field, value in message.ListFields():
        if field.message_type is None:
            yield message, field
        elif not field.message_type.GetOptions().map_entry:
            for part in value if field.is_repeated else [value]:
                yield from scalars(part)


def bent(message, rng):
    """The message with wrong content, which can be read."""
    for _ in range(rng.randint(1, 3)):
        found = list(scalars(message))
        if not found:
            return message
        part, field = rng.choice(found)
        if field.cpp_type == field.CPPTYPE_STRING:
            setattr(part, field.name, rng.choice(TEXTS))
        elif field.cpp_type == field.CPPTYPE_BOOL:
            setattr(part, field.name, not getattr(part, field.name))
        else:
            with suppress(ValueError):  # some have no sign, some half the width
                setattr(part, field.name, rng.choice(NUMBERS))
    if hasattr(message, "pod") and rng.random() < 0.3:
        names = ("policy", "scope", "exclusive", "full-cores", "memory", "containers", "x")
        message.pod.annotations[f"numalign.io/{rng.choice(names)}"] = rng.choice(TEXTS)
    return message


def test_wrong_messages_are_answered_and_nothing_is_given_twice(tmp_path, monkeypatch):
    # The disk is not what is tried here.
    monkeypatch.setattr(os, "fdatasync", lambda _: None)
    monkeypatch.setattr(os, "fsync", lambda _: None)
    found = policy()
    file = TwoCopies(tmp_path / saved.FILE_NAME)
    driver = Driver(
        NriState(found, saved.empty(found.host)),
        file,
        StateDirectory(tmp_path),
        NriMetrics(),
        cpusets=Cpusets(tmp_path),
    )
    rng = random.Random(int(os.environ.get("NUMALIGN_SEED", "17")))
    counts = {"answered": 0, "refused": 0, "unread": 0}

    async def work():
        await driver._handle("Synchronize", b"")
        for _ in range(FRAMES):
            method, message = rng.choice(messages(rng))
            kind = rng.random()
            payload = (bent(message, rng) if kind < 0.5 else message).SerializeToString()
            payload = mutated(payload, rng) if kind > 0.7 else payload
            try:
                reply = await driver._handle(method, payload)
                counts["refused" if reply.code else "answered"] += 1
            except WireError:  # the connection answers with it
                counts["unread"] += 1
            # Of one pod, an init container hands its CPUs on.
            pods = driver.state.host.cpu.entries.values()
            held = [reduce(or_, pod.values(), 0) for pod in pods]
            assert reduce(or_, held, 0).bit_count() == sum(mask.bit_count() for mask in held)
        driver.stop()

    asyncio.run(work())
    file.close()
    assert min(counts.values()) > FRAMES // 50, counts
    again = saved.load(TwoCopies(file.path).read(), found.host)
    assert again.host.cpu == driver.state.host.cpu
