"""An explanation for people: the sentence, the facts, the hints, the host and what would help.

Works on the plain values of ``core.explain_view``, so that the command line draws what an agent
sends just as what it found out itself. Every part but the sentence may be missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from numalign.apps.render.columns import columns
from numalign.apps.render.text import Line, Span, Tone, line, printable, wrap
from numalign.core.values.sets import format_list, mask_of, parse_list
from numalign.core.values.sizes import human

CELLS_MAX: Final = 64  # CPUs of a node that are drawn one by one
_BAR: Final = 10  # cells of a memory bar
CHANGES_SHORT: Final = 3  # that are shown first
_CELLS: Final = {"preferred": "preferred", "possible": "possible", None: "-"}
MARKS: Final = (("pod", "P", Tone.CPU), ("others", "#", Tone.PLAIN), ("reserved", "R", Tone.DIM))
LEGEND: Final = "P this pod   # other pods   R reserved   . free; one mark is one CPU"

View = Mapping[str, Any]


def render(answer: View, *, width: int = 100, details: bool = True) -> list[Line]:
    """All that is known, or only what is read first."""
    lines = _details(answer, width) if details else _short(answer, width)
    return [tuple(Span(printable(s.text), s.tone) for s in spans) for spans in lines]


def _short(answer: View, width: int) -> list[Line]:
    """The cause, the best changes, and where to look further."""
    lines = sentence(answer, width)
    if answer["admitted"]:
        found = placements(answer.get("placements") or (), width)
        return [*lines, line(""), *found] if found else lines
    first, rest = (answer.get("changes") or [])[:CHANGES_SHORT], answer.get("changes") or []
    lines.append(line(""))
    if first:
        lines.append(line("What would let it in, each tried:", Tone.TITLE))
        lines += changes({**answer, "changes": first}, width)
    elif answer.get("changes") is not None and not answer.get("unoffered"):
        lines.append(line("Nothing that was tried would let it in.", Tone.TITLE))
    for resource in answer.get("unoffered") or ():
        is_cause = resource in (answer.get("resources") or ())
        lacking = "" if is_cause else f"No device plugin has registered {resource} either. "
        text = (
            f"{lacking}Start the device plugin of {resource}, or declare its devices for a what-if "
            f"with --device {resource}=COUNT@NODE"
        )
        lines += wrap((Span(text),), width, prose=True)
    more = len(rest) - len(first)
    shown = f"{more} more {'change' if more == 1 else 'changes'}, " if more > 0 else ""
    lines.append(line(f"--details shows {shown}the hints and the host.", Tone.DIM))
    return lines


def _details(answer: View, width: int) -> list[Line]:
    lines = sentence(answer, width)
    parts = (
        ("", facts(answer, width)),
        ("hints (node sets against resources)", hints(answer.get("hints"), width)),
        ("placement", placements(answer.get("placements") or (), width)),
        (
            "estimated reach (firmware distances, 10 = local; not measured)",
            costs(answer.get("costs") or (), width),
        ),
        ("host", host_map(answer.get("map") or (), width)),
        ("what would let it in (each tried on this host)", changes(answer, width)),
        ("largest that still fits", shapes(answer.get("shapes") or (), width)),
    )
    for title, part in parts:
        if part:
            lines.append(line(""))
            if title:
                lines.append(line(title, Tone.TITLE))
            lines += part
    return lines


def grouped(answers: Sequence[View]) -> Iterator[tuple[str, Sequence[View]]]:
    """Neighbouring answers that are the same but for the pod, and what to say of them together."""
    start = 0
    for number in range(1, len(answers) + 1):
        if number < len(answers) and _same(answers[start], answers[number]):
            continue
        group = answers[start:number]
        yield _together(group, len(answers)), group
        start = number


def _same(one: View, other: View) -> bool:
    return _without_name(one) == _without_name(other) and _base(one) == _base(other)


def _without_name(answer: View) -> tuple[object, ...]:
    # Replicas that are admitted sit on other CPUs each; those that are refused change nothing.
    text = "" if answer["admitted"] else answer["sentence"].replace(answer["pod"], "", 1)
    return answer["admitted"], text


def _base(answer: View) -> str:
    pod: str = answer["pod"]
    name, _, number = pod.rpartition("-")
    return name if number.isdecimal() else pod


def _together(group: Sequence[View], asked: int) -> str:
    if len(group) == 1:
        return ""
    first, last = group[0]["pod"], group[-1]["pod"].rpartition("/")[2]
    names = f"{first} {'and' if len(group) == 2 else 'to'} {last}"
    if group[0]["admitted"]:
        return f"{len(group)} of {asked} pods are admitted: {names}."
    return f"{len(group)} of {asked} pods are refused for the same reason, {names}:"


def sentence(answer: View, width: int) -> list[Line]:
    """The answer in one sentence, and the kubelet's own words for it."""
    tone = Tone.TITLE if answer["admitted"] else Tone.WARNING
    lines = wrap((Span(answer["sentence"], tone),), width, prose=True)
    if answer.get("reason"):
        said = f"The kubelet's words: {answer['reason']}: {answer['message']}"
        lines += wrap((Span(said, Tone.DIM),), width, prose=True)
    return lines


def facts(answer: View, width: int) -> list[Line]:
    """Where it failed and what else is known."""
    lines: list[Line] = []
    if not answer["admitted"]:
        where = f"container {answer['container']}" if answer.get("container") else "the whole pod"
        spans = [Span("failed at ", Tone.DIM), Span(answer["step"]), Span(f" of {where}")]
        if answer.get("provider"):
            spans.append(Span(f", {answer['provider']}"))
        if answer.get("resources"):
            spans.append(Span(f", {' and '.join(answer['resources'])}"))
        lines += wrap(spans, width, later="  ", prose=True)
    for fact in answer.get("facts") or ():
        lines += wrap((Span(fact),), width, first="- ", later="  ", prose=True)
    return lines


def hints(table: View | None, width: int) -> list[Line]:
    """Node sets against resources."""
    if table is None:
        return []
    lines: list[Line] = []
    if table["rows"]:
        rows = [
            (_nodes(row["nodes"]), *(_CELLS[cell] for cell in row["hints"]))
            for row in table["rows"]
        ]
        lines += columns(("NODES", *table["resources"]), rows, width=width)
    if table["nowhere"]:
        lines.append(line(f"nowhere: {', '.join(table['nowhere'])}", Tone.WARNING))
    if table["anywhere"]:
        lines.append(line(f"no preference: {', '.join(table['anywhere'])}", Tone.DIM))
    if not table["complete"]:
        lines.append(line("there are more, wider sets", Tone.DIM))
    return lines


def _nodes(nodes: Sequence[int]) -> str:
    return format_list(mask_of(nodes)) or "-"


def placements(found: Sequence[View], width: int) -> list[Line]:
    """As ``admit`` shows them."""
    rows = [
        (
            one["name"],
            f"{one['cpus']}@{_nodes(one['cpuNodes'])}" if one["exclusive"] else "shared",
            ", ".join(map(_memory_text, one["memory"])) or "any",
            ", ".join(f"{n} {' '.join(ids)}" for n, ids in one["devices"].items()) or "-",
            {None: "-", True: "yes", False: "no"}[one["aligned"]],
            "-" if one["distance"] is None else f"{one['distance']:.1f}",
        )
        for one in found
    ]
    if not rows:
        return []
    head = ("CONTAINER", "CPUS", "MEMORY", "DEVICES", "ALIGNED", "DISTANCE")
    return columns(head, rows, width=width, flexible=(1, 2, 3), right=(5,))


def _memory_text(block: View) -> str:
    kind = "" if block["type"] == "memory" else f" {block['type']}"
    size = human(block["sizeBytes"]) if block["sizeBytes"] else "reused"
    return f"{size}{kind}@{_nodes(block['nodes'])}"


def costs(found: Sequence[View], width: int) -> list[Line]:
    """How far each container reaches."""
    rows = []
    for cost in found:
        reaches = [cost["cpuToMemory"], cost["cpuToDevices"], cost["memoryToDevices"]]
        if any(reach is not None for reach in reaches):
            latency = cost["readLatencyNs"]
            rows.append(
                (
                    cost["container"],
                    *(_reach(reach) for reach in reaches),
                    "-" if latency is None else f"{latency:g} ns",
                )
            )
    if not rows:
        return []
    head = ("CONTAINER", "CPU-MEMORY", "CPU-DEVICES", "MEMORY-DEVICES", "READ LATENCY")
    return columns(head, rows, width=width, flexible=(1, 2, 3))


def _reach(reach: View | None) -> str:
    if reach is None:
        return "-"
    local = f"{round(100 * reach['localShare'])}% local"
    if reach["meanDistance"] is None:
        return f"{local}, distances not known"
    return f"{local}, mean {reach['meanDistance']:g}, worst {reach['worstDistance']}"


# The host.


def host_map(nodes: Sequence[View], width: int) -> list[Line]:
    """Each NUMA node in a line: its CPUs, its memory, its devices. No unused huge pages."""
    if not nodes:
        return []
    per_mark = max(1, -(-max(parse_list(n["cpus"]).bit_count() for n in nodes) // CELLS_MAX))
    label = max(len(str(node["node"])) for node in nodes)
    later = " " * (label + len("node   "))
    lines: list[Line] = []
    for node in nodes:
        lines += wrap(_node_line(node, label, per_mark), width, later=later, prose=True)
    legend = LEGEND if per_mark == 1 else LEGEND.replace("one CPU", f"{per_mark} CPUs")
    return [*lines, line(legend, Tone.DIM)]


def _node_line(node: View, label: int, per_mark: int) -> Line:
    spans = [Span(f"node {node['node']:>{label}}  ", Tone.NODE), *_cpu_marks(node, per_mark)]
    for memory in node["memory"]:
        if memory["type"] == "memory" or memory["freeBytes"] != memory["totalBytes"]:
            spans += _memory_bar(memory)
    for device in node["devices"]:
        spans.append(Span(f"  {device['resource']} ", Tone.DIM))
        spans.append(Span("P" * device["pod"], Tone.CPU))
        free = device["count"] - device["pod"] - device["others"] - device["unhealthy"]
        spans.append(Span("#" * device["others"] + "." * free))
        spans.append(Span("x" * device["unhealthy"], Tone.WARNING))
    return tuple(spans)


def _cpu_marks(node: View, per_mark: int) -> Iterator[Span]:
    every = list(_ids(node["cpus"]))
    masks = [(parse_list(node[key]), mark, tone) for key, mark, tone in MARKS]
    yield Span("[")
    for start in range(0, len(every), per_mark):
        group = mask_of(every[start : start + per_mark])
        for mask, mark, tone in masks:
            if mask & group:
                yield Span(mark, tone)
                break
        else:
            yield Span(".", Tone.DIM)
    yield Span("]")


def _ids(text: str) -> Iterator[int]:
    mask = parse_list(text)
    return (i for i in range(mask.bit_length()) if mask >> i & 1)


def _memory_bar(memory: View) -> list[Span]:
    total, free = memory["totalBytes"], memory["freeBytes"]
    if free is None:
        return [Span(f"  {human(total)}", Tone.DIM)]
    if not total:
        return []
    used = -(-(total - free) * _BAR // total)
    tone = Tone.CPU if memory["pod"] else Tone.PLAIN
    kind = "" if memory["type"] == "memory" else f" {memory['type']}"
    return [
        Span("  "),
        Span("=" * used, tone),
        Span("." * (_BAR - used), Tone.DIM),
        Span(f" {human(free)}{kind} free", Tone.DIM),
        Span(" P" if memory["pod"] else "", Tone.CPU),
    ]


# What would help.


def changes(answer: View, width: int) -> list[Line]:
    """The changes, smallest first."""
    found = answer.get("changes")
    if found is None or answer["admitted"]:
        return []
    lines: list[Line] = []
    for number, change in enumerate(found, start=1):
        first = f"{number:>2}. "
        lines += wrap((Span(change["text"]),), width, first=first, later="    ", prose=True)
    if not found:
        lines.append(line("nothing that was tried"))
    if not answer.get("complete", True):
        lines.append(line("The search was stopped; there may be more.", Tone.WARNING))
    return lines


def shapes(found: Sequence[View], width: int) -> list[Line]:
    """What a pod could still ask for."""
    if not found:
        return []
    kinds = sorted({name for shape in found for name in shape["memory"]}, key=_memory_first)
    devices = sorted({name for shape in found for name in shape["devices"]})
    rows = [
        (
            _nodes(shape["nodes"]),
            str(shape["cpus"]),
            *(human(shape["memory"].get(name, 0)) for name in kinds),
            *(str(shape["devices"].get(name, 0)) for name in devices),
        )
        for shape in found
    ]
    head = ("NODES", "CPUS", *(name.upper() for name in kinds), *devices)
    return columns(head, rows, width=width, right=range(1, len(head)))


def _memory_first(name: str) -> tuple[bool, str]:
    return name != "memory", name
