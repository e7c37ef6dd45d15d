"""Pods of the API server, as far as an exporter needs them."""

from __future__ import annotations

from typing import Final

import msgspec

from numalign.core.cluster.publish.export import KnownPod
from numalign.core.errors import WireError
from numalign.wire.pods.manifests import core_pod
from numalign.wire.pods.records import PodRecord
from numalign.wire.pods.running import STATIC_UID

_DECODER: Final = msgspec.json.Decoder(PodRecord)


def known_pod(data: bytes) -> KnownPod:
    try:
        record = _DECODER.decode(data)
    except msgspec.DecodeError as error:
        raise WireError(f"found no v1.Pod: {error}") from error
    static = (record.metadata.annotations or {}).get(STATIC_UID)
    return KnownPod(core_pod(record), static or record.metadata.uid)
