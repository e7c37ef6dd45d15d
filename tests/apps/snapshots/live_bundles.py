"""Bundles made from the records of real kubelets: one for the moment before each admission."""

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.paths import VECTORS

from numalign.core.settings import Version
from numalign.core.views.podresources import Allocatable, DeviceUse, View
from numalign.wire import bundle
from numalign.wire.bundle import STATE_FILES, About, Bundle
from numalign.wire.kubelet.config import reduced
from numalign.wire.pods.manifests import load_all
from numalign.wire.pods.records import PodRecord
from numalign.wire.pods.running import reduced as reduced_pod

ENDED = {"Failed", "Succeeded"}
RECORDS = sorted((VECTORS / "live").glob("*.json.gz"))


@dataclass(frozen=True)
class Moment:
    """A host, the pod that came next, and what the real kubelet did with it."""

    bundle: Bundle
    pod: PodRecord | None  # None: the kubelet was killed and started again
    result: dict


def record_of(path: Path) -> dict:
    return json.loads(gzip.decompress(path.read_bytes()))


def moments(record: dict) -> Iterator[Moment]:
    """Every admission of a record, with the bundle of the moment before."""
    return (moment for moment in _steps(record) if moment.pod is not None)


def restarts(record: dict) -> Iterator[Moment]:
    """Every restart of a record, with the bundle of the moment before."""
    return (moment for moment in _steps(record) if moment.pod is None)


def _steps(record: dict) -> Iterator[Moment]:
    state: dict[str, str] = {}
    known: dict[str, PodRecord] = {}
    active: dict[str, PodRecord] = {}
    for step in record["steps"]:
        if "delete" in step:
            known.pop(step["delete"])
            active.pop(step["delete"], None)
            continue
        result = step["result"]
        if "apply" in step:
            found = load_all(json.dumps(step["apply"]).encode(), source="record")[0]
            yield Moment(bundle_of(record, state, active), found, result)
            known[found.metadata.name] = found
            if result["phase"] not in ENDED:
                active[found.metadata.name] = found
        else:
            yield Moment(bundle_of(record, state, active), None, result)
            # All static pods were asked again, also those that were refused before.
            phases = {
                name.removesuffix("-worker-1"): phase for name, (phase, _) in result["pods"].items()
            }
            active = {n: pod for n, pod in known.items() if phases.get(n, "Failed") not in ENDED}
        state |= {name: result[name] for name in STATE_FILES if result.get(name)}


def bundle_of(record, state, active, pods_complete=True) -> Bundle:
    version = Version(record["kubernetes"].rpartition(".")[0])
    files = {bundle.KERNEL_FILES: bundle.kernel_files(record["machine"])}
    files |= {f"state/{name}": text.encode() for name, text in state.items()}
    files[bundle.CONFIG] = bundle.document(reduced(record["config"]))
    files[bundle.POD_RESOURCES] = bundle.pod_resources(View((), allocatable(record)))
    if pods_complete:
        files[bundle.PODS] = bundle.pod_list(tuple(map(reduced_pod, active.values())))
    about = About(
        created_at="2030-01-31T08:00:00Z",
        numalign="test",
        host=record["name"],
        kubernetes=version,
        pods_complete=pods_complete,
    )
    return Bundle(about, files)


def allocatable(record) -> Allocatable:
    """What GetAllocatableResources says of the record's devices."""
    uses = []
    for name, items in record["devices"].items():
        for item in items:
            device, _, nodes = item.partition("=")
            places = [int(node) for node in nodes.split(",")] if nodes else [None]
            uses += [DeviceUse(name, device, node) for node in places]
    return Allocatable(devices=tuple(uses))
