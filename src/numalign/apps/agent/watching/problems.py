"""What is wrong just now: each problem has a name, and goes when it is over."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Problems:
    clock: Callable[[], float] = time.monotonic
    _texts: dict[str, tuple[str, float | None]] = field(default_factory=dict)  # with its end

    def __setitem__(self, name: str, text: str) -> None:
        """Notes a problem until it is told to be over."""
        self._texts[name] = text, None

    def note(self, name: str, text: str, seconds: float) -> None:
        """Notes something that has happened, and that nobody will call over, for some time."""
        self._texts[name] = text, self.clock() + seconds

    def __contains__(self, name: str) -> bool:
        return name in self._texts

    def pop(self, name: str, default: None = None) -> None:
        """Calls a problem over."""
        self._texts.pop(name, default)

    def values(self) -> list[str]:
        now = self.clock()
        self._texts = {n: (t, end) for n, (t, end) in self._texts.items() if not _is_over(end, now)}
        return [text for text, _ in self._texts.values()]


def _is_over(end: float | None, now: float) -> bool:
    return end is not None and end <= now
