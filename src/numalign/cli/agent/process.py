"""The process behind ``numalign agent`` and ``numalign up``: agent and API in one event loop."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from numalign.adapters.local import paths, trial
from numalign.adapters.local.private import check_contents, check_private, make_private
from numalign.adapters.local.shapes import read_mix
from numalign.adapters.sources.discovery import discover
from numalign.apps.agent.metrics import AgentMetrics
from numalign.apps.agent.notes import Note
from numalign.apps.agent.run import Options, Parts, assemble, read_config, run
from numalign.apps.agent.saved import STATE_FILES
from numalign.apps.agent.starting.check import Asked, compared
from numalign.apps.past.recorder import Recorder
from numalign.cli.agent.agent import ListenOptions, check_runtime, socket_of
from numalign.cli.daemon import address, configure_logs
from numalign.cli.output import command_name
from numalign.core.asker import Asker
from numalign.core.errors import CorruptCheckpointError, NumalignError, PeerError, StartError
from numalign.core.fleet.measures import Mix
from numalign.core.kubelet.start_advice import with_advice
from numalign.web.server import Tcp, serve
from numalign.web.serving.tls import Tls, tls_of

LOCK_NAME: Final = "agent.lock"
# What the agent believes or runs when it starts; whoever wrote it could have it do anything.
OWN_FILES: Final = ("*", "runs/*", "runs/*/*", "runs/*/*/*.json", "runs/*/*/spec")
_LOCK_FLAGS: Final = os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
END_SECONDS_MAX: Final = 15.0


def run_agent(  # noqa: PLR0913 - the options of a command
    *,
    config: Path | None,
    pods: Path | None,
    state_dir: Path | None,
    runtime: str,
    machine: str | None,
    listening: ListenOptions,
    ends_pods: bool,
    cri_socket: str | None = None,
    objects: Path | None = None,
    pods_as: Asker | None = None,
) -> int:
    """Runs an agent until it is told to stop; the exit code."""
    check_runtime(runtime)
    tcp = address(listening.listen)
    tls = tls_of(listening.tls_cert, listening.tls_key, None)
    directory = (state_dir or paths.state_directory()).absolute()
    options = Options(
        directory,
        pods,
        config,
        machine,
        runtime,
        socket_of(cri_socket),
        objects_dir=objects,
        pods_as=pods_as,
    )
    mix = read_mix(listening.shapes)
    lines_dropped = configure_logs()
    make_private(directory)
    is_trial = pods_as is not None
    socket = paths.socket_path(directory)
    noted = trial.noted(socket) if is_trial else contextlib.nullcontext()
    try:
        with alone(directory), noted:
            where = None if tcp is None else _tcp(directory, tcp, tls, listening.allowed_host or ())
            asyncio.run(_served(options, where, lines_dropped, mix, ends_pods=ends_pods))
    except (StartError, CorruptCheckpointError) as error:
        print(f"error: {with_advice(str(error))}", file=sys.stderr)
        _say_what_to_do(options)
        return 1
    return 0


def _say_what_to_do(options: Options) -> None:
    """Both values where the machine or the configuration has changed, and the ways to go on."""
    directory = options.state_dir
    if not any((directory / name).exists() for name in STATE_FILES):
        return
    with contextlib.suppress(NumalignError):
        asked = Asked(directory, read_config(options.config), discover(options.machine))
        found = compared(asked)
        for difference in found:
            print(f"  {difference.text}", file=sys.stderr)
        if found:
            print(
                "To go on with the saved pods, give the host back what it had (CPUs online again, "
                "memory, configuration). To start without them: numalign state reset "
                f"--state-dir {directory}",
                file=sys.stderr,
            )
    print(
        f"hint: `numalign state check --state-dir {directory}` says what would change, "
        f"`numalign state reset --state-dir {directory} --dry-run` what a clean start "
        "would remove",
        file=sys.stderr,
    )


@contextlib.contextmanager
def alone(directory: Path) -> Iterator[None]:
    """Holds the state directory for one agent; ConfigError if it is not ours alone."""
    check_private(directory)
    check_contents(directory, OWN_FILES)
    # For reading only: a file that is open for writing would keep the filesystem from being
    # mounted read-only.
    descriptor = os.open(directory / LOCK_NAME, _LOCK_FLAGS, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise PeerError(
            f"{directory}: another agent runs with this state directory. "
            "Stop it first, or give another one with --state-dir."
        ) from error
    try:
        yield
    finally:
        os.close(descriptor)


def _tcp(
    directory: Path, address: tuple[str, int], tls: Tls | None, allowed_hosts: Sequence[str]
) -> Tcp:
    read_token = "" if tls is None else paths.token_of(directory, paths.READ_TOKEN_NAME)
    token = paths.token_of(directory)
    return Tcp(address, token, read_token, tls, frozenset(allowed_hosts))


async def _served(
    options: Options,
    tcp: Tcp | None,
    lines_dropped: Callable[[], int],
    mix: Mix,
    *,
    ends_pods: bool,
) -> None:
    parts = await assemble(options)
    agent = parts.agent
    metrics = AgentMetrics(agent.setup, lines_dropped)
    recorder = Recorder(agent.setup, options.state_dir, agent.machine.name)

    def note(one: Note, seconds: float) -> None:
        metrics.note(one, agent.state, seconds)
        recorder.heard(one, agent.state, agent.now())

    agent.journal.on_note = note
    parts.agent.on_registered = metrics.registered
    parts.agent.on_allocated = metrics.allocated
    parts.agent.on_asked = metrics.asked
    parts.agent.pace.on_delay = metrics.delayed
    for text in parts.notes:
        print(f"note: {text}", file=sys.stderr)
    api = serve(
        parts.agent,
        unix_socket=paths.socket_path(options.state_dir),
        tcp=tcp,
        metrics=metrics,
        mix=mix,
        recorder=recorder,
        on_started=lambda addresses: _say_where(options, addresses, ends_pods=ends_pods),
    )
    kept = recorder.run(lambda: agent.state, agent.now)
    try:
        await run(parts, api, kept, before_end=_end_pods(parts) if ends_pods else None)
    finally:
        await recorder.finish()


def _say_where(options: Options, addresses: Sequence[str], *, ends_pods: bool) -> None:
    socket = paths.socket_path(options.state_dir)
    here = "" if trial.agent_socket()[0] == socket else f" --socket {socket}"
    command = command_name()
    example = "too-big" if ends_pods else "NAME"
    after = "the example pods end with it" if ends_pods else "the pods go on"
    page = next((address for address in addresses if address.startswith("http")), None)
    lines = [
        f"The agent runs; its state is in {options.state_dir}",
        f"  who sits where:   {command} get cpus{here}",
        f"  pods:             {command} get pods{here}",
        f"  why was it so:    {command} describe pod {example}{here}",
        f"  stop it:          Ctrl-C or kill {os.getpid()}; {after}",
    ]
    if page:
        lines.append(f"  in a browser:     {page}")
    if page and page.startswith("https:"):
        token = options.state_dir / paths.READ_TOKEN_NAME
        lines.append(f"  from elsewhere:   with the bearer token in {token}")
    print("\n".join(lines), flush=True)


async def _end_pods(parts: Parts) -> None:
    """Ends every pod of the manifests and waits until all are gone; others are left alone."""
    agent = parts.agent
    ours = [uid for uid, pod in agent.state.pods.items() if pod.source.startswith("file:")]
    for uid in ours:
        await agent.delete(uid)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(END_SECONDS_MAX):
            while any(uid in agent.state.pods for uid in ours):
                await asyncio.sleep(0.05)
