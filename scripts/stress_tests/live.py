"""Watched runs whose page has restless clients: its scenario must repeat the run in memory.

One client clicks random faults and steps, one reads all events, one leaves in the middle, one never reads what it asked
for, and one sends bytes that are no HTTP. Then the run goes on to its end. The reader must have been told its journal hash.
"""

import contextlib
import http.client
import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Any

from stress_tests.common import DEADLINE_SECONDS, Attempt, Budget, Row, attempt_of
from tests.helpers.command_line import fields

RUNS = (
    "star:3 broadcast flood messages=4",
    "star:4 broadcast edt redundancy=3",
    "hypercube:3 allgather sbt port_model=exchange",
    "ej:1+2 broadcast independent-trees redundancy=3",
    "hypercube:3 broadcast sbt reliable=true segments=3",
    "torus:3x3 broadcast bfs-tree repair=next-port",
)
STEPS = 6
"""Steps before which faults are clicked."""
ON_HOSTS = 8
"""One in this number of runs has hosts."""


def attempt(budget: Budget, number: int) -> Attempt:
    """Watch one run; compare it with the run of its scenario, and with what its reader was told."""
    from coordinator.planning.plan import make_plan
    from tests.helpers.watch_support import random_clicks, run_quietly, star_plan, watched

    chance = random.Random(f"{budget.seed}/{number}")
    values = fields(RUNS[number % len(RUNS)], seed=number)
    if number % ON_HOSTS == 0:
        values |= {"driver": "local", "ranks_per_host": chance.choice((1, 2, 3))}
    plan = star_plan(**values)
    clicks = random_clicks(chance.randrange(2**30), plan.topology)
    counts: Counter[str] = Counter()
    told: list[str] = []
    with watched(plan, DEADLINE_SECONDS) as (client, results):
        reader = threading.Thread(target=lambda: told.extend(_hashes(client)))
        reader.start()
        leaving = client.events()
        next(leaving)
        with _silent_client(client):
            for step in range(1, STEPS + 1):
                # A run that has ended has no server.
                with contextlib.suppress(OSError, http.client.HTTPException):
                    for click in clicks(step):
                        counts["refused clicks" if "error" in client.request(**click) else "clicks"] += 1
                    client.request(do="step")
                if chance.random() < 0.5:
                    _send_noise(client.port, chance.randbytes(chance.randrange(1, 200)))
                if step == STEPS // 2:
                    leaving.close()  # type: ignore[attr-defined]
            deadline = time.monotonic() + DEADLINE_SECONDS
            while not results and time.monotonic() < deadline:
                with contextlib.suppress(OSError, http.client.HTTPException):
                    client.request(do="run")
                time.sleep(0.05)
            reader.join(DEADLINE_SECONDS)
    name = f"{number}: {values}"
    if not results:
        return attempt_of(name, [f"no end within {DEADLINE_SECONDS:g} s"], counts)
    found = results[0].summary["journal_hash"]
    alone = results[0].plan.scenario.model_copy(update={"driver": "memory", "ranks_per_host": "auto"})
    again = run_quietly(make_plan(alone)).summary["journal_hash"]
    wrong = [] if found == again else [f"with {alone.fault}: another history than its scenario has in memory"]
    if told != [found]:
        wrong.append(f"its reader was told {told}, not {found}")
    counts["with faults"] += bool(alone.fault)
    return attempt_of(name, wrong, counts)


def _hashes(client: Any) -> Iterator[str]:
    """Read all events; yield the hash that the last one tells."""
    for name, data in client.events():
        if name == "finished":
            yield data["hash"]


@contextlib.contextmanager
def _silent_client(client: Any) -> Iterator[None]:
    """Ask for all events within the block, and read none."""
    lines = (f"GET /events HTTP/1.1\r\nHost: 127.0.0.1:{client.port}\r\n", f"Authorization: Bearer {client.token}\r\n")
    with socket.create_connection(("127.0.0.1", client.port), DEADLINE_SECONDS) as stalled:
        stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stalled.sendall("".join([*lines, "\r\n"]).encode())
        yield


def _send_noise(port: int, noise: bytes) -> None:
    """Send bytes to the server, and at most wait for one answer."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0) as strange:
        strange.sendall(noise)
        strange.settimeout(0.05)
        list(islice(iter(partial(strange.recv, 4096), b""), 1))


def run_section(budget: Budget) -> Iterator[Row]:
    """Yield watched runs, some of them over hosts."""
    row = Row("watched runs with restless clients")
    counts = row.run_all(partial(attempt, budget), range(budget.times(400, 8)), processes=2)
    row.tell(counts)
    row.require(counts, ["with faults"], "no run was")
    yield row
