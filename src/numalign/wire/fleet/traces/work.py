"""Pods of a list, still without hosts: what they ask for and when."""

from __future__ import annotations

from dataclasses import dataclass

from numalign.core.pod import Pod
from numalign.core.values.quantity import Quantity
from numalign.wire.fleet.scenario.reading import guaranteed_pod


@dataclass(frozen=True, slots=True)
class ListedPod:
    name: str
    pod: Pod
    at: float = 0.0
    seconds: float | None = None
    owner: str = ""
    per_host_max: int = 0


class PodClasses:
    """Pods by what they ask for: equal ones are one value, so that hosts are asked once."""

    def __init__(self) -> None:
        self._known: dict[tuple[tuple[str, int], ...], Pod] = {}

    def pod(self, amounts: dict[str, int]) -> Pod:
        """The pod of a class; CPUs are whole, memory in bytes."""
        asked = {name: amount for name, amount in amounts.items() if amount}
        key = tuple(sorted(asked.items()))
        if key not in self._known:
            quantities = {
                name: Quantity.of(amount, binary=name == "memory" or name.startswith("hugepages"))
                for name, amount in asked.items()
            }
            self._known[key] = guaranteed_pod(f"class-{len(self._known)}", quantities)
        return self._known[key]
