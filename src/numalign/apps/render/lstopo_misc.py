"""Who owns which CPUs, as a file for ``lstopo --misc-from`` (hwloc 2.10 and newer).

An entry is a name, a set of CPUs and a subtype, each on a line of its own; lstopo puts it below the
smallest object that has all these CPUs. Lines of 255 bytes and more are cut in two by lstopo, and
an entry without a subtype is ignored.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from numalign.apps.render.text import printable
from numalign.core.kubelet.admission.verdict import HostSnapshot
from numalign.core.values.sizes import counted

LINE_BYTES_MAX: Final = 250
_WORD_BITS: Final = 32


Entry = tuple[str, int, str]  # name, CPUs, subtype


def entries(snapshot: HostSnapshot) -> list[Entry]:
    """Who owns which CPUs, and how many share the rest."""
    return [*_owners(snapshot), *_pool(snapshot)]


def render(snapshot: HostSnapshot) -> str:
    return "\n".join(
        f"name={_cut(name)}\ncpuset={words}\nsubtype={subtype}\n"
        for name, cpus, subtype in entries(snapshot)
        for words in cpuset_texts(cpus)
    )


def _owners(snapshot: HostSnapshot) -> Iterator[Entry]:
    """Each container that has CPUs of its own, by name and NUMA node."""
    state = snapshot.state
    named = {uid: snapshot.names.get(uid, uid) for uid in state.cpu.entries}
    for uid in sorted(state.cpu.entries, key=lambda uid: named[uid]):
        for container, cpus in sorted(state.cpu.entries[uid].items()):
            for there in snapshot.host.cpu_topology.nodes.values():
                if cpus & there:  # one on several nodes would be drawn at the machine
                    yield f"{named[uid]}/{container}", cpus & there, "Pod"


def _pool(snapshot: HostSnapshot) -> Iterator[Entry]:
    """All other pods share what is left."""
    state = snapshot.state
    others = len(state.pods.keys() - state.cpu.entries.keys())
    if others and state.cpu.shared:
        yield f"shared pool: {counted(others, 'pod')}", state.cpu.shared, "SharedPool"


def cpuset_texts(cpus: int) -> Iterator[str]:
    """A set in hwloc's form, 32 CPUs a word, highest first; in parts where it is too long."""
    words = []
    while cpus:
        words.append(cpus & (2**_WORD_BITS - 1))
        cpus >>= _WORD_BITS
    first = 0
    # Every word below counts with a comma, so the line has an end: far beyond any machine.
    while first < len(words) and (room := (LINE_BYTES_MAX - first) // len("0x00000000,") - 1) > 0:
        part = words[first : first + room]
        if any(part):
            # Words of zero may be left empty, but for the last: lstopo stops before an empty one.
            shown = [f"0x{word:08x}" if word else "" for word in reversed(part)]
            if first:
                shown += ["" for _ in range(first)]
            shown[-1] = shown[-1] or "0x0"
            yield ",".join(shown).lstrip(",")
        first += room


def _cut(name: str) -> str:
    text = printable(name)
    while len(f"name={text}".encode()) > LINE_BYTES_MAX:
        text = text[:-1]
    return text
