"""``python -m tests.page.plugins DIRECTORY RESOURCE=ID@NODE,…``: device plugins, until killed."""

import asyncio
import sys
from pathlib import Path

from tests.adapters.grpc.plugin_peers import Plugin, device, device_list, register

from numalign.wire.grpc._generated import deviceplugin_v1beta1_pb2 as pb

AGAIN_SECONDS = 0.3


async def gives(request):
    asked = pb.AllocateRequest.FromString(request)
    answers = [pb.ContainerAllocateResponse() for _ in asked.container_requests]
    return pb.AllocateResponse(container_responses=answers).SerializeToString()


async def serve(directory, resources):
    plugins = {}
    for number, text in enumerate(resources):
        resource, _, devices = text.partition("=")
        made = [one.partition("@") for one in devices.split(",")]
        health = {"!": "Unhealthy"}
        plugin = Plugin(answers={"Allocate": gives})
        await plugin.lists.put(
            device_list(
                *(
                    device(name.strip("!"), int(node), health=health.get(name[-1], "Healthy"))
                    for name, _, node in made
                )
            )
        )
        await plugin.serve(directory / f"p{number}.sock")
        plugins[resource] = plugin, f"p{number}.sock"
    known = None
    while True:
        # As plugins do: the socket of an agent that was started again is another one.
        found = _identity(directory / "kubelet.sock")
        if found is not None and found != known:
            for resource, (_, socket) in plugins.items():
                await register(directory / "kubelet.sock", socket, resource)
            known = found
        await asyncio.sleep(AGAIN_SECONDS)


def _identity(path):
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_ctime_ns


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), sys.argv[2:]))
