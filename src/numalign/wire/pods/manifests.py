"""v1.Pod manifests as core pods.

Defaults that the API server would fill in are filled in here: a limit without a request becomes the
request, an empty namespace ``default``. What the API server would refuse (names, negative amounts,
requests above limits) is refused with one line that names the member.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from numalign.core.errors import WireError
from numalign.core.pod import Container, Pod, Qos
from numalign.core.pod import Resources as Amounts
from numalign.core.values.quantity import Quantity
from numalign.wire import yaml as plain_yaml
from numalign.wire.pods.annotations import faults as annotation_faults
from numalign.wire.pods.records import ContainerRecord, PodRecord, Resources
from numalign.wire.pods.unheeded import paths_of

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_UID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
LISTS: Final = frozenset({"List", "PodList"})
CONTAINERS_MAX: Final = 1_000


def load_all(data: bytes, *, source: str) -> list[PodRecord]:
    """Every pod in a YAML or JSON text of nothing but pods; see ``workloads`` for the rest."""
    found = []
    for document in documents(data, source=source):
        if document.get("kind") != "Pod":
            raise WireError(f"{source}: found kind {document.get('kind')!r}, expected Pod")
        found.append(record_of(document, source))
    if not found:
        raise WireError(f"{source}: found nothing, expected a pod")
    return found


def documents(data: bytes, *, source: str) -> list[Mapping[str, Any]]:
    """The objects of a YAML or JSON text of one or several documents, lists unfolded."""
    try:
        texts = plain_yaml.load_all(data)
    except WireError as error:
        raise WireError(f"{source}: {error}") from error
    return [item for text in texts if text is not None for item in _unfolded(text, source)]


def _unfolded(document: Any, source: str) -> Iterator[Mapping[str, Any]]:  # noqa: ANN401 any YAML
    if not isinstance(document, Mapping):
        raise WireError(f"{source}: found {type(document).__name__}, expected a pod")
    kind = document.get("kind")
    if not isinstance(kind, str | None):
        raise WireError(f"{source}: found kind {kind!r}, expected a text such as Pod")
    if kind not in LISTS:
        yield document
        return
    items = document.get("items") or ()
    if not isinstance(items, list | tuple):
        raise WireError(f"{source}: items: found {type(items).__name__}, expected a list")
    for item in items:
        if kind == "PodList" and isinstance(item, Mapping):
            item = {"kind": "Pod", **item}  # noqa: PLW2901 its items need not say what they are
        yield from _unfolded(item, source)


def record_of(document: Mapping[str, Any], source: str) -> PodRecord:
    if document.get("apiVersion", "v1") != "v1":
        raise WireError(f"{source}: found apiVersion {document['apiVersion']!r}, expected 'v1'")
    try:
        record = msgspec.convert(document, PodRecord)
    except msgspec.ValidationError as error:
        raise WireError(f"{source}: not a v1.Pod: {error}") from error
    faults = _faults(record)
    if faults:
        name = record.metadata.name or record.metadata.generateName or "without a name"
        raise WireError("\n".join(f"{source}: pod {name}: {fault}" for fault in faults))
    record.unheeded = paths_of(document) or None
    return record


def _faults(record: PodRecord) -> list[str]:
    """What the API server would refuse, one line each."""
    faults: list[str] = []
    metadata, spec = record.metadata, record.spec
    if not metadata.name and not metadata.generateName:
        faults.append("metadata.name: found none, expected a name")
    elif metadata.name and not _NAME.fullmatch(metadata.name):
        faults.append(f"metadata.name: found {metadata.name!r}, expected a DNS subdomain")
    if metadata.uid and not _UID.fullmatch(metadata.uid):
        # It names directories and cgroups.
        faults.append(f"metadata.uid: found {metadata.uid!r}, expected letters, digits, . _ and -")
    if metadata.namespace and not _LABEL.fullmatch(metadata.namespace):
        faults.append(f"metadata.namespace: found {metadata.namespace!r}, expected a DNS label")
    containers = [*(spec.initContainers or ()), *(spec.containers or ())]
    if not spec.containers:
        faults.append("spec.containers: found none, expected at least one")
    if len(containers) > CONTAINERS_MAX:
        faults.append(f"found {len(containers)} containers, expected at most {CONTAINERS_MAX}")
    seen: set[str] = set()
    for container in containers:
        faults += _container_faults(container, seen)
        seen.add(container.name)
    faults += _resource_faults("spec", spec.resources)
    faults += _amount_faults("spec.overhead", spec.overhead)
    return [*faults, *annotation_faults(record)]


def _container_faults(container: ContainerRecord, seen: set[str]) -> Iterator[str]:
    where = f"container {container.name}"
    if not _LABEL.fullmatch(container.name):
        yield f"container name: found {container.name!r}, expected a DNS label"
    if container.name in seen:
        yield f"{where}: found twice, expected every name once"
    if container.restartPolicy not in {None, "Always"}:
        yield f"{where}: restartPolicy: found {container.restartPolicy!r}, expected 'Always'"
    if container.imagePullPolicy not in {"", "Always", "IfNotPresent", "Never"}:
        policy = container.imagePullPolicy
        yield f"{where}: imagePullPolicy: found {policy!r}, expected Always, IfNotPresent or Never"
    yield from _resource_faults(where, container.resources)


def _resource_faults(where: str, resources: Resources | None) -> Iterator[str]:
    if resources is None:
        return
    yield from _amount_faults(f"{where}: requests", resources.requests)
    yield from _amount_faults(f"{where}: limits", resources.limits)
    requests, limits = _parsed(resources.requests), _parsed(resources.limits)
    for name in requests.keys() & limits.keys():
        is_fixed = name.startswith("hugepages-") or "/" in name
        if requests[name] > limits[name]:
            yield (
                f"{where}: requests.{name}: found {requests[name]}, "
                f"must be less than or equal to {name} limit of {limits[name]}"
            )
        elif is_fixed and requests[name] != limits[name]:
            yield f"{where}: requests.{name}: must be equal to the limit {limits[name]}"


def _amount_faults(where: str, amounts: Mapping[str, object] | None) -> Iterator[str]:
    for name, text in (amounts or {}).items():
        try:
            amount = Quantity.parse(_text(text))
        except ValueError as error:
            yield f"{where}.{name}: found {text!r}: {error}"
            continue
        if amount.nanos < 0:
            yield f"{where}.{name}: found {text!r}, must be greater than or equal to 0"
        elif "/" in name and amount.milli() % 1000:
            yield f"{where}.{name}: found {text!r}, must be an integer"


def _text(amount: object) -> str:
    # YAML gives `cpu: 2` as a number; JSON numbers are written without an exponent.
    return repr(amount) if isinstance(amount, float) else str(amount)


def _parsed(amounts: Mapping[str, object] | None) -> dict[str, Quantity]:
    found: dict[str, Quantity] = {}
    for name, text in (amounts or {}).items():
        try:
            found[name] = Quantity.parse(_text(text))
        except ValueError:
            continue  # told by _amount_faults
    return found


def core_pod(record: PodRecord, *, uid: str | None = None) -> Pod:
    """The pod as the deciding core knows it, with the API server's defaults.

    WireError for an amount that is none: passed over, it would count as nothing.
    """
    spec = record.spec
    name = record.metadata.name or record.metadata.generateName
    requests = limits = None
    if spec.resources is not None:
        limits = _amounts(name, spec.resources.limits)
        requests = {**limits, **_amounts(name, spec.resources.requests)}
    return Pod(
        uid or record.metadata.uid,
        name,
        record.metadata.namespace or "default",
        tuple(_container(name, c, is_init=True) for c in spec.initContainers or ()),
        tuple(_container(name, c, is_init=False) for c in spec.containers or ()),
        requests,
        limits,
        _amounts(name, spec.overhead),
        Qos(record.status.qosClass) if record.status.qosClass in set(Qos) else None,
    )


def _container(pod: str, record: ContainerRecord, *, is_init: bool) -> Container:
    resources = record.resources or Resources()
    limits: Amounts = _amounts(pod, resources.limits)
    requests: Amounts = {**limits, **_amounts(pod, resources.requests)}
    return Container(
        record.name,
        requests,
        limits,
        is_init,
        is_init and record.restartPolicy == "Always",
    )


def _amounts(pod: str, amounts: Mapping[str, object] | None) -> dict[str, Quantity]:
    found: dict[str, Quantity] = {}
    for name, text in (amounts or {}).items():
        try:
            amount = Quantity.parse(_text(text))
        except ValueError as error:
            raise WireError(
                f"pod {pod[:100]!r}: {name[:100]}: found {str(text)[:100]!r}: {error}"
            ) from error
        if amount.nanos < 0:
            raise WireError(
                f"pod {pod[:100]!r}: {name[:100]}: found {str(text)[:100]!r}, expected 0 or more"
            )
        found[name] = amount
    return found
