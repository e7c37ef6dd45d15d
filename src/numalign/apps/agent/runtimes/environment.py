"""The environment of a container, with what it takes from the pod, its resources and objects.

A value that there is no source for is refused: an empty secret is never set.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from numalign.adapters.local.objects import CONFIG_MAPS, NOT_READY, SECRETS, Objects
from numalign.apps.agent.model import AgentPod
from numalign.apps.agent.runtimes.expansion import counted, expanded
from numalign.core.asker import Abilities
from numalign.core.errors import PostponedError
from numalign.core.values.quantity import Quantity
from numalign.wire.pods.records import ContainerRecord, EnvFrom, EnvVar, KeyRef, ResourceFieldRef

_IN_MAP: Final = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")
_NAME: Final = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")


@dataclass(frozen=True, slots=True)
class ValueSources:
    """Where values come from that a manifest only names."""

    objects: Objects
    abilities: Abilities
    totals: Mapping[str, int]  # what the host offers; CPUs in thousandths

    def variables(
        self, pod: AgentPod, record: ContainerRecord, given: Mapping[str, str]
    ) -> dict[str, str]:
        """The variables given, then those of envFrom, then its own; PostponedError without."""
        env = dict(given)
        for source in record.envFrom or ():
            env |= self._all_keys(pod, record, source)
        total = 0
        for item in record.env or ():
            if item.valueFrom:
                value = self._value(pod, record, item)
            else:
                value = expanded(item.value, env, f"env {item.name}")
            if value is not None:
                env[item.name] = value
                total = counted(total, value, "env")
        return env

    def _all_keys(self, pod: AgentPod, record: ContainerRecord, source: EnvFrom) -> dict[str, str]:
        found: dict[str, str] = {}
        for kind, ref in ((CONFIG_MAPS, source.configMapRef), (SECRETS, source.secretRef)):
            if ref is None:
                continue
            keys = self._keys(pod, kind, ref.name, optional=bool(ref.optional))
            where = f"container {record.name}: envFrom {ref.name}"
            for key, value in (keys or {}).items():
                if _NAME.fullmatch(source.prefix + key):
                    found[source.prefix + key] = _text(value, f"{where}, key {key}")
        return found

    def keys_for(self, pod: AgentPod) -> Callable[[bool, str], dict[str, bytes] | None]:
        """Where the volumes of a pod find their keys: (is it a Secret, its name)."""
        asker = pod.asker or self.abilities.own

        def keys(is_secret: bool, name: str) -> dict[str, bytes] | None:  # noqa: FBT001
            kind = SECRETS if is_secret else CONFIG_MAPS
            return self.objects.keys(kind, pod.pod.namespace, name, asker)

        return keys

    def _keys(
        self, pod: AgentPod, kind: str, name: str, *, optional: bool
    ) -> dict[str, bytes] | None:
        if optional and self.objects.root is None:
            return None
        asker = pod.asker or self.abilities.own
        found = self.objects.keys(kind, pod.pod.namespace, name, asker)
        if found is None and not optional:
            raise _refused(f"{kind} {pod.pod.namespace}/{name}: found none in {self.objects.root}")
        return found

    def _value(self, pod: AgentPod, record: ContainerRecord, item: EnvVar) -> str | None:
        source, where = item.valueFrom, f"container {record.name}: env {item.name}"
        assert source is not None, "asked only for one that has it"
        if source.fieldRef is not None:
            return self.field(pod, source.fieldRef.fieldPath, where)
        if source.resourceFieldRef is not None:
            return self._amount(pod, record, source.resourceFieldRef, where)
        if source.configMapKeyRef is not None:
            return self._key(pod, CONFIG_MAPS, source.configMapKeyRef, where)
        if source.secretKeyRef is not None:
            return self._key(pod, SECRETS, source.secretKeyRef, where)
        raise _refused(f"{where}: valueFrom: found no source that is known here; give a value")

    def _key(self, pod: AgentPod, kind: str, ref: KeyRef, where: str) -> str | None:
        optional = bool(ref.optional)
        keys = self._keys(pod, kind, ref.name, optional=optional)
        if keys is None or ref.key not in keys:
            if optional:
                return None
            raise _refused(f"{where}: {kind} {ref.name}: found no key {ref.key!r}")
        return _text(keys[ref.key], where)

    def field(self, pod: AgentPod, path: str, where: str) -> str:
        """What a fieldRef names."""
        metadata, spec, host = pod.record.metadata, pod.record.spec, self.abilities
        if found := _IN_MAP.fullmatch(path):
            maps = {"labels": metadata.labels, "annotations": metadata.annotations}
            return (maps[found[1]] or {}).get(found[2], "")
        known = {
            "metadata.name": pod.pod.name,
            "metadata.namespace": pod.pod.namespace,
            "metadata.uid": pod.pod.uid,
            "spec.nodeName": spec.nodeName or host.host_name,
            "spec.serviceAccountName": spec.serviceAccountName or "default",
            # Processes have the network of the host, so its address is theirs.
            **dict.fromkeys(
                ("status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"), host.address
            ),
        }
        if path not in known:
            raise _refused(f"{where}: fieldPath: found {path!r}, expected {', '.join(known)}")
        return known[path]

    def _amount(
        self, pod: AgentPod, record: ContainerRecord, ref: ResourceFieldRef, where: str
    ) -> str:
        name = ref.containerName or record.name
        container = next((c for c in pod.pod.in_order if c.name == name), None)
        part, _, resource = ref.resource.partition(".")
        if container is None or part not in {"limits", "requests"} or not resource:
            raise _refused(f"{where}: resourceFieldRef: found {ref.resource!r} of {name!r}")
        amounts = container.limits if part == "limits" else container.requests
        amount = amounts.get(resource)
        nanos = amount.nanos if amount is not None else self._offered(part, resource)
        try:
            divisor = Quantity.parse(str(ref.divisor)).nanos if ref.divisor else 10**9
        except ValueError as error:
            raise _refused(f"{where}: divisor: found {ref.divisor!r}: {error}") from error
        return str(-(-nanos // (divisor or 10**9)))  # rounded up, as the kubelet does

    def _offered(self, part: str, resource: str) -> int:
        """Without a limit it is all that the host offers; without a request it is nothing."""
        if part == "requests":
            return 0
        return self.totals.get(resource, 0) * (10**6 if resource == "cpu" else 10**9)


def _text(value: bytes, where: str) -> str:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise _refused(f"{where}: found bytes that are no text, expected UTF-8 for a variable")
    return text


def _refused(text: str) -> PostponedError:
    return PostponedError(text, reason=NOT_READY)
