"""Metrics of a run: served while it runs, or written to a file at its end.

with MetricsServer(listener, text) as server:
    print(server.url)
    ..
"""

import socket
from collections.abc import Callable
from ipaddress import ip_address
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import trio

from coordinator.execution.run_metrics import CONTENT_TYPE
from coordinator.history.stored.writing import replace_file
from coordinator.live.http import HttpConnection, Request, RequestError, Response, require_local, serve_http
from coordinator.live.loop_thread import LoopThread
from emunode.errors import RunError

PATH: Final = "/metrics"
STOP_SECONDS: Final = 5.0


class MetricsServer:
    """Answers GET /metrics with `text()`, in a thread of its own. The socket is closed on leaving the context.

    On the loopback, requests under another host name are refused, so that no page of another site can read the metrics.
    """

    def __init__(self, listener: socket.socket, text: Callable[[], str]) -> None:
        self._listener, self._text = listener, text
        self._address, self._port = listener.getsockname()[:2]
        self._thread = LoopThread("metrics", self._serve)
        self._scope = trio.CancelScope()

    @property
    def url(self) -> str:
        """Where the metrics are."""
        host = f"[{self._address}]" if ":" in self._address else self._address
        return f"http://{host}:{self._port}{PATH}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.call(self._scope.cancel)
        self._thread.join(STOP_SECONDS)
        self._listener.close()

    async def _serve(self) -> None:
        with self._scope:
            await serve_http(self._listener, self._answer)

    async def _answer(self, _connection: HttpConnection, request: Request) -> Response:
        if ip_address(self._address).is_loopback:
            require_local(request, f"[{self._address}]" if ":" in self._address else self._address, self._port)
        if request.path != PATH:
            raise RequestError(404, f"the metrics are at {PATH}")
        if request.method != "GET":
            raise RequestError(405, "expected GET")
        return Response(200, self._text().encode(), CONTENT_TYPE)


def write_metrics(path: Path, text: str) -> None:
    """Replace a file as a whole, so that its readers never see half of it; RunError if that is not possible."""
    try:
        replace_file(path, text, named=True)
    except OSError as error:
        raise RunError(f"the metrics cannot be written to {path}: {error.strerror}") from None
