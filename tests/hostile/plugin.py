"""``python -m tests.hostile.plugin DIRECTORY MODE``: a device plugin, good or bad, until killed."""

import asyncio
import random
import sys
from pathlib import Path

from tests.adapters.grpc.plugin_peers import Plugin, RefusalError, device, device_list
from tests.adapters.grpc.plugin_peers import register as ask_to_register

from numalign.wire.grpc._generated import deviceplugin_v1beta1_pb2 as pb

MODES = ("good", "hangs", "refuses", "flaps", "junk")
DEVICES = 4
AGAIN_SECONDS = 0.5


async def gives(_request):
    answer = pb.ContainerAllocateResponse(envs={"GPU": "yes"})
    return pb.AllocateResponse(container_responses=[answer]).SerializeToString()


async def hangs(_request):
    await asyncio.sleep(3600)
    return b""


async def refuses(_request):
    raise RefusalError("not today")


async def says_junk(_request):
    return random.randbytes(50)


ANSWERS = {"hangs": hangs, "refuses": refuses, "junk": says_junk}


async def serve(directory, mode):
    answer = ANSWERS.get(mode, gives)
    options = pb.DevicePluginOptions(
        pre_start_required=mode == "hangs", get_preferred_allocation_available=mode == "junk"
    )
    plugin = Plugin(options=options, answers={"Allocate": answer})
    if mode != "good":
        plugin.answers |= {"PreStartContainer": answer, "GetPreferredAllocation": answer}
    await plugin.lists.put(_list(DEVICES))
    endpoint = directory / "hostile.sock"
    await plugin.serve(endpoint)
    known = None
    while True:
        # As plugins do: the socket of an agent that was started again is another one.
        found = _identity(directory / "kubelet.sock")
        if found is not None and found != known:
            try:
                await ask_to_register(directory / "kubelet.sock", endpoint.name)
                known = found
            except Exception as error:  # the agent may be on its way down
                sys.stderr.write(f"not registered: {error}\n")
        if mode == "flaps":
            await plugin.lists.put(_list(random.randrange(DEVICES + 1)))
        await asyncio.sleep(AGAIN_SECONDS)


def _identity(path):
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_ctime_ns


def _list(count):
    return device_list(*(device(f"d{number}", 0) for number in range(count)))


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), sys.argv[2]))
