"""HTTP connections of the live page and of metrics: whatever a client leaves out, it is gone ten seconds later."""

import pytest
import trio
import trio.testing

from coordinator.live.http import REQUEST_SECONDS, HttpConnection, Request

WHOLE = b"GET / HTTP/1.1\r\nhost: here\r\n\r\n"


async def served(parts: list[bytes], pause: float) -> tuple[Request | None, float]:
    """Return the request that arrives in these parts, with a pause before each, and the time until it is taken or given
    up.
    """
    client, server = trio.testing.memory_stream_pair()
    began = trio.current_time()
    found: Request | None = None

    async def send() -> None:
        for part in parts:
            await trio.sleep(pause)
            await client.send_all(part)
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send)
        found = await HttpConnection(server).request()
        nursery.cancel_scope.cancel()
    return found, trio.current_time() - began


@pytest.mark.parametrize(
    ("parts", "pause"),
    [
        ([], 0.0),
        ([WHOLE[:9]], 9.0),
        ([WHOLE[at : at + 1] for at in range(len(WHOLE))], 1.0),
        ([b"POST / HTTP/1.1\r\nhost: here\r\ncontent-length: 5\r\n\r\n", b"x"], 4.0),
    ],
)
async def test_a_connection_without_a_complete_request_is_given_up(
    autojump_clock: trio.testing.MockClock, parts: list[bytes], pause: float
) -> None:
    del autojump_clock
    request, seconds = await served(parts, pause)
    assert request is None
    assert seconds == pytest.approx(REQUEST_SECONDS)


async def test_a_request_that_is_complete_in_time_is_taken(autojump_clock: trio.testing.MockClock) -> None:
    del autojump_clock
    request, seconds = await served([WHOLE[:9], WHOLE[9:]], 4.0)
    assert request is not None
    assert request.path == "/"
    assert seconds == pytest.approx(8.0)
