"""Sequences of pods, deletions and restarts: some by hand, then as many as asked for by a seed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

Step = dict[str, Any]
GPU: Final = "vendor.com/gpu"
NIC: Final = "vendor.com/nic"
IMAGE: Final = "localhost/busybox:1"
PODS_MAX: Final = 7  # running at the same time, by what an emulated kernel can carry


def container(
    name: str, cpu: str = "", memory: str = "", *, is_burstable: bool = False
) -> dict[str, Any]:
    """A container that sleeps; what it asks for is both request and limit, if not burstable."""
    asked = {key: value for key, value in (("cpu", cpu), ("memory", memory)) if value}
    resources: dict[str, Any] = {}
    if is_burstable:
        limits = {key: value for key, value in asked.items() if key != "cpu"}
        resources = {"requests": asked, "limits": limits}
    elif asked:
        resources = {"requests": asked, "limits": asked}
    return {
        "name": name,
        "image": IMAGE,
        "imagePullPolicy": "Never",
        "command": ["sleep", "100000"],
        "resources": resources,
    }


def with_devices(one: dict[str, Any], resource: str, count: int) -> dict[str, Any]:
    """The same container with devices."""
    amounts = {**one["resources"]["limits"], resource: str(count)}
    return {**one, "resources": {"requests": amounts, "limits": amounts}}


def with_pages(one: dict[str, Any], mebibytes: int) -> dict[str, Any]:
    """The same container with huge pages."""
    amounts = {**one["resources"]["limits"], "hugepages-2Mi": f"{mebibytes}Mi"}
    return {**one, "resources": {"requests": amounts, "limits": amounts}}


def init(one: dict[str, Any]) -> dict[str, Any]:
    """The same container as an init container that ends at once."""
    return {**one, "command": ["true"]}


def sidecar(one: dict[str, Any]) -> dict[str, Any]:
    """The same container as a sidecar."""
    return {**one, "restartPolicy": "Always"}


def pod(
    number: int, containers: Sequence[Mapping[str, Any]], inits: Sequence[Mapping[str, Any]] = ()
) -> Step:
    """The step that applies a pod; number gives name and uid."""
    spec: dict[str, Any] = {
        "hostNetwork": True,
        "terminationGracePeriodSeconds": 1,
        "containers": list(containers),
    }
    if inits:
        spec["initContainers"] = list(inits)
    meta = {
        "name": f"p{number}",
        "namespace": "default",
        "uid": f"{number:08d}-0000-4000-8000-000000000000",
    }
    return {"apply": {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}}


def by_hand() -> list[Step]:
    """One of each kind, refusals, a restart, and pods that go while the kubelet is stopped."""
    return [
        pod(1, [container("c", "2", "48Mi")]),
        pod(2, [container("c")]),  # BestEffort
        pod(3, [container("c", "500m", "32Mi", is_burstable=True)]),
        pod(4, [container("c", "1500m", "40000001")]),  # no whole page
        pod(5, [container("a", "2", "32Mi"), with_devices(container("b", "2", "16Mi"), GPU, 1)]),
        pod(6, [container("c", "2", "64Mi")], [init(container("i", "2", "32Mi"))]),
        pod(7, [container("c", "40", "16Mi")]),  # refused
        {"delete": "p7"},
        pod(8, [container("c", "2", "32Mi")], [sidecar(container("s", "2", "16Mi"))]),
        {"delete": "p1"},
        pod(9, [with_pages(container("c", "2", "32Mi"), 8)]),
        {"restart": True},
        pod(10, [with_devices(container("c", "2", "32Mi"), NIC, 2)]),
        {"delete": "p5"},
        {"stop": True},
        {"delete": "p3"},
        {"delete": "p6"},
        {"start": True},
        pod(11, [container("c", "4", "48Mi")]),
        {"delete": "p2"},
        {"delete": "p8"},
    ]


class Drawn:
    """Steps drawn at random that know what should be running."""

    def __init__(self, seed: str, first: int, there: Sequence[str]) -> None:
        self._random = random.Random(seed)
        self._number = first
        self.there = list(there)

    def steps(self, count: int) -> Iterator[Step]:
        """So many steps, with one restart after two thirds of them."""
        for number in range(count):
            if number == count * 2 // 3:
                yield {"restart": True}
            elif len(self.there) >= PODS_MAX or (self.there and self._random.random() < 0.3):
                name = self._random.choice(self.there)
                self.there.remove(name)
                yield {"delete": name}
            else:
                step = pod(self._number, *self._content())
                self.there.append(f"p{self._number}")
                self._number += 1
                yield step

    def _content(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        one = self._guaranteed
        match self._random.choices(
            ("one", "two", "init", "sidecar", "pages", "device", "shared", "burst", "none", "big"),
            weights=(5, 2, 2, 2, 2, 3, 2, 2, 1, 3),
        )[0]:
            case "two":
                return [one("a"), self._maybe_device(one("b"))], []
            case "init":
                return [one("c")], [init(one("i"))]
            case "sidecar":
                return [one("c")], [sidecar(one("s"))]
            case "pages":
                return [with_pages(one("c"), self._random.choice((4, 16, 32, 60)))], []
            case "device":
                return [self._maybe_device(one("c"), always=True)], []
            case "shared":
                return [container("c", "1500m", "32Mi")], []
            case "burst":
                return [container("c", "250m", "24Mi", is_burstable=True)], []
            case "none":
                return [container("c")], []
            case "big":
                cpus = self._random.choice((5, 6, 8))
                return [container("c", str(cpus), self._memory())], []
            case _:
                return [one("c")], []

    def _memory(self) -> str:
        return f"{self._random.choice((16, 32, 48, 96))}Mi"

    def _guaranteed(self, name: str) -> dict[str, Any]:
        return container(name, str(self._random.choice((1, 2, 2, 3, 4))), self._memory())

    def _maybe_device(self, one: dict[str, Any], *, always: bool = False) -> dict[str, Any]:
        if not always and self._random.random() < 0.5:
            return one
        resource = self._random.choice((GPU, NIC))
        return with_devices(one, resource, self._random.choice((1, 1, 2)))


def after_hand_over(first: int) -> list[Step]:
    """A few more, on what somebody else has left."""
    return [
        pod(first, [container("c", "2", "32Mi")]),
        pod(first + 1, [with_devices(container("c", "1", "16Mi"), GPU, 1)]),
        pod(first + 2, [container("c", "40", "16Mi")]),  # refused
        pod(first + 3, [container("c", "1500m", "16Mi")]),
    ]


def whole(seed: str, drawn: int) -> list[Step]:
    """The steps by hand and then so many drawn ones."""
    first = by_hand()
    names = [s["apply"]["metadata"]["name"] for s in first if "apply" in s]
    gone = {s["delete"] for s in first if "delete" in s}
    left = [name for name in names if name not in gone]
    return [*first, *Drawn(seed, len(names) + 1, left).steps(drawn)]
