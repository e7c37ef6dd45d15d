"""Our own machine files as text: YAML for people, JSON for programs, one shape for both.

Files come from anywhere, so YAML is read with less than the format allows: no aliases (which
can blow up a small file), no tags, no keys twice, and only whole numbers and true or false are
anything but text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable
from typing import Any, Final

import msgspec
import yaml

from numalign.core.errors import DiscoveryError
from numalign.core.machine.machine import Machine
from numalign.wire.machine.form import MachineForm
from numalign.wire.machine.reading import machine_of
from numalign.wire.machine.writing import form_of

TEXT_CHARACTERS_MAX: Final = 4 * 1024 * 1024
# The strict loader reads 100 kB a second. A machine of 4,096 CPUs has 42 kB.
YAML_CHARACTERS_MAX: Final = 256 * 1024
DEPTH_MAX: Final = 10
_LINE_CHARACTERS: Final = 100
_HINT: Final = "See docs/reference/machine-yaml.md."


class _Loader(yaml.SafeLoader):
    """YAML without aliases, tags, repeated keys and surprising types."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012

    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not allowed")
        if self._depth == DEPTH_MAX:
            raise yaml.YAMLError(f"more than {DEPTH_MAX} levels")
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:  # noqa: FBT001, FBT002 - the signature is PyYAML's
        keys = Counter(key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode))
        for key, count in keys.items():
            if count > 1:
                raise yaml.YAMLError(f"the key {key!r} comes {count} times")
        return super().construct_mapping(node, deep)


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"(?:true|false)$", re.ASCII), list("tf")
)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:null", re.compile(r"(?:null|~|)$", re.ASCII), ["n", "~", ""]
)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:int",
    re.compile(r"(?:-?(?:0|[1-9][0-9]{0,18})|0x[0-9a-fA-F]{1,8})$", re.ASCII),
    list("-0123456789"),
)


def load(text: str, source: str = "machine.yaml") -> Machine:
    """The machine that a YAML or JSON text describes; DiscoveryError where it does not."""
    if len(text) > TEXT_CHARACTERS_MAX:
        raise DiscoveryError(
            source, f"{len(text)} characters", f"at most {TEXT_CHARACTERS_MAX} for a machine"
        )
    try:
        form = _form(text)
    except (yaml.YAMLError, msgspec.MsgspecError, ValueError, RecursionError) as exc:
        reason = " ".join(str(exc).split())
        raise DiscoveryError(source, f"unreadable text ({reason})", "a Machine", _HINT) from exc
    return machine_of(form, source)


def _form(text: str) -> MachineForm:
    if text.lstrip().startswith("{"):
        try:
            return msgspec.json.decode(text, type=MachineForm)
        except msgspec.ValidationError:
            raise
        except msgspec.DecodeError:
            pass  # not JSON, then, but perhaps YAML in braces
    if len(text) > YAML_CHARACTERS_MAX:
        raise yaml.YAMLError(f"more than {YAML_CHARACTERS_MAX} characters of YAML; write JSON")
    content = yaml.load(text, Loader=_Loader)  # noqa: S506 - a stricter SafeLoader
    return msgspec.convert(content, type=MachineForm, str_keys=True)


def dump(machine: Machine) -> str:
    """The YAML text that ``load`` reads back as the same machine."""
    return yaml.safe_dump(
        msgspec.to_builtins(form_of(machine)),
        sort_keys=False,
        default_flow_style=None,
        allow_unicode=True,
        width=_LINE_CHARACTERS,
    )


def to_json(machine: Machine) -> str:
    return msgspec.json.format(msgspec.json.encode(form_of(machine)), indent=2).decode()
