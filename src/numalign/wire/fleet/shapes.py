"""Shapes of pods in a few words: cpu=16,memory=64Gi,nvidia.com/gpu=1."""

from __future__ import annotations

from numalign.core.errors import ConfigError, WireError
from numalign.core.fleet.measures import Mix, ReferencePod
from numalign.core.pod import Pod
from numalign.core.values.quantity import Quantity
from numalign.wire import yaml
from numalign.wire.fleet.scenario.reading import guaranteed_pod

_EXPECTED = "expected amounts such as cpu=16,memory=64Gi,hugepages-1Gi=8Gi,nvidia.com/gpu=1"
WEIGHT = "weight"  # how often a shape is expected, beside the others
MEMORY_DEFAULT = "1Gi"  # a pod without memory is not Guaranteed, and nothing would be placed


def shape_of(text: str) -> Pod:
    """The Guaranteed pod of one container that a text asks for."""
    amounts: dict[str, Quantity] = {}
    for part in text.split(","):
        name, is_there, amount = (word.strip() for word in part.partition("="))
        if not is_there or not name or name in amounts:
            raise ConfigError(f"--shape: found {part.strip()!r}, {_EXPECTED}")
        amounts[name] = _amount(name, amount)
    return named_shape(text, amounts)


def named_shape(name: str, amounts: dict[str, Quantity]) -> Pod:
    if "cpu" not in amounts:
        raise ConfigError(f"shape {name!r}: found no cpu, {_EXPECTED}")
    return guaranteed_pod(name, {"memory": Quantity.parse(MEMORY_DEFAULT), **amounts})


def _amount(name: str, text: str) -> Quantity:
    try:
        found = Quantity.parse(text)
    except (ValueError, WireError) as error:
        raise ConfigError(f"--shape: {name}: found {text!r}: {error}") from error
    if found.nanos <= 0:
        raise ConfigError(f"--shape: {name}: found {text!r}, expected more than 0")
    return found


def reference_mix(data: bytes, source: str) -> Mix:
    """Named shapes of a file: name -> {cpu: 16, memory: 64Gi, weight: 3}."""
    value = yaml.load(data)
    if not isinstance(value, dict) or not value:
        raise WireError(f"{source}: found no map, expected names with amounts under them")
    found: list[ReferencePod] = []
    for name, amounts in value.items():
        if not isinstance(amounts, dict):
            raise WireError(f"{source}: {name}: found no map, expected cpu, memory and others")
        try:
            weight = _amount(WEIGHT, str(amounts.get(WEIGHT, 1))).value()
            asked = {k: _amount(k, str(a)) for k, a in amounts.items() if k != WEIGHT}
            found.append(ReferencePod(name, named_shape(name, asked), weight))
        except ConfigError as error:
            raise WireError(f"{source}: {name}: {error}") from error
    return found
