"""The docker driver: one container per host, all of one image and on one network, through the engine's API.

Everything that a run creates is labelled with its id, and recorded by name before it is created (`records`). Calls block
as long as the engine takes. So they run in threads, many at once. Errors in threads that are not waited for are kept for
`check`. The network is internal: hosts reach one another, and the coordinator at the gateway, and nothing else.
"""

import contextlib
import os
import secrets
import socket
import threading
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TextIO

import trio

from coordinator.history.stored.left_behind import Record, new_record
from coordinator.networks.launchers.base import Launch, ProcessState
from coordinator.planning.plan import Plan
from coordinator.planning.resources import descriptors_per_host, memory_bytes
from coordinator.scenario.drivers import DRIVERS
from emunode import __version__
from emunode.errors import RunError
from emunode.logging import log

try:
    import docker
    import requests
    from docker import errors, types
except ImportError:
    raise RunError("the Python package docker is not installed; pip install 'docker>=7.1'") from None

IMAGE = (
    os.environ.get("TESTBENCH_HOST_IMAGE")
    or os.environ.get("TESTBENCH_IMAGE")
    or f"collective-testbench-host:{__version__}"
)
RUN_LABEL = "testbench.run"
HOST_LABEL = "testbench.host"
CALLS = 16
"""Concurrent calls to the engine; more would only wait."""
CALL_SECONDS = 60
BATCH = 16
"""Containers that are starting and have not joined yet. More would only compete for the processors."""
HOST_CPUS = 1.0
"""A host has one thread."""
HOST_MEMORY_BYTES = 64 * 2**20
"""An interpreter with everything imported, without ranks and links."""
LOG_LINES = 5
TOLD_LOGS = 3

Client = Any
"""docker.APIClient; the SDK publishes no types."""


@contextlib.contextmanager
def translated(doing: str) -> Iterator[None]:
    """Translate exceptions of the SDK into RunError with a remedy.

    No other exception of the SDK leaves this module.
    """
    try:
        yield
    except errors.APIError as error:
        text = error.explanation or str(error)
        if error.status_code == 404 and "image" in text.lower():
            text = f"{text}; build it with `coordinator image`, or name another: TESTBENCH_HOST_IMAGE=NAME"
        raise RunError(f"the Docker engine cannot {doing}: {text}") from None
    except (errors.DockerException, requests.exceptions.RequestException, OSError) as error:
        raise RunError(f"cannot {doing}: {why_unreachable(str(error))}") from None


def why_unreachable(text: str) -> str:
    """Return the remedy for an engine that does not answer.

    `text` is the message of the SDK's exception.
    """
    if "PermissionError" in text or "Permission denied" in text:
        return "this user has no rights on the Docker engine's socket; join the group docker, or use sudo"
    if any(sign in text for sign in ("FileNotFoundError", "ConnectionRefused", "Connection refused", "No such file")):
        return "no Docker engine answers; start one, or say where it is: DOCKER_HOST"
    return f"the Docker engine does not answer: {text}"


def connect(seconds: float = CALL_SECONDS, engine: str | None = None) -> Client:
    """Return a client of an engine.

    The default is the engine of DOCKER_HOST, or the local engine without that variable. RunError if it does not answer.
    """
    with translated("reach the Docker engine"):
        settings = docker.utils.kwargs_from_env(
            environment=os.environ if engine is None else {**os.environ, "DOCKER_HOST": engine}
        )
        _require_socket(settings.get("base_url", "unix:///var/run/docker.sock"), seconds)
        return docker.APIClient(version="auto", timeout=seconds, num_pools=4, max_pool_size=2 * CALLS, **settings)


def _require_socket(address: str, seconds: float) -> None:
    """Connect to a socket of this machine and close the connection.

    The SDK leaves its own connection open where that fails.
    """
    if address.startswith("unix://"):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(seconds)
            connection.connect(address.removeprefix("unix://"))


def find_image() -> str:
    """Return the version of the engine.

    Raises RunError if it does not answer or lacks the image.
    """
    with contextlib.closing(connect()) as client, translated(f"find the image {IMAGE}"):
        client.inspect_image(IMAGE)
        return str(client.version()["Version"])


class DockerLaunch(Launch):
    """Hosts in containers, on an engine whose networks this machine is part of.

    A crash kills the container. A hang pauses it. With `hang_by = "disconnect"` a hang disconnects it from the network
    instead, as if a cable were pulled, and connects it again with the same address.
    """

    can_kill = True

    def __init__(self, plan: Plan) -> None:
        self.run = secrets.token_hex(6)
        self._plan = plan
        own = DRIVERS["docker"]
        self.join_seconds = plan.join_seconds or own.join_seconds + own.join_seconds_per_host * plan.hosts
        self._up: set[int] = set()
        """Indices of the hosts that have joined."""
        self._waiting: Iterator[int] = iter(())
        """Hosts whose containers are started after others have joined."""
        self._start_one: Callable[[int], None] = lambda _: None
        self._by_disconnection = plan.scenario.hang_by == "disconnect"
        stop, go_on = ("network disconnect", "network connect") if self._by_disconnection else ("pause", "unpause")
        calls = {"kill": "kill", "stop": stop, "continue": go_on, "restart": "start"}
        self.means = {action: f"docker {call}" for action, call in calls.items()}
        self.names = tuple(f"testbench-{self.run}-{index}" for index in range(plan.hosts))
        self.network = f"testbench-{self.run}"
        self._record: Record | None = None
        self._pool = ThreadPoolExecutor(CALLS, "engine")
        self._client: Client = None
        self._bell = -1
        self._problems: list[str] = []
        self._expected: set[int] = set()
        """Hosts that were killed on purpose, whose end the engine has not reported yet."""
        self._killed: set[int] = set()
        """Hosts that were ever killed on purpose."""
        self._asleep: set[int] = set()
        self._addresses: dict[int, str] = {}
        """The addresses of hosts that are disconnected from the network."""
        self._gateway = ""
        self._leaving = threading.Event()
        self._events: Any = None

    # --- up ----------------------------------------------------------------------------------------------------------

    async def prepare(self) -> tuple[str, int]:
        """Create the network.

        Hosts find the coordinator at its gateway.
        """
        return await trio.to_thread.run_sync(self._prepare), 0

    def _prepare(self) -> str:
        self._client = connect(max(CALL_SECONDS, self.join_seconds))
        with translated(f"find the image {IMAGE}"):
            self._client.inspect_image(IMAGE)
        engine = os.environ.get("DOCKER_HOST", "")
        record = new_record(run=self.run, driver="docker", engine=engine, objects=(*self.names, self.network))
        record.write()
        self._record = record
        with translated(f"create the network {self.network}"):
            self._gateway = self._make_network()
        return self._gateway

    def _make_network(self) -> str:
        """Create the network; returns the address of its gateway."""
        make = partial(
            self._client.create_network,
            self.network,
            driver="bridge",
            internal=True,
            check_duplicate=True,
            labels={RUN_LABEL: self.run},
        )
        make()
        pool = self._client.inspect_network(self.network)["IPAM"]["Config"][0]
        gateway: str = pool["Gateway"].partition("/")[0]
        if self._by_disconnection:
            # A host needs the same address when it is connected again; Docker allows that only in a configured subnet.
            self._client.remove_network(self.network)
            make(ipam=types.IPAMConfig(pool_configs=[types.IPAMPool(subnet=pool["Subnet"], gateway=gateway)]))
        return gateway

    def start(self, port: int, token: bytes, hosts: int) -> int:
        self._bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        with translated("watch containers"):
            self._events = self._client.events(
                filters={"label": f"{RUN_LABEL}={self.run}", "event": "die"}, decode=True
            )
        threading.Thread(target=self._watch, name="engine-events", daemon=True).start()
        self._waiting = iter(range(hosts))
        self._start_one = lambda index: self._start_host(index, f"{self._gateway}:{port}", token)
        for _ in range(BATCH):
            self._start_next()
        return self._bell

    def joined(self, host: int, node: str) -> None:
        self._up.add(host)
        self._start_next()

    def _start_next(self) -> None:
        """Start the next container, if one is left."""
        index = next(self._waiting, None)
        if index is not None:
            self._pool.submit(self._noting, self._start_one, index)

    def _start_host(self, index: int, coordinator: str, token: bytes) -> None:
        if self._leaving.is_set():
            return
        name = self.names[index]
        with translated(f"start the container {name}"):
            self._client.create_container(
                **options(self.run, index, coordinator, token, self.join_seconds, bool(self._plan.scenario.plugin)),
                name=name,
                host_config=self._host_config(),
            )
            if not self._leaving.is_set():
                self._client.start(name)

    def _host_config(self) -> dict[str, Any]:
        plan = self._plan
        descriptors = descriptors_per_host(plan)
        config: dict[str, Any] = self._client.create_host_config(
            network_mode=self.network,
            read_only=True,
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
            mem_limit=max(128 * 2**20, HOST_MEMORY_BYTES + 2 * memory_bytes(plan) // plan.hosts),
            pids_limit=64,
            nano_cpus=round(HOST_CPUS * 1e9),
            ulimits=[types.Ulimit(name="nofile", soft=descriptors, hard=descriptors)],
            log_config=types.LogConfig(type="json-file", config={"max-size": "1m"}),
        )
        return config

    # --- watched -----------------------------------------------------------------------------------------------------

    def _noting(self, call: Callable[..., None], *arguments: object) -> None:
        try:
            call(*arguments)
        except Exception as error:  # of a thread that is not waited for
            self._note(str(error))

    def _note(self, problem: str) -> None:
        self._problems.append(problem)
        if not self._leaving.is_set():
            os.eventfd_write(self._bell, 1)

    def _watch(self) -> None:
        """Note containers that end unexpectedly.

        This runs in a thread of its own.
        """
        try:
            for event in self._events:
                attributes = event["Actor"]["Attributes"]
                index = int(attributes[HOST_LABEL])
                if index in self._expected:
                    self._expected.discard(index)
                elif not self._leaving.is_set():
                    self._note(f"the container {attributes['name']} ended with status {attributes['exitCode']}")
        except Exception as error:
            if not self._leaving.is_set():  # else the run is over, and the stream was closed under this thread
                self._note(f"cannot watch containers any more: {type(error).__name__}: {error}")

    def check(self) -> None:
        if self._problems:
            raise RunError("; ".join([*self._problems[:TOLD_LOGS], self._how_many_are_up()]))

    def missing(self, joined: Collection[str], absent: Collection[int]) -> str:
        names = [self.names[index] for index in absent]
        more = f" and {len(names) - 10} more" if len(names) > 10 else ""
        return f"{self._how_many_are_up()}; missing: {', '.join(names[:10])}{more}"

    def _how_many_are_up(self) -> str:
        return f"{len(self._up)} of {len(self.names)} containers are up"

    # --- faults ------------------------------------------------------------------------------------------------------

    async def kill(self, host: int, pid: int) -> None:
        """Kill the container.

        A paused container has to be resumed first. It handles the signal before anything else.
        """
        self._expected.add(host)
        self._killed.add(host)
        await self._call(f"kill the container {self.names[host]}", self._kill, host)

    def _kill(self, host: int) -> None:
        name = self.names[host]
        if host in self._asleep and not self._by_disconnection:
            self._asleep.discard(host)
            self._client.unpause(name)
        self._client.kill(name)

    async def restart(self, host: int) -> None:
        """Start the container again.

        It has the same name and command, another process, and perhaps another address.
        """
        name = self.names[host]
        await self._call(f"start the container {name} again", lambda _: self._client.start(name), host)

    async def pause(self, host: int, pid: int) -> None:
        """Pause a container, or take it off the network."""
        self._asleep.add(host)
        await self._call(f"pause the container {self.names[host]}", self._pause, host)

    def _pause(self, host: int) -> None:
        name = self.names[host]
        if not self._by_disconnection:
            self._client.pause(name)
            return
        settings = self._client.inspect_container(name)["NetworkSettings"]["Networks"][self.network]
        self._addresses[host] = settings["IPAddress"]
        self._client.disconnect_container_from_network(name, self.network)

    async def resume(self, host: int, pid: int) -> None:
        """Undo `pause`.

        The container is unpaused, or connected again under its old address.
        """
        self._asleep.discard(host)
        await self._call(f"resume the container {self.names[host]}", self._resume, host)

    def _resume(self, host: int) -> None:
        if self._by_disconnection:
            self._client.connect_container_to_network(
                self.names[host], self.network, ipv4_address=self._addresses.pop(host)
            )
        else:
            self._client.unpause(self.names[host])

    async def state(self, host: int, pid: int) -> ProcessState:
        found: list[ProcessState] = []
        await self._call(
            f"inspect the container {self.names[host]}", lambda each: found.append(self._state(each)), host
        )
        return found[0]

    def _state(self, host: int) -> ProcessState:
        details = self._client.inspect_container(self.names[host])
        if not details["State"]["Running"]:
            return ProcessState.ENDED
        asleep = self.network not in details["NetworkSettings"]["Networks"] or details["State"]["Paused"]
        return ProcessState.STOPPED if asleep else ProcessState.RUNNING

    async def _call(self, doing: str, call: Callable[[int], None], host: int) -> None:
        def translating() -> None:
            with translated(doing):
                call(host)

        await trio.to_thread.run_sync(translating)

    # --- down --------------------------------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Remove every container and the network.

        Objects that the engine does not remove stay recorded for `clean`.
        """
        self._leaving.set()
        await trio.to_thread.run_sync(self._stop)

    def _stop(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
        if self._record is not None:
            self._tell_logs()
            left = remove(self._client, self._record)
            if left:
                log("left behind", remedy="coordinator clean", what=left)
            else:
                self._record.remove()
        if self._events is not None:
            with contextlib.suppress(
                Exception
            ):  # calls of the SDK only: on a stream that has ended they fail in many ways
                self._events.close()
                self._events._response.close()
        if self._client is not None:
            self._client.close()
        if self._bell >= 0:
            os.close(self._bell)

    def _tell_logs(self) -> None:
        """Log the last output of containers that failed."""
        with contextlib.suppress(RunError), translated("read logs"):
            dead = self._client.containers(all=True, filters={"label": f"{RUN_LABEL}={self.run}", "status": "exited"})
            failed = [
                (int(container["Labels"][HOST_LABEL]), container["Names"][0].lstrip("/"), container["Status"])
                for container in dead
                if not container["Status"].startswith("Exited (0)")
            ]
            for index, name, status in [entry for entry in sorted(failed) if entry[0] not in self._killed][:TOLD_LOGS]:
                words = self._client.logs(name, tail=LOG_LINES).decode(errors="replace").strip()
                log("container failed", host=index, container=name, status=status, last_words=words)


def launch(plan: Plan, _log: TextIO) -> DockerLaunch:
    """Return the launcher of the docker driver."""
    return DockerLaunch(plan)


def options(
    run: str, index: int, coordinator: str, token: bytes, join_seconds: float, allow_plugins: bool
) -> dict[str, Any]:
    """Return the options of container `index` of a run: image, command, environment and labels."""
    command = ["emunode", "--coordinator", coordinator, "--index", str(index), "--join-seconds", f"{join_seconds:g}"]
    if allow_plugins:
        command.append("--allow-plugins")
    return {
        "image": IMAGE,
        "command": command,
        "environment": {"EMUNODE_TOKEN": token.decode()},
        "hostname": f"host-{index}",
        "labels": {RUN_LABEL: run, HOST_LABEL: str(index)},
        "healthcheck": {
            "test": ["NONE"]
        },  # the coordinator has a connection to each host, and notices a failure sooner
    }


def created(client: Client, record: Record) -> tuple[list[str], list[str]]:
    """Return the containers and the networks of a record that exist.

    Only objects that the run has labelled count.
    """
    filters = {"label": f"{RUN_LABEL}={record.run}"}
    containers = [found["Names"][0].lstrip("/") for found in client.containers(all=True, filters=filters)]
    networks = [found["Name"] for found in client.networks(filters=filters)]
    return sorted({*containers} & {*record.objects}), sorted({*networks} & {*record.objects})


def remove(client: Client, record: Record) -> list[str]:
    """Remove, concurrently, the objects of a record.

    Returns the names that are left. Raises RunError if no engine answers.
    """

    def take(name: str, take_away: Callable[[str], None]) -> str | None:
        try:
            take_away(name)
        except errors.NotFound:
            return None
        except (errors.DockerException, requests.exceptions.RequestException) as error:
            log("not removed", name=name, error=str(error))
            return name
        return None

    with translated("list what the run has created"):
        containers, networks = created(client, record)
    take_container = partial(take, take_away=partial(client.remove_container, force=True, v=True))
    with ThreadPoolExecutor(CALLS) as pool:
        left = [*pool.map(take_container, containers)]
    # The network last: it cannot be removed while it has containers.
    left += [take(name, client.remove_network) for name in networks]
    return [name for name in left if name]


def remaining(record: Record) -> list[str]:
    """Return what a killed run has left on its engine.

    Raises RunError if the engine does not answer.
    """
    with contextlib.closing(connect(engine=record.engine)) as client, translated("list what the run has created"):
        containers, networks = created(client, record)
    return [*(f"container {name}" for name in containers), *(f"container network {name}" for name in networks)]


def sweep(record: Record) -> list[str]:
    """Remove the objects of a killed run, and return what was removed.

    Raises RunError if the engine does not answer.
    """
    found = remaining(record)
    with contextlib.closing(connect(engine=record.engine)) as client:
        if left := remove(client, record):
            raise RunError(f"the Docker engine does not remove {', '.join(left)}")
    record.remove()
    return found
