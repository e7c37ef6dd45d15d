"""A fleet as its pages see it: looked at while somebody watches, and not more than once a second.

What is needed is taken from the scheduler's state in the loop, in milliseconds; the tiles are made
of it in a thread.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from numalign import __version__
from numalign.adapters.daemon.beside import Beside
from numalign.apps.agent.views.answers import Source
from numalign.apps.cluster_view.board import Board, Seen, look
from numalign.apps.cluster_view.one_host import host_of_fleet
from numalign.apps.cluster_view.tiles import FleetAnswer, FleetSource
from numalign.apps.scheduler.driver import Scheduler
from numalign.apps.still.still import StillHost
from numalign.core.cluster.scheduling.fleet import Fleet
from numalign.core.fleet.measures import Mix
from numalign.core.kubelet.host import HostState
from numalign.web.answers import ProblemError
from numalign.web.host.asking import Asking
from numalign.web.host.looking import Looking
from numalign.web.serving.limits import Limits
from numalign.wire.kubernetes.scheduling import ClusterPod

LOOK_SECONDS: Final = 1.0
COUNT_SECONDS_MAX: Final = 0.5  # then shapes on other hosts are counted at the next look
HOSTS_KEPT_MAX: Final = 64
TO_FLEET: Final = "../../"


@dataclass(slots=True)
class FleetHub:
    """The one place that all pages of one process ask."""

    look: Callable[[], Seen]
    pods_on: Callable[[str], Iterable[ClusterPod]]
    source: FleetSource
    mix: Mix = ()
    pool_label: str | None = None
    limits: Limits = field(default_factory=Limits)
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    board: Board = field(init=False)
    _asking: Asking = field(default_factory=Asking)
    _run: str = field(default_factory=lambda: secrets.token_hex(4))
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _beside: Beside = field(default_factory=lambda: Beside("numalign-fleet", 1))
    _looked_at: float = 0.0
    _hosts: OrderedDict[str, tuple[HostState, Looking]] = field(default_factory=OrderedDict)

    def __post_init__(self) -> None:
        self.board = Board(self.mix, self.pool_label)

    def close(self) -> None:
        """Nobody looks any more."""
        self.closing.set()
        self._beside.close()
        self._asking.close()

    async def refresh(self) -> int:
        """The version of what there is to see now."""
        async with self._turn:
            is_fresh = time.monotonic() - self._looked_at < LOOK_SECONDS
            if not self.board.version or (self.source.live and not is_fresh):
                seen = self.look()
                await self._beside.run(self._update, seen)
                while self.board.is_partial and not self.source.live:
                    await self._beside.run(self._update, seen)
                self._looked_at = time.monotonic()
        return self.board.version

    def _update(self, seen: Seen) -> None:
        until = time.monotonic() + COUNT_SECONDS_MAX
        self.board.update(seen, lambda: time.monotonic() < until)

    def answer(self, since: str) -> FleetAnswer:
        """What changed since a version, or everything where that version is not one of ours."""
        run, _, number = since.rpartition("-")
        is_known = run == self._run and number.isdecimal() and int(number) <= self.board.version
        board, seen = self.board, self.board.seen
        hosts, gone = board.since(int(number) if is_known else 0)
        return FleetAnswer(
            version=self.version_text,
            time=time.time(),
            source=self.source,
            total=len(board.tiles),
            full=not is_known,
            hosts=hosts,
            gone=gone if is_known else [],
            shapes=board.shapes(),
            pending=list(seen.pending),
            pending_total=seen.pending_total,
            problems=list(seen.problems),
        )

    @property
    def version_text(self) -> str:
        return f"{self._run}-{self.board.version}"

    async def changes(self, host: str | None = None) -> AsyncIterator[bytes]:
        """An event for every new version, of the fleet or of one host."""
        seen, quiet_since = await self._version_of(host), time.monotonic()
        yield b": numalign fleet\n\n"
        while not self.closing.is_set():
            if self.source.live:
                await self._pause(LOOK_SECONDS)
            else:
                await self._pause(self.limits.ping_seconds)
            found = await self._version_of(host)
            if found != seen:
                name = "fleet_changed" if host is None else "host_changed"
                yield f'event: {name}\ndata: {{"version":"{self.version_text}"}}\n\n'.encode()
            elif time.monotonic() - quiet_since < self.limits.ping_seconds:
                continue
            else:
                problems = len(self.board.seen.problems)
                yield f'event: still\ndata: {{"problems":{problems}}}\n\n'.encode()
            seen, quiet_since = found, time.monotonic()

    async def _pause(self, seconds: float) -> None:
        waiting = asyncio.ensure_future(self.closing.wait())
        try:
            await asyncio.wait({waiting}, timeout=seconds)
        finally:
            waiting.cancel()

    async def _version_of(self, host: str | None) -> int:
        version = await self.refresh()
        if host is None:
            return version
        tile = self.board.tiles.get(host)
        return 0 if tile is None else tile.at

    # One host.

    async def host(self, name: str) -> Looking:
        """A host as its own page has it; ProblemError where it cannot be shown."""
        await self.refresh()
        seen = self.board.known(name)
        if seen is None:
            raise ProblemError(404, "NotFound", f"found no host {name[:253]!r}")
        if seen.now is None:
            error = (
                f"host {name} publishes no placement, so who sits where is not known. Run "
                "'numalign export' there."
            )
            raise ProblemError(404, "NotPublished", error)
        frame, state = seen.now
        kept = self._hosts.get(name)
        if kept is None or kept[0] is not state:
            at = self.source.at
            still = host_of_fleet(name, frame, state, self.pods_on(name), at or time.time())
            kept = state, self._looking(name, still)
            self._hosts[name] = kept
            if len(self._hosts) > HOSTS_KEPT_MAX:
                self._hosts.popitem(last=False)
        self._hosts.move_to_end(name)
        return kept[1]

    def _looking(self, name: str, still: StillHost) -> Looking:
        whole = self.source
        source = Source(
            "fleet",
            name,
            ["events"],
            whole.version,
            at=whole.at,
            live=whole.live,
            fleet=TO_FLEET,
            notes=[*whole.notes, *still.machine.notes],
        )
        return Looking(
            still, self.limits, self.closing, source=source, mix=self.mix, asking=self._asking
        )


def hub_of(
    scheduler: Scheduler, fleet: Fleet, mix: Mix, pool_label: str | None = None, *, kind: str
) -> FleetHub:
    """What a running scheduler knows, for the pages of its fleet."""
    state = scheduler.state

    def pods_on(host: str) -> Iterable[ClusterPod]:
        return [
            state.pods[uid]
            for uid, placed in state.placed.items()
            if placed == host and uid in state.pods
        ]

    return FleetHub(
        lambda: look(state, fleet.frame_and_state, problems=scheduler.problems()),
        pods_on,
        FleetSource(kind, "Fleet", __version__, live=True),
        mix,
        pool_label,
    )
