"""The server of the page of a watched run: files of the page, the picture, a stream of events, and requests.

It runs in a thread with an event loop of its own, so that neither a slow browser nor a long step makes the other wait.
The server reads `Frames` and `WatchState` as the run fills them, and writes nothing but requests into the session.
"""

import hmac
import json
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from typing import Any, Final
from urllib.parse import parse_qs

import trio

from coordinator.features.base import Metric
from coordinator.live.frames import Frames
from coordinator.live.http import (
    BODY_BYTES,
    GONE,
    JSON_TYPE,
    HttpConnection,
    Request,
    RequestError,
    Response,
    json_bytes,
    require_local,
    serve_http,
)
from coordinator.live.opening import ADDRESS
from coordinator.live.picture import node_of, picture_of, status_of
from coordinator.live.session import WatchState
from coordinator.live.theory import Prediction, Predictor, measure_so_far, steps_of
from coordinator.reports.theme import colour_variables
from emunode.errors import ScenarioError
from emunode.model import Step

MOST_WATCHERS: Final = 16
"""Streams of events at once."""
MOST_REQUESTS_PER_SECOND: Final = 100
BATCH_BYTES: Final = 2**20
"""Frames that are sent to a watcher at once."""
LEAST_MEASURE_SECONDS: Final = 0.2
"""Shortest time between two measurements; and they take at most a third of the time of a processor."""
LEAVE_SECONDS: Final = 5.0
"""Seconds that a page has to come back, as when it is loaded again, before its watcher counts as gone."""
FLUSH_SECONDS: Final = 3.0
"""How long the end of a run waits for watchers to take the remaining frames."""
TYPES: Final = {"html": "text/html; charset=utf-8", "css": "text/css; charset=utf-8", "js": "text/javascript"}
PAGE: Final = {"/": "index.html", **{f"/{name}": name for name in (
    "page.css", "page.js", "map.js", "history.js", "connection.js", "panel.js", "keys.js", "legend.js",
)}}  # fmt: skip
SHARED: Final = {f"/{name}": name for name in ("element.js", "marks.js", "viewport.js")}
"""Modules that the page has in common with reports."""
THEME: Final = "/theme.css"


@dataclass
class WatchedRun:
    """One run of a page: the watched run, or a branch of the run before."""

    session: WatchState
    frames: Frames
    branch_step: Step | None = None
    """The last step that a branch shares with the run before."""
    again: bool = False
    """Whether Start again made it: the first run without the faults of the page."""
    result: dict[str, Any] | None = None
    """How the run ended."""


class Server:
    """Serves the runs of a page at `listener`: the last one of `runs` is steered, and another thread may append one.
    `requested` is called after each request that changed its session. Who has the `token` may watch and steer; the `ticket`
    is exchanged for it once.
    """

    def __init__(
        self,
        runs: Sequence[WatchedRun],
        listener: socket.socket,
        token: str,
        ticket: str,
        requested: Callable[[], None],
    ) -> None:
        self._runs = runs
        self._plan = runs[0].session.plan
        self._listener = listener
        self._token = token
        self._ticket = ticket
        self._requested = requested
        self._changed = trio.Event()
        self._scope = trio.CancelScope()
        self._watchers = 0
        self._left = -LEAVE_SECONDS
        """When the last watcher left."""
        self._prediction = Prediction()
        self._metrics: Mapping[str, Metric] = {}
        self._measured = 0
        """The last step that the metrics count."""
        self._claims: dict[str, Any] = self._prediction.beside(self._metrics)
        self._finished = False
        """Whether the last run has ended and no branch may follow."""
        self._allowed, self._allowed_since = float(MOST_REQUESTS_PER_SECOND), 0.0

    @property
    def _session(self) -> WatchState:
        return self._runs[-1].session

    # --- life ------------------------------------------------------------------------------------------------------

    async def serve(self) -> None:
        """Serve until `finish`."""
        with self._scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._predict)
                nursery.start_soon(self._measure)
                await serve_http(self._listener, self._answer)

    def changed(self) -> None:
        """Let watchers look for news."""
        self._changed.set()
        self._changed = trio.Event()

    @property
    def is_watched(self) -> bool:
        """Whether a page is open, or was in the last LEAVE_SECONDS. Any thread may ask."""
        return self._watchers > 0 or time.monotonic() - self._left < LEAVE_SECONDS

    def finish(self) -> None:
        """Stop when watchers know how the last run ended, or after FLUSH_SECONDS."""
        self._finished = True
        self.changed()
        self._scope.deadline = trio.current_time() + (FLUSH_SECONDS if self._watchers else 0)

    # --- predictions and measurements ------------------------------------------------------------------------------

    async def _predict(self) -> None:
        """Keep the claims up to date, at once for new faults."""
        predictor, known = Predictor(), None
        while True:
            changed, session = self._changed, self._session
            plan = session.plan
            if (session, plan.scenario.fault) == known:
                await changed.wait()
                continue
            known = session, plan.scenario.fault
            session.expect(plan.scenario.fault, await trio.to_thread.run_sync(steps_of, plan, abandon_on_cancel=True))
            self._requested()
            self._prediction = await trio.to_thread.run_sync(predictor.predict, plan, abandon_on_cancel=True)
            self._compare()

    async def _measure(self) -> None:
        """Measure the run so far, from time to time."""
        known: object = None
        while True:
            changed, began, watched = self._changed, trio.current_time(), self._runs[-1]
            plan, count = watched.session.plan, watched.frames.count
            # The messages due to a node depend on the faults.
            if (watched, count, plan.scenario.fault) == known:
                await changed.wait()
                continue
            known = watched, count, plan.scenario.fault
            arguments = plan, *watched.frames.journal()
            self._metrics = await trio.to_thread.run_sync(measure_so_far, *arguments, abandon_on_cancel=True)
            self._measured = count
            self._compare()
            await trio.sleep(max(LEAST_MEASURE_SECONDS, 2 * (trio.current_time() - began)))

    def _compare(self) -> None:
        self._claims = {**self._prediction.beside(self._metrics), "step": self._measured}
        self.changed()

    # --- connections -----------------------------------------------------------------------------------------------

    async def _answer(self, connection: HttpConnection, request: Request) -> Response | None:
        require_local(request, ADDRESS, self._listener_port)
        if request.path == "/events":
            self._require_token(request, "GET")
            await self._stream(connection)
            return None
        return await self._response(request)

    async def _response(self, request: Request) -> Response:
        try:
            return await self._content(request)
        except RequestError:
            raise
        # A mistake in answering one request ends neither the run nor the pages of other watchers.
        except Exception as error:
            raise RequestError(500, f"{type(error).__name__}: {error}") from error

    async def _content(self, request: Request) -> Response:
        if request.path in PAGE or request.path in SHARED or request.path == THEME:
            if request.method != "GET":
                raise RequestError(405, "expected GET")
            return page_file(request.path)
        if request.path == "/token":
            self._require_token(request, "POST", self._ticket)
            self._ticket = ""
            return Response(200, json_bytes(self._token))
        if request.path == "/picture":
            self._require_token(request, "GET")
            return Response(200, await trio.to_thread.run_sync(lambda: self._picture))
        if request.path == "/node":
            self._require_token(request, "GET")
            return Response(200, json_bytes(node_of(self._plan.topology, self._rank(request.query))))
        if request.path == "/request":
            self._require_token(request, "POST")
            return self._change(request)
        raise RequestError(404, "there is no such page")

    @cached_property
    def _picture(self) -> bytes:
        return json_bytes(picture_of(self._plan))

    def _rank(self, query: str) -> int:
        text = parse_qs(query).get("rank", [""])[0]
        # `isdigit` alone is true of "²", but `int` makes no number of it.
        if not (text.isascii() and text.isdigit()) or len(text) > 9 or int(text) >= self._plan.topology.order:
            raise RequestError(400, f"rank: expected a whole number below {self._plan.topology.order}")
        return int(text)

    def _change(self, request: Request) -> Response:
        """Carry out a request that steers the run."""
        now = trio.current_time()
        earned = (now - self._allowed_since) * MOST_REQUESTS_PER_SECOND
        self._allowed, self._allowed_since = min(float(MOST_REQUESTS_PER_SECOND), self._allowed + earned), now
        if self._allowed < 1:
            raise RequestError(429, f"at most {MOST_REQUESTS_PER_SECOND} requests per second")
        self._allowed -= 1
        if request.headers.get("content-type", "").partition(";")[0].strip() != JSON_TYPE:
            raise RequestError(415, f"expected {JSON_TYPE}")
        try:
            content = json.loads(request.body)
            if not isinstance(content, dict):
                raise ScenarioError("request", content, "expected a JSON object")
            self._session.request(content)
        except ScenarioError as error:
            raise RequestError(400, str(error)) from None
        except (ValueError, RecursionError):
            raise RequestError(400, f"expected JSON of at most {BODY_BYTES} bytes") from None
        self._requested()
        self.changed()
        return Response(200, json_bytes(status_of(self._session.status())))

    # --- who may ask -----------------------------------------------------------------------------------------------

    @cached_property
    def _listener_port(self) -> int:
        port: int = self._listener.getsockname()[1]
        return port

    def _require_token(self, request: Request, method: str, token: str | None = None) -> None:
        if request.method != method:
            raise RequestError(405, f"expected {method}")
        given = request.headers.get("authorization", "").encode("latin-1", "replace")
        wanted = self._token if token is None else token
        if not wanted or not hmac.compare_digest(given, f"Bearer {wanted}".encode()):
            raise RequestError(403, "the token of this run is missing or wrong; use the address that the run printed")

    # --- watchers --------------------------------------------------------------------------------------------------

    async def _stream(self, connection: HttpConnection) -> None:
        if self._watchers >= MOST_WATCHERS:
            raise RequestError(503, f"at most {MOST_WATCHERS} pages can watch a run at once")
        self._watchers += 1
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._tell, connection, nursery.cancel_scope)
                await connection.closed()
                nursery.cancel_scope.cancel()
        except* GONE:
            pass
        finally:
            self._watchers, self._left = self._watchers - 1, time.monotonic()
            if self._finished and not self._watchers:
                self._scope.cancel()

    async def _tell(self, connection: HttpConnection, scope: trio.CancelScope) -> None:
        """Send a watcher everything from the first frame of the first run on, as fast as it takes it.

        A watcher has no queue: it has a run and a place in its frames, and otherwise gets the newest state only.
        """
        await connection.begin_stream()
        number, place, version, claims, told = 0, 0, -1, None, -1
        while True:
            changed, finished, count = self._changed, self._finished, len(self._runs)
            watched = self._runs[number]
            status = watched.session.status()
            first, frames = watched.frames.since(place, BATCH_BYTES)
            events = []
            if frames:
                place = first + len(frames) - (1 if place < first else 0)
                events.append(_event("frames", b"[" + b",".join(frames) + b"]"))
            if status.version != version:
                version = status.version
                events.append(_event("status", json_bytes(status_of(status))))
            if self._claims is not claims and number + 1 == count:
                claims = self._claims
                events.append(_event("claims", json_bytes(claims)))
            if events:
                await connection.send_events(b"".join(events))
            elif watched.result is not None and told < number:
                told = number
                await connection.send_events(_event("finished", json_bytes(watched.result)))
            elif number + 1 < count:
                number, place = number + 1, 0
                branch = {"step": self._runs[number].branch_step, "again": self._runs[number].again}
                await connection.send_events(_event("branch", json_bytes(branch)))
            elif finished:
                await connection.end_stream()
                scope.cancel()
                return
            else:
                await changed.wait()


def page_file(path: str) -> Response:
    """Return one file of the page; they are the same for every run."""
    if path == THEME:
        return Response(200, colour_variables().encode(), TYPES["css"])
    if path in SHARED:
        content = (files("coordinator.reports") / "templates" / "shared" / SHARED[path]).read_bytes()
        return Response(200, content, TYPES["js"])
    name = PAGE[path]
    content = (files("coordinator.live") / "page" / name).read_bytes()
    return Response(200, content, TYPES[name.rpartition(".")[2]])


def _event(name: str, data: bytes) -> bytes:
    """Return a server-sent event; JSON has no line breaks."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), data)
