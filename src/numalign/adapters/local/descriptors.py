"""How many descriptors this process has left, and how many are kept for what must go on.

Saving state, reading manifests and ending containers need a few descriptors at any time. So what
others can ask for in any number (connections, a handle per container) stops while some are left.
"""

from __future__ import annotations

import os
import resource
from typing import Final

SPARE_MAX: Final = 32
OWN: Final = 24  # of the agent itself: sockets, plugins, the lock; some are opened late
HANDLES_MARGIN: Final = 4  # that handles on containers leave to connections


def limit() -> int:
    """How many descriptors this process may have."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def spare() -> int:
    """How many stay free: of a small limit a quarter."""
    return min(SPARE_MAX, limit() // 4)


def free() -> int:
    """How many are left now; none if that cannot be seen."""
    try:
        used = len(os.listdir("/proc/self/fd")) - 1  # noqa: PTH208 - one is that of the listing
    except OSError:
        return 0
    return max(0, limit() - used)


def is_handle_affordable(held: int) -> bool:
    """Whether one more than these may be kept open for long; connections come and go."""
    return held < limit() - spare() - OWN and free() > spare() + HANDLES_MARGIN


def shortage() -> str:
    """What to tell an operator when few are left; empty if all is well."""
    left = free()
    if left > spare() + 2 * HANDLES_MARGIN:
        return ""
    return (
        f"{left} of {limit()} descriptors are free, and {spare()} are kept back: connections over "
        "TCP are refused and containers looked after once a second. Raise LimitNOFILE of the "
        "agent (ulimit -n), or end some pods"
    )
