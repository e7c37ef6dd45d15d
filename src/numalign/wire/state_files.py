"""The state files of one host, by name, as its kubelet would write them."""

from __future__ import annotations

from numalign.core.host import HostState
from numalign.core.settings import Settings
from numalign.wire import cpu_checkpoint, device_checkpoint, device_holdings, memory_checkpoint


def encoded(state: HostState, settings: Settings) -> dict[str, bytes]:
    """The bytes of each file; the device manager's is only there once it was written."""
    files = {
        cpu_checkpoint.FILE_NAME: cpu_checkpoint.encode(state.cpu, settings),
        memory_checkpoint.FILE_NAME: memory_checkpoint.encode(state.memory, settings),
    }
    if state.devices.saved is not None:
        content = device_holdings.checkpoint_of(state.devices.saved)
        files[device_checkpoint.FILE_NAME] = device_checkpoint.encode(content)
    return files
