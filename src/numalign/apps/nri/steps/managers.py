"""Whether the kubelet places containers itself, by what it offers, and what to change then."""

from __future__ import annotations

from typing import Final

from numalign.core.views.podresources import View

WHAT_TO_DO: Final = (
    "Set cpuManagerPolicy: none and memoryManagerPolicy: None in the kubelet's configuration, "
    "remove its cpu_manager_state and memory_manager_state and restart it; running containers "
    "keep their CPUs and are taken over."
)


def managed_by_kubelet(view: View) -> str | None:
    """What a kubelet offers that has static managers, and what to change; None without any."""
    found = [
        f"{manager}: {policy}"
        for manager, policy, offered in (
            ("cpuManagerPolicy", "static", view.allocatable.cpus),
            ("memoryManagerPolicy", "Static", view.allocatable.memory),
        )
        if offered
    ]
    return f"the kubelet runs with {' and '.join(found)}. {WHAT_TO_DO}" if found else None
