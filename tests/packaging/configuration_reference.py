"""Writes docs/reference/configuration.md from the tables that read configurations.

python -m tests.packaging.configuration_reference
"""

from __future__ import annotations

import sys
from typing import Any, Final

import msgspec
from tests.paths import DOCS

from numalign.apps.agent.config import API_VERSION, KIND, PODS_MAX, _File
from numalign.core.settings import Version
from numalign.wire.kubelet.keys import KEYS, KubeletConfig, unused_keys

PAGE: Final = DOCS / "reference" / "configuration.md"

# Every key of an AgentConfiguration; the test holds this to the schema.
MEANINGS: Final = {
    "apiVersion": f"`{API_VERSION}`",
    "kind": f"`{KIND}`",
    "kubernetes": "whose rules hold: " + " or ".join(f"`{one.value}`" for one in Version),
    "fidelity": "`safe` repairs what hurts in the kubelet, `kubelet` decides just as it does "
    "([decision 5](../decisions/0005-two-fidelities.md))",
    "kubeletConfig": "a KubeletConfiguration; a relative path begins at this file",
    "cgroupParent": "the cgroup above all containers; by default one for each state directory",
    "backoffSeconds": "how long a container that ended waits before it is started again, more than "
    "0 and at most 300; it doubles each time",
    "podsMax": f"how many pods the host takes, 1 to {PODS_MAX:,}; by default what `maxPods` and "
    "`podsPerCore` say",
    "offlineCpus": "what a pod does when a CPU of its own goes offline: `keep` the rest, or `end`",
    "devices": "devices that no plugin reports: `resource`, and either `devices` (a list of `id` "
    "and `nodes`) or `pci` (`gpu`, `nic`, …: all PCI devices of that kind)",
}

_HEAD: Final = """\
# Configuration

<!-- Written by `python -m tests.packaging.configuration_reference`; do not edit by hand. -->

`numalign agent --config FILE` and `numalign up --config FILE` take a KubeletConfiguration as it
is, or an AgentConfiguration, for what the kubelet has no word for. `numalign state check --config
FILE` says whether the agent would start with it. A mistake is one line with what was found and what
was expected; an unknown key is refused, since a mistyped one would silently mean its default.

## AgentConfiguration

```yaml
apiVersion: numalign.io/v1
kind: AgentConfiguration
kubernetes: "1.37"
kubeletConfig: kubelet.yaml   # beside this file
offlineCpus: end
devices:
- resource: example.com/fpga
  devices: [{id: fpga0, nodes: [0]}, {id: fpga1, nodes: [1]}]
- resource: example.com/nic
  pci: nic
```

| key | default | meaning |
| --- | --- | --- |
"""

_KUBELET: Final = """
## KubeletConfiguration

`apiVersion: kubelet.config.k8s.io/v1beta1`. These keys decide where work is placed, and are read
and checked as the kubelet does, with its messages. A flag of the kubelet that says the same wins,
where a capture of a host holds its command line.

| key | default | flag |
| --- | --- | --- |
"""

_OTHERS: Final = """
`mergeDefaultEvictionSettings` is heeded too. All other keys of 1.36 and 1.37 are accepted and
change nothing here:
"""

_VERSIONS: Final = """
## Versions

| Kubernetes | how it is answered |
| --- | --- |
| 1.36, 1.37 | exactly: decisions, messages and state files are compared with the real kubelet's |
| 1.28 to 1.35 | with the rules of 1.36; what may differ is said in a note (`--kubernetes 1.30`, \
or a bundle that says so) |
| older | refused |
"""


def page() -> str:
    """The whole page."""
    parts = [_HEAD]
    for name, default in _agent_keys().items():
        parts.append(f"| `{name}` | {default} | {MEANINGS[name]} |\n")
    parts.append(_KUBELET)
    usual = KubeletConfig()
    for key in KEYS:
        value = key.kind.write(getattr(usual, key.member))
        flag = f"`--{key.flag}`" if key.flag else ""
        parts.append(f"| `{key.name}` | {_shown(value)} | {flag} |\n")
    others = ", ".join(f"`{name}`" for name in sorted(unused_keys(Version.V1_37)))
    parts += [_OTHERS, others, ".\n", _VERSIONS]
    return "".join(parts)


def _agent_keys() -> dict[str, str]:
    found = {}
    for field in msgspec.structs.fields(_File):
        default = field.default
        if default is msgspec.NODEFAULT:
            default = None if field.default_factory is msgspec.NODEFAULT else []
        found[field.encode_name] = _shown(getattr(default, "value", default))
    return found


def _shown(value: Any) -> str:
    if value in (None, "", [], {}, ()):
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, dict):
        return ", ".join(f"`{name}: {one}`" for name, one in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(f"`{one}`" for one in value)
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def main() -> int:
    """Writes it."""
    PAGE.write_text(page())
    sys.stdout.write(f"wrote {PAGE.name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
