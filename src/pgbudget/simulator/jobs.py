"""Answers that are generated in the background."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pgbudget.simulator.dialect import Deferred, Dialect, Refused
from pgbudget.simulator.replay import recorded

if TYPE_CHECKING:
    from pgbudget.simulator.endpoint import Simulator


class Job:
    """One such answer; ``body`` is how it stands.

    ``task`` generates it. ``left`` is called when it is cancelled.
    """

    def __init__(self, rendering: Deferred, task: asyncio.Task[Any] | None, left: Callable[[], None]) -> None:
        self.rendering = rendering
        self.task = task
        self._left = left
        self._ended = False
        self.body = rendering.pending("queued" if task is None else "in_progress")

    def end(self, body: bytes) -> None:
        """It stays like this."""
        self.body, self._ended = body, True

    def fail(self, error: Any) -> None:
        """It stays without output."""
        self.end(self.rendering.failed(error))

    def cancel(self) -> None:
        """Generate no more; what has ended stays as it is."""
        if self.task is not None and not self._ended:
            self.task.cancel()
            self._left()
            self.end(self.rendering.pending("cancelled"))


def routes(simulator: Simulator, dialect: Dialect) -> list[Route]:
    """To look at answers of the background, to cancel and to delete them.

    Not calls of their own, so not in the tally. Of the behaviours only waits, errors and replays are theirs.
    """

    def find(request: Request) -> Job:
        job = simulator.jobs.get(request.path_params["id"])
        if job is None:
            raise Refused(404, f"Response with id '{request.path_params['id']}' not found.")
        return job

    def show(request: Request) -> bytes:
        if request.query_params.get("stream") == "true":
            raise Refused(400, "A stream that was left cannot be taken up again here.", param="stream")
        return find(request).body

    def cancel(request: Request) -> bytes:
        job = find(request)
        job.cancel()
        return job.body

    def delete(request: Request) -> bytes:
        cancel(request)
        del simulator.jobs[request.path_params["id"]]
        return json.dumps({"id": request.path_params["id"], "object": "response", "deleted": True}).encode()

    def route(path: str, method: str, action: Callable[[Request], bytes]) -> Route:
        async def answer(request: Request) -> Response:
            request_id = f"req_{simulator.next_request()}"
            try:
                status, body = await _act(simulator, dialect, request, action)
            except Refused as refused:
                status, body = refused.status, json.dumps(dialect.error(refused, request_id)).encode()
            return Response(body, status, {dialect.request_header: request_id}, "application/json")

        return Route(path, answer, methods=[method])

    one = f"{dialect.path}/{{id}}"
    return [route(one, "GET", show), route(one, "DELETE", delete), route(f"{one}/cancel", "POST", cancel)]


async def _act(
    simulator: Simulator, dialect: Dialect, request: Request, action: Callable[[Request], bytes]
) -> tuple[int, bytes]:
    dialect.check_key(request.headers, simulator.key)
    try:
        behaviour = simulator.behaviours.of(request.headers.get("x-simulate", ""))
        recording = recorded(behaviour.replay) if behaviour.replay is not None else None
    except ValueError as error:
        raise Refused(400, f"x-simulate: {error}", param="x-simulate") from None
    await asyncio.sleep(behaviour.latency_ms / 1000)
    if behaviour.status != 200:
        if behaviour.error_body is None:
            raise Refused(behaviour.status, f"simulated status {behaviour.status}")
        return behaviour.status, json.dumps(behaviour.error_body).encode()
    if recording is not None:
        return recording.status, recording.body
    return 200, action(request)
