"""What ``numalign run`` does: ask the agent for a place, take it, and become the command."""

# ruff: noqa: PLC0415 - what is not always needed is loaded where it is
from __future__ import annotations

import os
import re
import secrets
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from numalign.adapters.local.run_client import AgentAwayError, RunAnswer, ask, process
from numalign.adapters.processes.shim import execute, ids, set_mempolicy
from numalign.core.errors import ConfigError, PeerError
from numalign.core.values import mempolicy
from numalign.core.values.quantity import Quantity

RUN: Final = "numalign.io/run"
MARK: Final = "NUMALIGN_RUN"
POLICIES: Final = ("none", "best-effort", "restricted", "single-numa-node")
REFUSED: Final = 1
AWAY_SECONDS_MAX: Final = 10.0  # a restart of the agent takes less
POLL_SECONDS_MIN: Final = 0.1
POLL_SECONDS_MAX: Final = 1.0
SHOWN_WORDS_MAX: Final = 64
SHOWN_CHARS_MAX: Final = 1024
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_NAME_CHARS_MAX: Final = 50


@dataclass(frozen=True, slots=True)
class Wish:
    command: Sequence[str]
    amounts: Mapping[str, str]
    devices: tuple[str, ...] = ()
    policy: str | None = None
    memory_policy: str | None = None
    name: str | None = None

    def document(self) -> dict[str, Any]:
        """The pod to ask for; ConfigError for an option that says nothing sensible."""
        amounts = {**_checked(self.amounts), **_devices(self.devices)}
        annotations = {RUN: "true"}
        if self.policy is not None:
            if self.policy not in POLICIES:
                expected = ", ".join(POLICIES)
                raise ConfigError(f"--policy: found {self.policy!r}, expected one of {expected}.")
            annotations["numalign.io/topology-policy"] = self.policy
        if self.memory_policy is not None:
            try:
                mempolicy.parsed(self.memory_policy)
            except ValueError as error:
                raise ConfigError(f"--memory-policy: {error}.") from error
            annotations["numalign.io/memory-policy"] = self.memory_policy
        container = {
            "name": "run",
            "command": [_shown(word) for word in self.command[:SHOWN_WORDS_MAX]],
            "workingDir": _directory(),
            "resources": {"limits": amounts},
        }
        suffix = "".join(secrets.choice(_LETTERS) for _ in range(5))
        name = self.name or f"{_stem(self.command[0])}-{suffix}"
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "uid": _uid(), "annotations": annotations},
            "spec": {"restartPolicy": "Never", "containers": [container]},
            # CPUs of its own and memory from some nodes are for Guaranteed pods only; a command is
            # one as soon as it asks for anything, also if it does not limit its memory.
            "status": {"qosClass": "Guaranteed" if amounts else "BestEffort"},
        }


def _uid() -> str:
    text = secrets.token_hex(16)
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def _shown(word: str) -> str:
    return word.encode(errors="surrogateescape").decode(errors="replace")[:SHOWN_CHARS_MAX]


def _stem(command: str) -> str:
    words = re.sub(r"[^a-z0-9]+", "-", command.rpartition("/")[2].lower()).strip("-")
    return words[:_NAME_CHARS_MAX].strip("-") or "run"


def _directory() -> str:
    try:
        return _shown(os.getcwd())  # noqa: PTH109 - quick to load
    except OSError:  # it was removed; the command is told by the kernel, as without us
        return "/"


def _checked(amounts: Mapping[str, str]) -> dict[str, str]:
    for name, text in amounts.items():
        option = {"cpu": "--cpus", "memory": "--memory"}.get(name, f"--{name}")
        try:
            amount = Quantity.parse(text)
        except ValueError as error:
            example = "4" if name == "cpu" else "8Gi"
            raise ConfigError(
                f"{option}: found {text!r}, expected an amount such as {example} ({error})."
            ) from error
        if amount.nanos <= 0:
            raise ConfigError(f"{option}: found {text!r}, expected more than 0.")
    return dict(amounts)


def _devices(texts: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        resource, sign, count = text.rpartition("=")
        is_count = count.isascii() and count.isdigit() and int(count[:9]) > 0
        if not (sign and "/" in resource and is_count):
            raise ConfigError(f"--device: found {text!r}, expected such as nvidia.com/gpu=1.")
        if resource in found:
            raise ConfigError(f"--device: found {resource} twice, expected each once.")
        found[resource] = count
    return found


def run_command(wish: Wish, socket: str, *, waits: bool) -> int:
    """Becomes the command where it fits; gives an exit code only if that does not come about."""
    from shutil import which

    if which(wish.command[0]) is None:
        _say(f"{wish.command[0]}: command not found, or not executable; nothing was asked for")
        return 127
    body: dict[str, Any] = {"pod": wish.document(), "process": process(), "wait": waits}
    uid = body["pod"]["metadata"]["uid"]
    answer = _asked(socket, body, waits=waits)
    if answer.status == 202:
        _say(f"waiting: {_line(answer.value.get('message', ''))}")
        answer = _placed(socket, uid, body)
    if answer.status not in {200, 201}:
        return _refused(answer)
    _become(wish.command, uid, answer.value)


def _asked(socket: str, body: Mapping[str, Any], *, waits: bool) -> RunAnswer:
    """The first answer. An agent that goes away in the middle is asked again when it is back."""
    deadline: float | None = None
    while True:
        try:
            return ask(socket, "POST", "/runs", body)
        except AgentAwayError as error:
            now = time.monotonic()
            if deadline is None and not waits and isinstance(error.__cause__, OSError):
                raise _nobody(socket) from error
            if deadline is None:
                _say("the agent does not answer; waiting for it")
                deadline = now + AWAY_SECONDS_MAX
            if now > deadline and not waits:
                raise _nobody(socket) from error
            time.sleep(POLL_SECONDS_MIN)


def _placed(socket: str, uid: str, body: Mapping[str, Any]) -> RunAnswer:
    """The answer when it fits at last. The agent may be restarted meanwhile."""
    pause = POLL_SECONDS_MIN
    while True:
        time.sleep(pause)
        pause = min(pause * 1.5, POLL_SECONDS_MAX)
        try:
            answer = ask(socket, "GET", f"/runs/{uid}")
        except AgentAwayError:
            answer = _asked(socket, body, waits=True)
            if answer.status == 202:
                continue
            return answer
        if answer.status == 404:
            return RunAnswer(404, {"error": "it was deleted while it waited", "reason": "Deleted"})
        if answer.status != 200 or answer.value.get("state") == "started":
            return answer


def _nobody(socket: str) -> PeerError:
    return PeerError(
        f"{socket}: no agent answers there. Start one with 'numalign agent', or name another with "
        "--socket.",
        retry=True,
    )


def _refused(answer: RunAnswer) -> int:
    reason = answer.value.get("reason", "Unknown")
    _say(f"refused: {_line(answer.value.get('error', ''))} ({reason})")
    return 2 if answer.status in {400, 413} else REFUSED


def _line(text: object) -> str:
    from numalign.cli.main import one_line

    return one_line(str(text))


def _say(text: str) -> None:
    print(f"numalign run: {text}", file=sys.stderr, flush=True)


def _become(command: Sequence[str], uid: str, placed: Mapping[str, Any]) -> NoReturn:
    try:
        _set_mempolicy(placed)
    except OSError as error:
        _say(f"the memory policy {placed.get('memoryPolicy')} cannot be set: {error.strerror}")
        sys.exit(125)
    for name in ("SIGPIPE", "SIGXFSZ"):  # Python ignores these, and exec would keep that
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    env = {**os.environ, **placed.get("env", {}), MARK: uid}
    code, text = execute(list(command), env)
    _say(text)
    sys.exit(code)


def _set_mempolicy(placed: Mapping[str, Any]) -> None:
    """The policy that was asked for; without cgroups at least the nodes that it was given."""
    mode, nodes = placed.get("memoryPolicy", ""), placed.get("nodes", "")
    if mode:
        set_mempolicy(mode, placed.get("policyNodes", ""))
    elif nodes and not set(_allowed_nodes()) <= set(ids(nodes)):
        set_mempolicy("bind", nodes)


def _allowed_nodes() -> list[int]:
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:  # noqa: PTH123
        for text in file:
            if text.startswith("Mems_allowed_list:"):
                return ids(text.split()[1])
    return []
