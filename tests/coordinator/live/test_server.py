"""The server of the page: who may ask what, bounds, events, and that watchers change nothing in the run."""

import json
import signal
import socket
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.client import HTTPException
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import polars as pl
import pytest

from coordinator.history.journal import OUTCOMES
from coordinator.live import frames as frames_module
from coordinator.live.frames import Frames
from coordinator.live.http import BODY_BYTES, HEAD_BYTES
from coordinator.live.opening import open_listener
from coordinator.live.server import MOST_REQUESTS_PER_SECOND, MOST_WATCHERS, PAGE
from coordinator.live.watch import Watch
from coordinator.networks.base import UnreadArrivals
from coordinator.planning.claims import run_claims
from coordinator.planning.plan import Plan, make_plan
from emunode.errors import RunError
from emunode.net.wire import ROW
from emunode.topologies.registry import parse_topology
from tests.helpers.command_line import Start
from tests.helpers.scenarios import Case
from tests.helpers.watch_support import SECONDS, Client, run_quietly, star_plan, watched

FIELDS = ("step", "sender", "receiver", "origin", "target", "segment", "bytes", "tree", "port")
"""The fields of a packed journal row before its outcome."""


def wait_for(results: Sequence[object]) -> None:
    """Wait until a watched run has ended."""
    deadline = time.monotonic() + SECONDS
    while not results:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_the_page_and_its_files_need_no_token() -> None:
    with watched(star_plan()) as (client, _):
        for path in (*PAGE, "/theme.css"):
            status, headers, content = client.ask("GET", path, authorization=None, origin=None)
            assert status == 200, path
            assert content
            assert client.token.encode() not in content
            assert "default-src 'none'" in headers["content-security-policy"]
            assert headers["referrer-policy"] == "no-referrer"
            assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"origin": None}, 403),
        ({"origin": "http://example.org"}, 403),
        ({"origin": "null"}, 403),
        ({"host": "example.org"}, 403),
        ({"host": None}, 400),
        ({"authorization": None}, 403),
        ({"authorization": "Bearer "}, 403),
        ({"authorization": "Bearer \xe9"}, 403),
        ({"content_type": "text/plain"}, 415),
    ],
)
def test_requests_are_checked_for_token_host_origin_and_type(headers: dict[str, str | None], status: int) -> None:
    with watched(star_plan()) as (client, _):
        answer, _, content = client.ask("POST", "/request", b'{"do":"pause"}', **headers)
        assert answer == status, content
        assert client.token.encode() not in content


def test_the_name_localhost_is_allowed_and_another_port_is_not() -> None:
    with watched(star_plan()) as (client, _):
        name = f"localhost:{client.port}"
        assert client.ask("GET", "/picture", host=name, origin=f"http://{name}")[0] == 200
        assert client.ask("GET", "/picture", host=name, origin=f"http://127.0.0.1:{client.port}")[0] == 403
        assert client.ask("GET", "/picture", host="127.0.0.1:1")[0] == 403


@pytest.mark.parametrize("path", ["/picture", "/node?rank=1", "/events"])
def test_what_a_run_shows_needs_its_token(path: str) -> None:
    with watched(star_plan()) as (client, _):
        assert client.ask("GET", path, authorization="Bearer x")[0] == 403
        assert client.ask("POST", path, b"{}")[0] == 405


@pytest.mark.parametrize(
    ("method", "path", "content", "status"),
    [
        ("GET", "/nothing", None, 404),
        ("GET", "/../secret", None, 404),
        ("GET", "/request", None, 405),
        ("POST", "/", b"", 405),
        ("GET", "/node?rank=6", None, 400),
        ("GET", "/node?rank=-1", None, 400),
        ("GET", "/node", None, 400),
        ("GET", "/node?rank=%C2%B2", None, 400),
        ("POST", "/request", b"", 400),
        ("POST", "/request", b"[]", 400),
        ("POST", "/request", b"{", 400),
        ("POST", "/request", b"[" * BODY_BYTES, 400),
        ("POST", "/request", b"\xff", 400),
        ("POST", "/request", b" " * (BODY_BYTES + 1), 413),
    ],
)
def test_what_is_wrong_with_a_request_is_said(method: str, path: str, content: bytes | None, status: int) -> None:
    with watched(star_plan()) as (client, _):
        answer, _, text = client.ask(method, path, content)
        assert answer == status
        assert json.loads(text)["error"]
        assert client.request(do="pause")["next"] == 1


@pytest.mark.parametrize("sent", [b"\0\1\2\r\n\r\n", b"GET / HTTP/1.1\r\nx: " + b"y" * (HEAD_BYTES + 100), b"GET /"])
def test_invalid_http_is_answered_or_dropped(sent: bytes) -> None:
    with watched(star_plan()) as (client, _):
        with socket.create_connection(("127.0.0.1", client.port), SECONDS) as stream:
            stream.sendall(sent)
            stream.shutdown(socket.SHUT_WR)
            answer = stream.recv(100)
        assert answer == b"" or answer.startswith(b"HTTP/1.1 4")
        assert client.request(do="pause")["next"] == 1


@pytest.mark.parametrize(("method", "status"), [("HEAD", 403), ("OPTIONS", 403), ("DELETE", 403)])
def test_other_methods_without_an_origin_are_refused(method: str, status: int) -> None:
    with watched(star_plan()) as (client, _):
        answer, _, content = client.ask(method, "/", origin=None, authorization=None)
        assert (answer, content == b"") == (status, method == "HEAD")
        assert client.request(do="pause")["next"] == 1


def test_a_mistake_in_an_answer_does_not_end_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise KeyError("node 3")

    with watched(star_plan()) as (client, _):
        monkeypatch.setattr("coordinator.live.server.node_of", fail)
        status, _, content = client.ask("GET", "/node?rank=3")
        assert (status, json.loads(content)["error"]) == (500, "KeyError: 'node 3'")
        client.request(do="run")
        assert dict(client.events())["finished"]["verdict"] == "holds"


def test_requests_are_bounded_in_number() -> None:
    with watched(star_plan()) as (client, _):
        began = time.monotonic()
        with ThreadPoolExecutor(8) as pool:
            statuses = list(pool.map(lambda _: client.ask("POST", "/request", b'{"do":"pause"}')[0], range(400)))
        allowed = (1 + time.monotonic() - began) * MOST_REQUESTS_PER_SECOND
        assert set(statuses) <= {200, 429}
        assert statuses.count(200) <= allowed + 1


def test_watchers_are_bounded_in_number_and_leave_their_place() -> None:
    with watched(star_plan()) as (client, _):
        streams = [client.events() for _ in range(MOST_WATCHERS)]
        for stream in streams:
            assert next(stream)[0] == "status"
        assert client.ask("GET", "/events")[0] == 503
        for stream in streams:
            stream.close()  # type: ignore[attr-defined]
        deadline = time.monotonic() + SECONDS
        while True:
            again = client.events()
            try:
                assert next(again)[0] == "status"
            except AssertionError:
                assert time.monotonic() < deadline
                continue
            break
        again.close()  # type: ignore[attr-defined]


def test_the_port_that_is_in_use_is_named() -> None:
    with open_listener() as listener, pytest.raises(RunError, match="Address already in use; use another --watch-port"):
        open_listener(listener.getsockname()[1])


# --- a whole run -----------------------------------------------------------------------------------------------------


def test_events_tell_the_whole_run_and_its_verdict() -> None:
    plan = star_plan(topology="star:4", algorithm="edt", redundancy=3)
    with watched(plan) as (client, results):
        stream = client.events()
        assert next(stream)[1]["command"].startswith("coordinator run star:4 ")
        client.request(do="step")
        frames = []
        for name, data in stream:
            if name == "frames":
                frames += data
            elif name == "status" and data["next"] == 2 and not data["running"] and not data["faults"]:
                client.request(do="fault", kind="crash", rank=1)
                client.request(do="run")
            elif name == "finished":
                finished = data
        wait_for(results)
    run = results[0]
    again = run_quietly(make_plan(run.plan.scenario))
    assert run.plan.scenario.fault == ("crash:2134@2",)
    assert finished["hash"] == run.summary["journal_hash"] == again.summary["journal_hash"]
    assert finished["verdict"] == "holds"
    # What frames have of the journal is asked in `reports/test_scene.py`.
    *frames, closing = frames
    assert [frame["step"] for frame in frames] == list(range(1, run.execution.steps))
    assert closing["closing"] == run.execution.steps


def test_theory_follows_the_faults_at_once() -> None:
    plan = star_plan(topology="star:4", algorithm="edt", redundancy=2, fault=["hang:4321@1"])
    with watched(plan) as (client, _):
        stream = client.events()
        predicted: dict[tuple[str, ...], dict[str, object]] = {}
        client.request(do="fault", kind="crash", rank=1)
        for name, data in stream:
            if name == "claims" and data["claims"]:
                predicted[tuple(data["faults"])] = {claim["name"]: claim["predicted"] for claim in data["claims"]}
                if data["faults"] == ["hang:4321@1", "crash:2134@1"]:
                    break
        client.request(do="step", steps=3)
        measured = next(
            claim["measured"]
            for name, data in stream
            if name == "claims"
            for claim in data["claims"]
            if claim["name"] == "intact_deliveries" and claim["measured"]
        )
        assert 0 < measured < 22
    # The same from a plan that had the faults from the beginning.
    expected = {claim.name: claim.predicted for claim in run_claims(make_plan(plan.scenario.model_copy(
        update={"fault": ("hang:4321@1", "crash:2134@1")}
    ))).kept}  # fmt: skip
    assert expected.items() <= predicted[("hang:4321@1", "crash:2134@1")].items()


def test_a_broken_source_is_named_beside_the_claims() -> None:
    with watched(star_plan()) as (client, _):
        client.request(do="fault", kind="crash", rank=0)
        notes = (data["note"] for name, data in client.events() if name == "claims" and data.get("note"))
        assert next(notes) == "the source 123 is crashed, and theory makes no claim about that"


def test_watchers_that_are_slow_or_leave_change_nothing() -> None:
    plan = star_plan(topology="star:4", collective="allgather", algorithm="rotated-trees", messages=3)
    with watched(plan) as (client, results):
        leaving, staying = client.events(), client.events()
        next(leaving)
        with socket.create_connection(("127.0.0.1", client.port), SECONDS) as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            lines = [
                f"GET /events HTTP/1.1\r\nHost: 127.0.0.1:{client.port}\r\n",
                f"Authorization: Bearer {client.token}\r\n",
            ]
            slow.sendall("".join([*lines, "\r\n"]).encode())
            list(islice(staying, 2))
            client.request(do="run")
            leaving.close()  # type: ignore[attr-defined]
            names = [name for name, _ in staying]
            wait_for(results)
    assert names[-1] == "finished"
    assert results[0].summary["journal_hash"] == run_quietly(make_plan(plan.scenario)).summary["journal_hash"]


def test_a_late_watcher_sees_everything() -> None:
    with watched(star_plan(messages=8)) as (client, _):
        first = client.events()
        client.request(do="step", steps=4)
        seen: list[object] = []
        while len(seen) < 4:
            name, data = next(first)
            seen += data if name == "frames" else []
        name, data = next(client.events())
        assert (name, data) == ("frames", seen)


def test_two_runs_at_once_have_pages_of_their_own() -> None:
    with watched(star_plan()) as (one, _), watched(star_plan()) as (other, _):
        assert one.port != other.port
        assert one.ask("GET", "/picture", authorization=f"Bearer {other.token}")[0] == 403


def test_a_paused_run_ends_undecided_after_its_time() -> None:
    with watched(star_plan(), timeout=0.3) as (_, results):
        wait_for(results)
    assert results[0].exit_status == 3
    assert "paused before step 1 for more than 0.3 s" in str(results[0].summary["undecided_because"])


def test_a_run_ends_undecided_when_asked_and_keeps_what_it_has() -> None:
    with watched(star_plan()) as (client, results):
        client.request(do="step", steps=2)
        while client.request(do="pause")["next"] != 3:
            client.request(do="step")
        client.request(do="end")
        wait_for(results)
    assert results[0].exit_status == 3
    assert results[0].execution.steps == 2
    assert "ended from its page" in str(results[0].summary["undecided_because"])
    assert len(results[0].journal.collect()) > 0


def test_the_speed_is_kept_and_a_request_does_not_hasten_a_step() -> None:
    with watched(star_plan(messages=30)) as (client, results):
        began = time.monotonic()
        client.request(do="run", rate=50)
        for _ in range(20):
            client.request(do="fault", kind="loss", rank=0, port=0, value="0")
        wait_for(results)
        assert time.monotonic() - began >= (results[0].execution.steps - 1) / 50
    assert results[0].execution.wall_seconds < time.monotonic() - began


# --- after the end ---------------------------------------------------------------------------------------------------


def until(stream: Iterator[tuple[str, Any]], wanted: str) -> Any:
    """Return the content of the next event of this name."""
    return next(data for name, data in stream if name == wanted)


def test_a_page_starts_again_and_branches_after_the_end() -> None:
    plan = star_plan(fault=["crash:231@2"])
    with watched(plan) as (client, results):
        stream = client.events(runs=4)
        assert client.request(do="close")["error"].endswith("the run is not over yet")
        client.request(do="fault", kind="crash", rank=1)
        client.request(do="run")
        first = until(stream, "finished")
        wait_for(results)
        for late in ("step", "fault", "undo"):
            assert client.request(do=late)["error"].endswith("the run is over: branch, or start again")
        assert client.request(do="end")["error"].endswith("the run is over")
        client.request(do="again")
        assert until(stream, "branch") == {"step": 0, "again": True}
        assert client.request(do="pause")["specs"] == ["crash:231@2"], "faults of clicks are gone, others are not"
        client.request(do="run")
        second = until(stream, "finished")
        status = client.request(do="branch", step=1)
        assert status["refusal"] == "the run goes on to its end, and then another one begins"
        assert until(stream, "branch") == {"step": 1, "again": False}
        client.request(do="end")
        assert until(stream, "finished")["verdict"] == "undecided"
    assert first["hash"] == results[0].summary["journal_hash"] != second["hash"]
    assert second["hash"] == run_quietly(make_plan(plan.scenario)).summary["journal_hash"]
    assert [(run.summary.get("branch_step"), run.exit_status) for run in results] == [(None, 0), (0, 0), (1, 3)]


def test_a_page_has_a_bounded_number_of_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.live.watch.MOST_RUNS", 2)
    with watched(star_plan()) as (client, _):
        stream = client.events(runs=3)
        client.request(do="again")
        until(stream, "branch")
        status = client.request(do="run")
        assert status["last"] == "this page has as many runs as it can show"
        until(stream, "finished")
        assert client.request(do="again")["error"].endswith(status["last"])
        assert client.request(do="step")["error"].endswith("the run is over")


@pytest.mark.parametrize("ending", ["closed by one page", "left by all pages", "time is up"])
def test_the_page_of_a_finished_run_ends(ending: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.live.server.LEAVE_SECONDS", 0.5)
    with watched(star_plan(), timeout=1.0 if ending == "time is up" else SECONDS) as (client, results):
        pages = [client.events(runs=2) for _ in range(2)]
        for page in pages:
            until(page, "status")
        client.request(do="run")
        for page in pages:
            until(page, "finished")
        wait_for(results)
        if ending == "closed by one page":
            client.request(do="close")
        elif ending == "left by all pages":
            pages[0].close()  # type: ignore[attr-defined]
            time.sleep(1.0)
            assert client.request(do="pause")["error"], "one page is open"
            pages.pop().close()  # type: ignore[attr-defined]
        for page in pages:
            assert "finished" not in [name for name, _ in page]
        deadline = time.monotonic() + SECONDS
        while True:
            with suppress(OSError, HTTPException):
                client.request(do="pause")
                assert time.monotonic() < deadline
                continue
            break


def test_the_address_for_a_browser_is_good_for_one_page() -> None:
    plan = star_plan()
    with Watch(plan, open_listener()) as watch:
        client, ticket = Client(watch.url), urlsplit(watch.browser_url).fragment
        assert client.ask("GET", "/picture", authorization=f"Bearer {ticket}")[0] == 403
        answers = [client.ask("POST", "/token", authorization=f"Bearer {ticket}") for _ in range(2)]
        assert [status for status, _, _ in answers] == [200, 403]
        assert json.loads(answers[0][2]) == client.token
        assert client.ask("POST", "/token", authorization="Bearer ")[0] == 403


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_after_the_end_keeps_the_result(number: signal.Signals, start: Start) -> None:
    command = start("coordinator run star:3 broadcast flood --driver memory --watch --out out")
    command.wait_for(lambda: "http" in command.err and command.err.endswith("\n"), "the address")
    client = Client(next(word for word in command.err.split() if word.startswith("http")))
    stream = client.events(runs=2)
    until(stream, "status")  # the command ends with the run if nobody watches
    client.request(do="run")
    until(stream, "finished")
    command.wait_for(lambda: "the page stays open" in command.err, "the end of the run")
    assert "verdict: holds" in command.out, "it is shown at once"
    time.sleep(0.5)  # until it waits
    command.process.send_signal(number)
    ended = command.end()
    assert (ended.status, ended.out.count("verdict: holds")) == (0, 1)
    assert "finished" not in [name for name, _ in stream]


# --- the history -----------------------------------------------------------------------------------------------------


def replayed(plan: Plan, journal: pl.DataFrame) -> Frames:
    """Return the frames of a finished run."""
    frames = Frames(plan)
    for step in range(1, int(journal["step"].max()) + 1):  # type: ignore[arg-type]
        rows = [
            ROW.pack(*(row[name] for name in FIELDS), OUTCOMES.categories.to_list().index(row["outcome"]))
            for row in journal.filter(step=step).iter_rows(named=True)
        ]
        frames.add(step, [], UnreadArrivals(rows))
    return frames


def test_a_long_history_begins_with_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = star_plan(messages=20)
    monkeypatch.setattr(frames_module, "HISTORY_BYTES", 600)
    with watched(plan) as (client, results):
        client.request(do="run")
        wait_for(results)
    journal = results[0].journal.collect()
    frames, steps = replayed(plan, journal), int(journal["step"].max())  # type: ignore[arg-type]
    first, texts = frames.since(0, 10**9)
    base, *kept = map(json.loads, texts)
    assert first == base["base"] > 0
    assert [frame["step"] for frame in kept] == list(range(first + 1, steps + 1))
    gained = base["gained"]
    for frame in kept:
        for rank, count in zip(frame["gained"][::2], frame["gained"][1::2], strict=True):
            gained[rank] += count
    received = dict(journal.filter(outcome="first").group_by("receiver").len().iter_rows())
    assert gained == [received.get(rank, 0) for rank in range(6)]
    assert frames.count == steps


def await_step(client: Client, step: int, branches: int = 0) -> None:
    """Wait until this step is next in a run, or in one of its branches, by their number."""
    for name, content in client.events(runs=branches + 1):
        branches -= name == "branch"
        if name == "status" and content["next"] == step and branches == 0:
            return
    raise AssertionError(f"step {step} is never next")


def test_a_stored_run_is_watched_from_a_step_on(start: Start, tmp_path: Path) -> None:
    origin = Case("star:4 broadcast greedy-tree", "crash:2134@4").stored(tmp_path / "origin").path
    metrics = tmp_path / "run.prom"
    command = start(f"coordinator run --from {origin}@1 --watch --json --driver memory --metrics {metrics}")
    command.wait_for(lambda: "http" in command.err and command.err.endswith("\n"), "the address")
    client = Client(next(word for word in command.err.split() if word.startswith("http")))
    # The first step runs by itself.
    await_step(client, 2)
    client.request(do="fault", kind="crash", rank=parse_topology("star:4").rank("3214"))
    client.request(do="step", steps=2)
    await_step(client, 4)
    # A branch of the branch, without its fault.
    client.request(do="branch", step=1)
    await_step(client, 2, branches=1)
    client.request(do="run", rate=0)
    found = command.end().data
    assert (found["branch_step"], found["faults"], found["intact_deliveries"]) == (1, [], 23)
    # The metrics are of the last branch alone.
    counted = dict(line.rsplit(" ", 1) for line in metrics.read_text().splitlines() if not line.startswith("#"))
    assert counted["testbench_packets_total"] == str(found["packets"])
    assert counted["testbench_intact_deliveries"] == "23"
