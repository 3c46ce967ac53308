"""HTTP/1.1 on trio by h11: a small server with bounds on the size of a request and on the time that it may take."""

import json
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

import h11
import trio

HEAD_BYTES: Final = 16 * 2**10
BODY_BYTES: Final = 4 * 2**10
REQUEST_SECONDS: Final = 10.0
"""Time for a complete request, from the opening of a connection or from the last answer on; then it is closed."""
SEND_SECONDS: Final = 30.0
"""A browser that takes nothing for this long is disconnected."""
CHUNK_BYTES: Final = 2**16
MOST_CONNECTIONS: Final = 64
GONE: Final = (trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError)
"""The browser went away, or takes nothing."""
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
COMMON_HEADERS: Final = (
    ("content-security-policy", POLICY),
    ("referrer-policy", "no-referrer"),
    ("x-content-type-options", "nosniff"),
    ("cache-control", "no-store"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
)
JSON_TYPE: Final = "application/json"


@dataclass(frozen=True)
class Request:
    """A request that has arrived whole."""

    method: str
    path: str
    """Without the query."""
    query: str
    headers: Mapping[str, str]
    """By name in lower case."""
    body: bytes


@dataclass(frozen=True)
class Response:
    """An answer with its whole content."""

    status: int
    content: bytes
    type: str = JSON_TYPE


class RequestError(Exception):
    """A request that is refused, with the status of the answer."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class HttpConnection:
    """One connection, at the side of the server."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES)
        self._head_only = False

    async def request(self) -> Request | None:
        """Return the next request; None when the browser has closed the connection, or sends no complete one in time.

        The time is REQUEST_SECONDS, so that idle connections keep no others out. RequestError for a request that is
        malformed or too large.
        """
        if self._http.our_state is h11.DONE:
            self._http.start_next_cycle()
        head: object = None
        body = bytearray()
        with trio.move_on_after(REQUEST_SECONDS) as scope:
            try:
                head = await self._event()
                if not isinstance(head, h11.Request):
                    return None
                self._head_only = head.method == b"HEAD"
                while not isinstance(event := await self._event(), h11.EndOfMessage):
                    if isinstance(event, h11.Data):
                        body += event.data
                    if len(body) > BODY_BYTES:
                        raise RequestError(413, f"the content of a request has at most {BODY_BYTES} bytes")
            except h11.RemoteProtocolError as error:
                raise RequestError(error.error_status_hint, "malformed request") from None
        if scope.cancelled_caught or not isinstance(head, h11.Request):
            return None
        path, _, query = head.target.decode("ascii", "replace").partition("?")
        headers = {name.decode("ascii"): value.decode("latin-1") for name, value in head.headers}
        return Request(head.method.decode("ascii", "replace"), path, query, headers, bytes(body))

    async def _event(self) -> object:
        while True:
            event = self._http.next_event()
            if event is not h11.NEED_DATA:
                return event
            # The end of the connection is empty data, which h11 reports as an event of its own.
            self._http.receive_data(bytes(await self._stream.receive_some(CHUNK_BYTES)))

    async def answer(self, response: Response) -> bool:
        """Send an answer; return whether another request may follow on this connection."""
        await self._begin(response.status, response.type, ("content-length", str(len(response.content))))
        # An answer to HEAD has the headers of one with content, and h11 raises an error if content follows.
        if not self._head_only:
            await self._send(h11.Data(data=response.content))
        await self._send(h11.EndOfMessage())
        return self._http.our_state is h11.DONE and self._http.their_state is h11.DONE

    async def begin_stream(self) -> None:
        """Begin an answer of unknown length: a stream of server-sent events."""
        await self._begin(200, "text/event-stream")

    async def send_events(self, text: bytes) -> None:
        """Send a part of the stream."""
        await self._send(h11.Data(data=text))

    async def end_stream(self) -> None:
        """End the stream."""
        await self._send(h11.EndOfMessage())

    async def closed(self) -> None:
        """Wait until the browser closes the connection."""
        while await self._stream.receive_some(CHUNK_BYTES):
            pass

    async def _begin(self, status: int, kind: str, *more: tuple[str, str]) -> None:
        # After a request that was not read to its end, the connection cannot be used for another one.
        closing = [] if self._http.their_state is h11.DONE else [("connection", "close")]
        await self._send(
            h11.Response(status_code=status, headers=[("content-type", kind), *more, *closing, *COMMON_HEADERS])
        )

    async def _send(self, event: h11.Event) -> None:
        data = self._http.send(event)
        with trio.fail_after(SEND_SECONDS):
            await self._stream.send_all(data or b"")


RequestHandler = Callable[[HttpConnection, Request], Awaitable[Response | None]]
"""Gives the answer to a request; None if it has sent one itself: the connection is closed then."""


async def serve_http(listener: socket.socket, answer: RequestHandler) -> None:
    """Serve requests at `listener` until cancelled; connections beyond MOST_CONNECTIONS are closed at once."""
    listener.setblocking(False)
    connections = 0

    async def connected(stream: trio.SocketStream) -> None:
        nonlocal connections
        if connections >= MOST_CONNECTIONS:
            await trio.aclose_forcefully(stream)
            return
        connections += 1
        try:
            async with stream:
                await _converse(HttpConnection(stream), answer)
        # Nothing of it concerns the run.
        except GONE:
            pass
        finally:
            connections -= 1

    await trio.serve_listeners(connected, [trio.SocketListener(trio.socket.from_stdlib_socket(listener))])


async def _converse(connection: HttpConnection, answer: RequestHandler) -> None:
    """Answer the requests of one connection."""
    more = True
    while more:
        try:
            request = await connection.request()
            if request is None:
                return
            response = await answer(connection, request)
            if response is None:
                return
        except RequestError as error:
            response = Response(error.status, json_bytes({"error": str(error)}))
        more = await connection.answer(response)


def require_local(request: Request, host: str, port: int) -> None:
    """Refuse a request under another name than the name of this server, or from a page of another server."""
    hosts = (f"{host}:{port}", f"localhost:{port}")
    named = request.headers.get("host", "")
    # A page of another site can make its own name resolve to this address; the name then shows here.
    if named not in hosts:
        raise RequestError(403, f"expected the host {hosts[0]}")
    origin = request.headers.get("origin")
    if origin is None and request.method != "GET":
        raise RequestError(403, "expected an origin")
    if origin is not None and origin != f"http://{named}":
        raise RequestError(403, "requests from other pages are refused")


def json_bytes(value: object) -> bytes:
    """Encode a value as compact JSON."""
    return json.dumps(value, separators=(",", ":")).encode()
