"""A token bucket: how often something may happen, with the time as an argument."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class TokenBucket:
    """Tokens that come back at a steady rate up to a limit; full at first."""

    per_second: float
    burst: float
    tokens: float
    at: float

    @classmethod
    def full(cls, *, per_second: float, burst: float, now: float) -> TokenBucket:
        return cls(per_second, burst, burst, now)

    def taken(self, now: float) -> TokenBucket | None:
        """The bucket after one token was taken, None if there is none."""
        refilled = self._at(now)
        return replace(refilled, tokens=refilled.tokens - 1) if refilled.tokens >= 1 else None

    def seconds_until_next(self, now: float) -> float:
        """How long until a token is there; 0 if there is one."""
        return max(0.0, (1 - self._at(now).tokens) / self.per_second)

    def _at(self, now: float) -> TokenBucket:
        gained = max(0.0, now - self.at) * self.per_second
        return replace(self, tokens=min(self.burst, self.tokens + gained), at=max(now, self.at))
