"""Watched runs for tests: steered by a script in this process, or by requests to the server of their page."""

import http.client
import json
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

from coordinator.execution.run import run
from coordinator.execution.sinks import MemoryRun, MemorySink
from coordinator.live.opening import open_listener, watched_plan
from coordinator.live.session import WatchState
from coordinator.live.watch import Watch
from coordinator.networks.base import StepResult, UnreadArrivals
from coordinator.planning.plan import Plan
from coordinator.scenario.model import make_scenario
from emunode.errors import ScenarioError
from emunode.faults.kinds import KINDS, value_names
from emunode.model import Step
from emunode.topologies.base import Topology

SECONDS = 240.0
Clicks = Callable[[Step], list[dict[str, Any]]]
STAR = {"topology": "star:3", "collective": "broadcast", "algorithm": "flood", "driver": "memory", "messages": 2}


def star_plan(**values: object) -> Plan:
    """The plan of a watched run; by default of a short one in S_3."""
    return watched_plan(make_scenario({**STAR, **values}))


def run_quietly(plan: Plan, steering: "Script | Watch | None" = None) -> MemoryRun:
    """Run a plan without files and without progress."""
    return run(plan, MemorySink(), steering=steering)


class Script:
    """Steers a run without a page: `clicks` gives the requests before each step; refused ones are counted."""

    waited_seconds = 0.0

    def __init__(self, plan: Plan, clicks: Clicks) -> None:
        self.session = WatchState(plan)
        self.refused: list[str] = []
        self._clicks = clicks

    @property
    def plan(self) -> Plan:
        return self.session.plan

    async def before_step(self, step: Step) -> str | None:
        for click in self._clicks(step):
            try:
                self.session.request(click)
            except ScenarioError as error:
                self.refused.append(str(error))
        self.session.begin(step)
        return self.session.end

    def after_step(self, step: Step, result: StepResult, arrivals: UnreadArrivals) -> bool:
        return self.session.after(step, result)

    def end(self) -> None:
        self.session.finish()


def random_clicks(seed: int, topology: Topology) -> Clicks:
    """Up to four faults of any kind before every step, mostly at a few nodes, so that they meet."""
    draw = random.Random(seed)

    def clicks(_step: Step) -> list[dict[str, Any]]:
        return [click() for _ in range(draw.choice((0, 0, 1, 1, 2, 4)))]

    def click() -> dict[str, Any]:
        if draw.random() < 0.1:
            return {"do": "undo"}
        # Repairs are drawn as often as all other kinds together.
        kind = draw.choice([*KINDS, *("recover", "up", "heal") * 3, "crash", "hang"])
        rank = draw.choice((draw.randrange(topology.order), draw.randrange(min(4, topology.order))))
        value = draw.choice(("1", "0.5")) if "rate" in value_names(KINDS[kind]) else draw.choice("12")
        steps = {"steps": draw.randrange(1, 5)} if draw.random() < 0.5 else {}
        port, both = draw.choice(topology.ports(rank)), draw.random() < 0.6
        return {"do": "fault", "kind": kind, "rank": rank, "port": port, "both": both, "value": value, **steps}

    return clicks


class Client:
    """Requests to the server of a watched run."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.port
        self.port, self.token = parts.port, parts.fragment
        self.headers = {
            "host": f"127.0.0.1:{self.port}",
            "origin": f"http://127.0.0.1:{self.port}",
            "authorization": f"Bearer {self.token}",
            "content-type": "application/json",
        }

    def ask(
        self, method: str, path: str, content: bytes | None = None, **headers: str | None
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Status, headers and content of the answer; a header of None is left out."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        sent = {name: value for name, value in {**self.headers, **given}.items() if value is not None}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        try:
            connection.putrequest(method, path, skip_host=True)
            for name, value in {**sent, "content-length": str(len(content or b""))}.items():
                connection.putheader(name, value)
            connection.endheaders(content)
            answer = connection.getresponse()
            return answer.status, dict(answer.headers.items()), answer.read()
        finally:
            connection.close()

    def request(self, **content: object) -> dict[str, Any]:
        """Ask the run to do something; the new state, or what is wrong with the request."""
        _, _, answer = self.ask("POST", "/request", json.dumps(content).encode())
        return dict(json.loads(answer))

    def events(self, runs: int = 1) -> Iterator[tuple[str, Any]]:
        """The stream of events until it ends, or until so many runs of the page have ended."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        try:
            connection.request("GET", "/events", headers=self.headers)
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            while line := answer.readline():
                name = line.removeprefix(b"event: ").strip().decode()
                yield name, json.loads(answer.readline().removeprefix(b"data: "))
                answer.readline()
                runs -= name == "finished"
                if not runs:
                    return
        finally:
            connection.close()


@contextmanager
def watched(plan: Plan, timeout: float = SECONDS) -> Iterator[tuple[Client, list[MemoryRun]]]:
    """A run in another thread that waits for requests; the list holds its result once the run has ended, and those of
    branches.

    On leaving the context the run is ended, if it has not ended before, and its page is closed.
    """
    results: list[MemoryRun] = []
    ready, client = threading.Event(), []

    def work() -> None:
        with Watch(plan, open_listener(), timeout=timeout) as watch:
            client.append(Client(watch.url))
            ready.set()
            results.append(run_quietly(plan, watch))
            while origin := watch.concluded(results[-1]):
                results.append(run(watch.plan, MemorySink(), steering=watch, accept=origin.accept))

    thread = threading.Thread(target=work)
    thread.start()
    assert ready.wait(SECONDS)
    try:
        yield client[0], results
    finally:
        # Again after a while: a test may have used up the requests that are allowed at once.
        deadline = time.monotonic() + SECONDS
        while thread.is_alive() and time.monotonic() < deadline:
            with suppress(OSError, http.client.HTTPException):
                client[0].request(do="end")
                client[0].request(do="close")
            thread.join(0.1)
        assert not thread.is_alive()
