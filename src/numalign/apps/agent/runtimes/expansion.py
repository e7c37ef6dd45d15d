"""$(NAME) in commands, arguments and variables, replaced as Kubernetes does, within limits.

A kilobyte of variables that name each other four times asks for gigabytes. No kernel would start a
process with so much, so the limits are Linux' own: of one text, and of all together.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Final

from numalign.core.errors import ConfigError

TEXT_BYTES_MAX: Final = 131_071  # MAX_ARG_STRLEN of Linux, less the zero at its end
ALL_BYTES_MAX: Final = 6 * 1024 * 1024  # what execve takes at most, however large the stack
_REFERENCE: Final = re.compile(r"\$\$|\$\(([^)]*)\)")
_DOLLAR: Final = re.compile(r"\$\$")


def arguments(texts: Iterable[str], env: Mapping[str, str]) -> tuple[str, ...]:
    """The words of a command with their variables replaced."""
    found: list[str] = []
    total = 0
    for text in texts:
        found.append(expanded(text, env, "command"))
        total = counted(total, found[-1], "command")
    return tuple(found)


def counted(total: int, text: str, where: str) -> int:
    """The length of all texts so far with this one; ConfigError if that is too much."""
    if total + len(text) > ALL_BYTES_MAX:
        raise ConfigError(
            f"{where}: found more than 6 MiB with $(NAME) replaced; Linux takes no more"
        )
    return total + len(text)


def expanded(text: str, env: Mapping[str, str], where: str) -> str:
    """The text with $(NAME) replaced; unknown names stay, $$ is a dollar.

    ConfigError if it becomes longer than the kernel takes; no more than that is ever built.
    """
    parts: list[str] = []
    total = at = 0
    # Behind the last bracket no name can end; to look for it from every "$(" would take for ever.
    end = text.rfind(")") + 1
    for match in chain(_REFERENCE.finditer(text, 0, end), _DOLLAR.finditer(text, end)):
        parts += [text[at : match.start()], _replaced(match, env)]
        at = match.end()
        total += len(parts[-1]) + len(parts[-2])
        if total > TEXT_BYTES_MAX:
            break
    else:
        parts.append(text[at:])
        found = "".join(parts)
        if len(found.encode()) <= TEXT_BYTES_MAX:
            return found
    raise ConfigError(
        f"{where[:100]}: found more than 131,071 bytes with $(NAME) replaced; Linux takes no more "
        "in one argument or variable"
    )


def _replaced(match: re.Match[str], env: Mapping[str, str]) -> str:
    if match[0] == "$$":
        return "$"
    return env.get(match[1], match[0])
