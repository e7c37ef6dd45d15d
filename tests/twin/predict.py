"""What ``numalign admit`` says about the next pod, compared with what the kubelet then does."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, Final

from numalign.cli.main import main
from numalign.core.settings import Settings
from numalign.core.values.sets import format_list
from numalign.wire.checkpoints import cpu as cpu_checkpoint
from numalign.wire.checkpoints import devices as device_checkpoint
from numalign.wire.checkpoints import memory as memory_checkpoint
from numalign.wire.checkpoints import state_files

REJECTED: Final = "Pod was rejected: "


def predicted(bundle: Path, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The answer of ``numalign admit --on BUNDLE -f POD --static -o json``."""
    path = bundle.with_name("next-pod.json")
    path.write_text(json.dumps(manifest))
    out, said = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(said):
        code = main(["admit", "--on", str(bundle), "-f", str(path), "--static", "-o", "json"])
    assert code in (0, 1) and out.getvalue(), said.getvalue()
    [answer] = json.loads(out.getvalue())
    return dict(answer)


def mispredictions(
    answer: Mapping[str, Any], result: Mapping[str, Any], uid: str, settings: Settings
) -> Iterator[str]:
    """What was predicted otherwise: admission, words, CPUs, memory nodes, devices."""
    message = result["message"] or ""
    theirs = None
    if message.startswith(REJECTED):
        theirs = result["reason"], message.removeprefix(REJECTED)
    ours = None if answer["admitted"] else (answer["reason"], answer["message"])
    if ours != theirs:
        yield f"predicted {ours or 'admission'}, got {theirs or 'admission'}"
        return
    if theirs is not None:
        return
    cpu = cpu_checkpoint.decode(result[cpu_checkpoint.FILE_NAME].encode(), settings)
    memory = memory_checkpoint.decode(result[memory_checkpoint.FILE_NAME].encode(), settings)
    file = device_checkpoint.decode(result[device_checkpoint.FILE_NAME].encode())
    held = state_files.saved_devices(file).entries.get(uid, {})
    for container in answer["containers"]:
        name = container["name"]
        cpus = cpu.entries.get(uid, {}).get(name)
        shown = format_list(cpu.shared if cpus is None else cpus)
        if container["cpus"] != shown:
            yield f"{name}: predicted CPUs {container['cpus']}, got {shown}"
        blocks = memory.entries.get(uid, {}).get(name)
        if blocks is not None:  # else an init container, which has given it back by now
            nodes = sorted({node for block in blocks for node in block.nodes})
            if (container["memoryNodes"] or []) != nodes:
                yield f"{name}: predicted memory nodes {container['memoryNodes']}, got {nodes}"
        devices = {key: sorted(one.ids) for key, one in held.get(name, {}).items()}
        told = {key: sorted(ids) for key, ids in container["devices"].items()}
        if told != devices:
            yield f"{name}: predicted devices {told}, got {devices}"
