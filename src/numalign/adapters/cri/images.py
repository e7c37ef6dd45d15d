"""Images of containers: there, fetched, or the kubelet's reason why not."""

from __future__ import annotations

import asyncio
from typing import Final

from numalign.adapters.cri.client import CriClient
from numalign.core.errors import PeerError, PostponedError
from numalign.wire.grpc.cri_values import ContainerSpec, ImageFound, PullPolicy

PULLS_MAX: Final = 2  # at the same time


class Images:
    def __init__(self, client: CriClient) -> None:
        self._client = client
        self._pulls = asyncio.Semaphore(PULLS_MAX)

    async def ready(self, spec: ContainerSpec, policy: PullPolicy, stopping: asyncio.Event) -> str:
        """The id of a container's image, fetched if that is wanted; PostponedError without one.

        Nobody waits for a pull once the container shall stop.
        """
        if not spec.image:
            raise PostponedError("found no image, expected one", reason="InvalidImageName")
        found = await self._client.image(spec.image)
        if policy is PullPolicy.ALWAYS or (found is None and policy is PullPolicy.IF_MISSING):
            found = await self._pull_unless(spec.image, stopping)
        if found is None:
            raise PostponedError(
                f"the image {spec.image} is not there, and its imagePullPolicy is Never",
                reason="ErrImageNeverPull",
            )
        _check_user(spec, found)
        return found.id

    async def _pull_unless(self, image: str, stopping: asyncio.Event) -> ImageFound:
        pulling = asyncio.create_task(self._pull(image))
        stopped = asyncio.create_task(stopping.wait())
        try:
            await asyncio.wait({pulling, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if pulling.done():
                return pulling.result()
        finally:
            for task in (pulling, stopped):
                task.cancel()
            await asyncio.gather(pulling, stopped, return_exceptions=True)
        raise PeerError("it was stopped while its image was being pulled")

    async def _pull(self, image: str) -> ImageFound:
        async with self._pulls:
            try:
                reference = await self._client.pull(image)
                return await self._client.image(image) or ImageFound(reference)
            except PeerError as error:
                text = f"failed to pull the image {image}: {error}"
                raise PostponedError(text, reason="ErrImagePull") from error


def _check_user(spec: ContainerSpec, image: ImageFound) -> None:
    security = spec.security
    is_root = image.is_root if security.user is None else security.user == 0
    if security.must_not_be_root and is_root is not False:
        who = "root" if is_root else f"{image.user_name!r}, which may be root"
        raise PostponedError(
            f"runAsNonRoot is set, but it would run as {who}; set runAsUser to a number",
            reason="CreateContainerConfigError",
        )
