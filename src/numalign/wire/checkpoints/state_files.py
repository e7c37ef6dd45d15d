"""The state files of one host, by name, as its kubelet would write them."""

from __future__ import annotations

from typing import Final

from numalign.core.kubelet.host import HostState
from numalign.core.settings import Settings
from numalign.wire.checkpoints import (
    cpu as cpu_checkpoint,
)
from numalign.wire.checkpoints import (
    device_holdings,
)
from numalign.wire.checkpoints import (
    devices as device_checkpoint,
)
from numalign.wire.checkpoints import (
    memory as memory_checkpoint,
)

# Where each is below the kubelet's directory, and below that of our agent.
PLACES: Final = {
    cpu_checkpoint.FILE_NAME: cpu_checkpoint.FILE_NAME,
    memory_checkpoint.FILE_NAME: memory_checkpoint.FILE_NAME,
    device_checkpoint.FILE_NAME: device_checkpoint.PLACE,
}
FILE_NAMES: Final = tuple(PLACES)


def encoded(
    state: HostState, settings: Settings, written: HostState | None = None
) -> dict[str, bytes]:
    """The bytes of each file; the device manager's is only there once it was written.

    With the state that was ``written`` last, only the files of what is another value since.
    """
    files: dict[str, bytes] = {}
    if written is None or state.cpu is not written.cpu:
        files[cpu_checkpoint.FILE_NAME] = cpu_checkpoint.encode(state.cpu, settings)
    if written is None or state.memory is not written.memory:
        files[memory_checkpoint.FILE_NAME] = memory_checkpoint.encode(state.memory, settings)
    before = None if written is None else written.devices.saved
    if state.devices.saved is not None and state.devices.saved is not before:
        content = device_holdings.checkpoint_of(state.devices.saved)
        files[device_checkpoint.FILE_NAME] = device_checkpoint.encode(content)
    return files
