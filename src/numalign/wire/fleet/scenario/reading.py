"""A scenario file read and checked; what is wrong is told with file, line and what was expected."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import msgspec

from numalign.core.errors import ConfigError, WireError
from numalign.core.fleet.simulation.schedulers import scheduler_of
from numalign.core.pod import Container, Pod
from numalign.core.values.quantity import Quantity
from numalign.wire import yaml
from numalign.wire.fleet.scenario import form
from numalign.wire.fleet.scenario.form import ControllersForm, ScenarioForm, ShapeForm
from numalign.wire.fleet.scenario.lines import Path, lines_of, nearest, path_of

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+/ -]{0,62}")
_TYPES: Final = {
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "bool": "true or false",
    "array": "a list",
    "object": "a map",
    "null": "nothing",
}
_SEEDS: Final = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")

Problem = tuple[Path, str]


@dataclass(frozen=True, slots=True)
class Scenario:
    source: str
    form: ScenarioForm
    seeds: tuple[int, ...]
    lines: dict[Path, int] = field(default_factory=dict, compare=False)

    def problem(self, path: Path, text: str) -> WireError:
        """What is wrong with a value, with the line where it stands."""
        return _located(self.source, self.lines, path, text)


def read(data: bytes, source: str) -> Scenario:
    """The scenario; WireError with the line where it is wrong."""
    try:
        value = yaml.load(data)
    except WireError as error:
        raise WireError(f"{source}: {error}") from error
    lines = lines_of(data.decode())
    if not isinstance(value, dict):
        raise WireError(f"{source}: line 1: found no map, expected a Scenario")
    try:
        found = msgspec.convert(value, ScenarioForm)
    except msgspec.ValidationError as error:
        raise _located(source, lines, *_of_msgspec(str(error))) from error
    for path, text in _problems(found):
        raise _located(source, lines, path, text)
    return Scenario(source, found, seeds_of(found.seeds) or (), lines)


def _located(source: str, lines: dict[Path, int], path: Path, text: str) -> WireError:
    where = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in path).lstrip(".")
    place = f"{source}: line {nearest(lines, path)}: "
    return WireError(place + (f"{where}: {text}" if where else text))


def _of_msgspec(text: str) -> Problem:
    """Path and words of a message such as: Expected `int`, got `str` - at `$.hosts[0].count`."""
    words, _, place = text.partition(" - at `$")
    path = path_of(place.rstrip("`"))
    unknown = re.fullmatch(r"Object contains unknown field `(.*)`", words)
    if unknown is not None:
        return (*path, unknown[1]), "found a field that no scenario has, expected a known one"
    missing = re.fullmatch(r"Object missing required field `(.*)`", words)
    if missing is not None:
        return path, f"found no {missing[1]}, expected it"
    found = re.fullmatch(r"Expected `(.*)`, got `(.*)`", words)
    if found is not None:
        wanted, got = (
            " or ".join(_TYPES.get(t, t) for t in text.split(" | ")) for text in found.groups()
        )
        return path, f"found {got}, expected {wanted}"
    invalid = re.fullmatch(r"Invalid enum value (.*)", words)
    if invalid is not None and path and path[-1] in form.CHOICES:
        return path, f"found {invalid[1]}, expected one of {', '.join(form.CHOICES[path[-1]])}"
    return path, words[:1].lower() + words[1:]


def _types(text: str) -> str:
    return " or ".join(_TYPES.get(part, part) for part in text.split(" | "))


def seeds_of(text: str | int) -> tuple[int, ...] | None:
    """The seeds of a text such as 7 or 1-3."""
    match = _SEEDS.fullmatch(str(text))
    if match is None:
        return None
    first, last = int(match[1]), int(match[2] or match[1])
    if not 0 <= last - first < form.SEEDS_MAX:
        return None
    return tuple(range(first, last + 1))


def _problems(found: ScenarioForm) -> Iterable[Problem]:
    if found.api_version != form.API_VERSION:
        yield ("apiVersion",), f"found {found.api_version!r}, expected {form.API_VERSION}"
    if found.kind != form.KIND:
        yield ("kind",), f"found {found.kind!r}, expected {form.KIND}"
    if seeds_of(found.seeds) is None:
        yield ("seeds",), f"found {found.seeds!r}, expected a number or a range such as 1-3"
    if not 2 <= found.samples <= form.SAMPLES_MAX:
        yield ("samples",), f"found {found.samples}, expected 2 to {form.SAMPLES_MAX}"
    if not found.hosts:
        yield ("hosts",), "found none, expected at least one group of hosts"
    if not found.work:
        yield ("work",), "found none, expected at least one source of work"
    yield from _host_problems(found)
    yield from _work_problems(found)
    yield from _scheduler_problems(("schedulers",), found.schedulers)
    for part, shapes in (("mix", found.mix), ("shapes", found.shapes)):
        for name, shape in shapes.items():
            yield from _shape_problems((part, name), shape)
    yield from _controllers_problems(("controllers",), found.controllers)
    names: set[str] = set()
    for i, variant in enumerate(found.variants):
        if not _NAME.fullmatch(variant.name) or variant.name in names | {"as-is"}:
            yield ("variants", i, "name"), f"found {variant.name!r}, expected a name of its own"
        names.add(variant.name)
        yield from _scheduler_problems(("variants", i, "schedulers"), variant.schedulers or [])
        if variant.controllers is not None:
            yield from _controllers_problems(("variants", i, "controllers"), variant.controllers)


def _controllers_problems(path: Path, found: ControllersForm) -> Iterable[Problem]:
    if not 1 <= found.attempts_max <= form.ATTEMPTS_MAX:
        text = f"found {found.attempts_max}, expected 1 to {form.ATTEMPTS_MAX}"
        yield (*path, "attemptsMax"), text


def _host_problems(found: ScenarioForm) -> Iterable[Problem]:
    total = 0
    seen: set[str] = set()
    for i, group in enumerate(found.hosts):
        path: Path = ("hosts", i)
        if sum(source is not None for source in (group.machine, group.openb, group.capture)) != 1:
            yield path, "expected exactly one of machine, openb and capture"
        if not 1 <= group.count <= form.HOSTS_MAX:
            yield (*path, "count"), f"found {group.count}, expected 1 to {form.HOSTS_MAX}"
        if not _NAME.fullmatch(group.group) or group.group in seen:
            yield (*path, "group"), f"found {group.group!r}, expected a name of its own"
        if not 1 <= group.pods_max <= form.PODS_PER_HOST_MAX:
            text = f"found {group.pods_max}, expected 1 to {form.PODS_PER_HOST_MAX}"
            yield (*path, "podsMax"), text
        for name, count in group.devices.items():
            if "/" not in name or not 0 <= count <= 1024:
                yield (
                    (*path, "devices", name),
                    f"found {count}, expected vendor.com/name with 0 to 1024 on each NUMA node",
                )
        seen.add(group.group)
        total += group.count
    if total > form.HOSTS_MAX:
        yield ("hosts",), f"found {total} hosts, expected at most {form.HOSTS_MAX}"


def _work_problems(found: ScenarioForm) -> Iterable[Problem]:
    for i, work in enumerate(found.work):
        path: Path = ("work", i)
        sources = [work.preset, work.openb, work.dlrm, work.recorded]
        if sum(source is not None for source in sources) != 1:
            yield path, "expected exactly one of preset, openb, dlrm and recorded"
        if work.pods is not None and not 1 <= work.pods <= form.PODS_MAX:
            yield (*path, "pods"), f"found {work.pods}, expected 1 to {form.PODS_MAX}"
        if not 0 < work.hours <= 100_000:
            yield (*path, "hours"), f"found {work.hours:g}, expected more than 0"
        if not 0 < work.load <= 10:
            yield (*path, "load"), f"found {work.load:g}, expected a share such as 0.9"


def _scheduler_problems(path: Path, names: list[str]) -> Iterable[Problem]:
    for i, name in enumerate(names):
        try:
            scheduler_of(name, ())
        except ConfigError as error:
            yield (*path, i), str(error)
    if len(set(names)) != len(names):
        yield path, "found one scheduler twice, expected each once"


def _shape_problems(path: Path, shape: ShapeForm) -> Iterable[Problem]:
    if not 1 <= shape.weight <= 1_000_000:
        yield (*path, "weight"), f"found {shape.weight}, expected 1 to 1000000"
    try:
        shape_pod("shape", shape)
    except (ValueError, WireError) as error:
        yield path, f"expected amounts such as cpu: 16 and memory: 64Gi: {error}"


def shape_pod(name: str, shape: ShapeForm) -> Pod:
    """A Guaranteed pod of one container that asks for a shape."""
    amounts = {"cpu": shape.cpu, "memory": shape.memory, **shape.others}
    return guaranteed_pod(name, {n: Quantity.parse(str(a)) for n, a in amounts.items()})


def guaranteed_pod(name: str, amounts: dict[str, Quantity]) -> Pod:
    """A Guaranteed pod of one container; what is zero is left out."""
    asked = {n: amount for n, amount in amounts.items() if not amount.is_zero}
    return Pod(name, name, "default", (), (Container("main", asked, asked),))
