"""The last moments of an agent over HTTP, and the host at each of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from numalign.apps.agent.views.answers import History
from numalign.apps.agent.views.port import AgentPort
from numalign.apps.past.gauges import series_of
from numalign.apps.past.recorder import MOMENTS_MAX, Recorder
from numalign.apps.past.shown import shown
from numalign.core.errors import WireError
from numalign.web.answers import ProblemError, encoded
from numalign.web.host.looking import costly
from numalign.web.requests import flag, number

ID_MAX: Final = 999_999_999
LIMIT: Final = 200


@dataclass(frozen=True, slots=True)
class Past:
    """What can be asked about the past of an agent; without a recorder nothing is kept."""

    agent: AgentPort
    recorder: Recorder | None

    async def list(self, request: Request) -> Response:
        recorder = self._recorder()
        limit = number(request, "limit", 1, MOMENTS_MAX) or LIMIT
        before = number(request, "before", 0, ID_MAX)
        since = number(request, "since", 0, ID_MAX)
        wants_series = flag(request, "series", default="true")
        known, rows = recorder.moments(), recorder.rows()
        setup, state = self.agent.setup, self.agent.state

        def made() -> bytes:
            found = [
                one
                for one in known
                if (before is None or one.id < before) and (since is None or one.id > since)
            ][-limit:]
            return encoded(
                History(
                    found,
                    found[0].id if found else None,
                    found[-1].id if found else None,
                    len(known),
                    series_of(setup, state.host, rows) if wants_series else None,
                    recorder.problem,
                )
            )

        return await costly(request, None, (), made)

    async def show(self, request: Request) -> Response:
        recorder, machine = self._recorder(), self.agent.machine
        text = request.path_params["moment"]
        wants_trace = flag(request, "trace")
        is_number = text.isascii() and text.isdigit() and len(text) < 10
        try:
            then = await recorder.then(int(text)) if is_number else None
            if then is None:
                error = f"found no moment {text[:40]!r}: it was never there, or is forgotten"
                raise ProblemError(404, "NotFound", error)
            found = then
            return await costly(
                request, None, (), lambda: encoded(shown(found, machine, trace=wants_trace))
            )
        except WireError as error:
            raise ProblemError(404, "NotReadable", str(error)) from error

    def _recorder(self) -> Recorder:
        if self.recorder is None:
            raise ProblemError(404, "NotKept", "this agent keeps no history")
        return self.recorder
