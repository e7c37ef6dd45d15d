"""What the real Go code (Kubernetes v1.36.4) needed on a comparable machine, in microseconds.

Minima over two passes, managers in memory without checkpoint files; see docs/benchmarks.md for how
they were taken. They stand in where the Go code cannot be run beside ours: choosing CPUs, and
merges that would take minutes.
"""

from __future__ import annotations

from typing import Final

MS: Final = 1_000.0
S: Final = 1_000_000.0

ADMIT_MIN_US: Final = {
    "admit-2numa-empty-devices-all": 288.0,
    "admit-2numa-half-devices-all": 259.0,
    "admit-4numa-empty-devices-all": 8.0 * MS,
    "admit-4numa-empty-devices-two": 808.0,
    "admit-4numa-half-devices-all": 1.7 * MS,
    "admit-4numa-half-devices-two": 667.0,
    "admit-8numa-empty-devices-all": 891 * S,  # extrapolated: it did not end in 90 s
    "admit-8numa-empty-devices-two": 115 * MS,
    "admit-8numa-half-devices-all": 43.2 * S,
    "admit-8numa-half-devices-two": 15 * MS,
}

FILL_MIN_US: Final = {
    "fill-8numa-none-memStatic": 0.56 * S,
    "fill-8numa-restricted-memNone": 1.91 * S,
    "fill-8numa-restricted-memStatic": 2.43 * S,
    "fill-8numa-single-numa-node-memStatic": 1.99 * S,
}

# (NUMA nodes, resources): all subsets of the nodes for each resource.
MERGE_MIN_US: Final = {
    (2, 2): 1.0,
    (2, 3): 4.0,
    (2, 4): 9.0,
    (4, 2): 23.0,
    (4, 3): 442.0,
    (4, 4): 9.3 * MS,
    (6, 2): 391.0,
    (6, 3): 71 * MS,
    (6, 4): 3.1 * S,
    (8, 2): 11 * MS,
    (8, 3): 4.7 * S,
    (8, 4): 891 * S,  # extrapolated
}

# (NUMA nodes, available, count, algorithm)
TAKE_MIN_US: Final = {
    (2, "all", 8, "distributed"): 220.0,
    (2, "all", 8, "packed"): 377.0,
    (2, "all", 8, "packed-uncore"): 112.0,
    (2, "all", 32, "distributed"): 108.0,
    (2, "all", 32, "packed"): 58.0,
    (2, "all", 32, "packed-uncore"): 56.0,
    (2, "odd-cores-half", 8, "distributed"): 94.0,
    (2, "odd-cores-half", 8, "packed"): 129.0,
    (2, "odd-cores-half", 8, "packed-uncore"): 53.0,
    (2, "odd-cores-half", 32, "distributed"): 163.0,
    (2, "odd-cores-half", 32, "packed"): 176.0,
    (2, "odd-cores-half", 32, "packed-uncore"): 289.0,
    (4, "all", 8, "distributed"): 388.0,
    (4, "all", 8, "packed"): 1.2 * MS,
    (4, "all", 8, "packed-uncore"): 279.0,
    (4, "all", 32, "distributed"): 271.0,
    (4, "all", 32, "packed"): 189.0,
    (4, "all", 32, "packed-uncore"): 191.0,
    (4, "all", 100, "distributed"): 1.1 * MS,
    (4, "all", 100, "packed"): 274.0,
    (4, "all", 100, "packed-uncore"): 178.0,
    (4, "odd-cores-half", 8, "distributed"): 185.0,
    (4, "odd-cores-half", 8, "packed"): 358.0,
    (4, "odd-cores-half", 8, "packed-uncore"): 133.0,
    (4, "odd-cores-half", 32, "distributed"): 346.0,
    (4, "odd-cores-half", 32, "packed"): 503.0,
    (4, "odd-cores-half", 32, "packed-uncore"): 1.1 * MS,
    (8, "all", 8, "distributed"): 971.0,
    (8, "all", 8, "packed"): 4.2 * MS,
    (8, "all", 8, "packed-uncore"): 711.0,
    (8, "all", 32, "distributed"): 844.0,
    (8, "all", 32, "packed"): 475.0,
    (8, "all", 32, "packed-uncore"): 472.0,
    (8, "all", 100, "distributed"): 13 * MS,
    (8, "all", 100, "packed"): 2.1 * MS,
    (8, "all", 100, "packed-uncore"): 725.0,
    (8, "odd-cores-half", 8, "distributed"): 492.0,
    (8, "odd-cores-half", 8, "packed"): 1.2 * MS,
    (8, "odd-cores-half", 8, "packed-uncore"): 360.0,
    (8, "odd-cores-half", 32, "distributed"): 1.5 * MS,
    (8, "odd-cores-half", 32, "packed"): 1.5 * MS,
    (8, "odd-cores-half", 32, "packed-uncore"): 5.6 * MS,
    (8, "odd-cores-half", 100, "distributed"): 4.1 * MS,
    (8, "odd-cores-half", 100, "packed"): 2.3 * MS,
    (8, "odd-cores-half", 100, "packed-uncore"): 6.5 * MS,
}
