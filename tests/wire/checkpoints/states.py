"""Random states of the managers, and damage to their files."""

from __future__ import annotations

import string

from hypothesis import strategies as st

from numalign.core.kubelet.state import Block, CpuState, MemoryState, MemoryTable, NodeMemory
from numalign.core.settings import Settings, Version

NAMES = st.text(string.ascii_lowercase + '<&"\\é\u2028', min_size=1, max_size=6)
MASKS = st.integers(0, 2**70 - 1)
SIZES = st.integers(0, 2**64 - 1)
NUMBERS = st.integers(0, 2**31)
KINDS = st.sampled_from(["memory", "hugepages-2Mi", "hugepages-1Gi"])

CPU_STATES = st.builds(
    CpuState,
    policy=st.just("static"),
    shared=MASKS,
    entries=st.dictionaries(NAMES, st.dictionaries(NAMES, MASKS, max_size=3), max_size=3),
    pod_sets=st.dictionaries(NAMES, MASKS, max_size=3),
    baselines=st.dictionaries(
        NAMES, st.dictionaries(NAMES, MASKS, min_size=1, max_size=2), min_size=1, max_size=2
    ),
)
TABLES = st.builds(MemoryTable, SIZES, SIZES, SIZES, SIZES, SIZES)
BLOCKS = st.lists(
    st.builds(Block, st.lists(NUMBERS, max_size=3).map(tuple), KINDS, SIZES), max_size=3
).map(tuple)
NODES = st.builds(
    NodeMemory,
    NUMBERS,
    st.lists(NUMBERS, max_size=3).map(tuple),
    st.dictionaries(KINDS, TABLES),
)
MEMORY_STATES = st.builds(
    MemoryState,
    policy=st.just("Static"),
    machine=st.dictionaries(NUMBERS, NODES, max_size=3),
    entries=st.dictionaries(NAMES, st.dictionaries(NAMES, BLOCKS, max_size=3), max_size=3),
    pod_blocks=st.dictionaries(NAMES, BLOCKS, max_size=3),
)
GATES = st.fixed_dictionaries(
    {
        "PodLevelResourceManagers": st.booleans(),
        "InPlacePodVerticalScalingExclusiveCPUs": st.booleans(),
    }
)
SETTINGS = st.builds(
    Settings,
    version=st.sampled_from(list(Version)),
    cpu_policy=st.just("static"),
    memory_policy=st.just("Static"),
    gates=GATES,
)


@st.composite
def damage(draw: st.DrawFn, data: bytes) -> bytes:
    """The bytes with a few bits turned, a piece cut out, or another piece put in."""
    damaged = bytearray(data)
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, max(len(damaged) - 1, 0)))
        kind = draw(st.sampled_from(["bit", "cut", "put"]))
        if kind == "bit" and damaged:
            damaged[place] ^= 1 << draw(st.integers(0, 7))
        elif kind == "cut":
            del damaged[place : place + draw(st.integers(1, 20))]
        else:
            damaged[place:place] = draw(
                st.sampled_from([b"null", b"{}", b"[", b'"', b",", b"-1", b"\xff", b'"a":1,', b"0"])
            )
    return bytes(damaged)
