"""Caches, from ``sys/devices/system/cpu/cpu*/cache/index*``.

Each CPU lists the caches that serve it, so a cache is shown as often as it serves CPUs. Its
level, kind and size are read where it is met first. The id of a last-level cache is read
everywhere, because hypervisors are known to give one cache several ids.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from numalign.adapters.sources.sysfs.cpus import CPU_ROOT
from numalign.adapters.sources.sysfs.text import SysfsText
from numalign.core.machine.machine import Cache, CacheKind, cache_order
from numalign.core.values.sets import CpuSet, format_list

INDEXES_MAX: Final = 64
_ID_MATTERS_LEVEL: Final = 3  # the kubelet goes by the ids of last-level caches only
_KINDS: Final = {kind.value: kind for kind in CacheKind}


@dataclass(slots=True)
class _Seen:
    level: int
    kind: CacheKind
    size_bytes: int
    ids: set[int] = field(default_factory=set)


def read_caches(text: SysfsText, online: CpuSet) -> tuple[Cache, ...]:
    """Every cache of the online CPUs, by level, kind and lowest CPU."""
    seen: dict[tuple[str, int], _Seen | None] = {}
    for cpu in online:
        base = f"{CPU_ROOT}/cpu{cpu}/cache"
        indexes = [name for name in text.tree.names(base) if name.startswith("index")]
        for index in indexes[:INDEXES_MAX]:
            _look(text, cpu, f"{base}/{index}", online.mask, seen)
    caches = [_cache(text, mask, found) for (_, mask), found in seen.items() if found]
    _note_shared_ids(text, caches)
    unique = {(cache.level, cache.kind, cache.cpus.mask): cache for cache in caches}
    return tuple(sorted(unique.values(), key=cache_order))


def _look(
    text: SysfsText, cpu: int, path: str, online: int, seen: dict[tuple[str, int], _Seen | None]
) -> None:
    mask = text.mask(f"{path}/shared_cpu_map", f"{path}/shared_cpu_list")
    if mask is None:
        text.notes.about_cpu(cpu, "a cache that does not say whom it serves; left out")
        return
    mask &= online
    if not mask >> cpu & 1:
        # Itanium kernels were known to print an empty map for a private cache.
        text.notes.about_cpu(cpu, "a cache that does not serve its own CPU; taken as private")
        mask = 1 << cpu
    key = (path.rpartition("/")[2], mask)
    is_new = key not in seen
    if is_new:
        seen[key] = _read(text, cpu, path)
    found = seen[key]
    if found and (is_new or found.level >= _ID_MATTERS_LEVEL):
        cache_id = text.number(f"{path}/id")
        if cache_id is not None and cache_id >= 0:
            found.ids.add(cache_id)


def _read(text: SysfsText, cpu: int, path: str) -> _Seen | None:
    level = text.number(f"{path}/level")
    kind = _KINDS.get(text.words(f"{path}/type") or "")
    if level is None or not 1 <= level <= 9 or kind is None:
        text.notes.about_cpu(cpu, "a cache without a known level and type; left out")
        return None
    size = text.size(f"{path}/size")
    if size is None:
        text.notes.about_cpu(cpu, f"an L{level} cache without a size; shown as 0")
    return _Seen(level, kind, size or 0)


def _cache(text: SysfsText, mask: int, found: _Seen) -> Cache:
    if len(found.ids) > 1:
        ids = ", ".join(map(str, sorted(found.ids)))
        text.notes.add(
            f"one L{found.level} cache of CPUs {format_list(mask)} has the ids {ids}; "
            f"the first is taken, while a kubelet on this machine reads one of them for each core"
        )
    return Cache(
        found.level, found.kind, found.size_bytes, CpuSet(mask), min(found.ids, default=None)
    )


def _note_shared_ids(text: SysfsText, caches: list[Cache]) -> None:
    users: dict[tuple[int, CacheKind, int], list[str]] = {}
    for cache in caches:
        if cache.id is not None:
            users.setdefault((cache.level, cache.kind, cache.id), []).append(str(cache.cpus))
    for (level, kind, cache_id), sets in users.items():
        if len(sets) > 1:
            text.notes.add(
                f"the id {cache_id} stands for {len(sets)} L{level} {kind.value} caches, "
                f"of CPUs {' and '.join(sets)}; they are kept apart, while a kubelet joins them"
            )
