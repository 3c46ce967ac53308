"""Whether this machine can run a plan, and the remedy if it cannot."""

from typing import Final

from coordinator.planning import machine, namespace
from coordinator.planning.machine import RESERVED_DESCRIPTORS
from coordinator.planning.plan import Plan
from coordinator.planning.resources import (
    deliveries,
    descriptors_per_host,
    ends_per_host,
    hops,
    journal_bytes,
    links_across_hosts,
    links_within_hosts,
    memory_bytes,
    ranks_per_host,
    table_copies,
)
from coordinator.scenario.drivers import DRIVERS
from emunode.errors import RunError

MANY_HOPS = 2_000_000
"""From this many hops on a run takes a minute or more: 50,000 to 100,000 cross in a second in memory."""
WASTEFUL = 10
"""Runs with more hops for each delivery need an explanation; trees take 1, an alltoall its average distance."""
LOCAL_PORTS = 65536 - 1024
"""Ports that one address can dial from."""
MOST_CONTAINERS = 1000
"""Containers on one network: a Linux bridge has 1024 ports."""


def describe_needs(plan: Plan) -> dict[str, object]:
    """Return the resources that a run takes, and the resources of this machine: the output of `coordinator plan
    --json`.
    """
    topology, hosts = plan.topology, plan.hosts
    return {
        "topology": topology.name,
        "order": topology.order,
        "degree": topology.degree,
        "diameter": topology.known_diameter,
        "driver": plan.scenario.driver,
        # The coordinator and the warm parent of the hosts, beside the hosts themselves.
        "processes": hosts + 2 if hosts else 1,
        "hosts": hosts,
        "ranks_per_host": ranks_per_host(plan),
        "links": topology.link_count if hosts else 0,
        "placement": plan.scenario.placement,
        "links_within_hosts": links_within_hosts(plan),
        "links_across_hosts": links_across_hosts(plan),
        "descriptors_per_host": descriptors_per_host(plan),
        "descriptor_limit": machine.descriptor_limit(),
        "listening_ports": hosts + 1 if hosts else 0,
        "local_ports_per_host": ends_per_host(plan),
        "own_network_namespace": needs_own_network(plan),
        "deliveries": deliveries(plan),
        "hops": hops(plan),
        "table_bytes": plan.algorithm.table_bytes,
        "memory_bytes": memory_bytes(plan),
        "memory_available_bytes": machine.available_memory(),
    }


def needs_own_network(plan: Plan) -> bool:
    """Return whether the run moves to a network namespace of its own: on request, or because it does not fit in this
    one.
    """
    if plan.scenario.netns != "auto" or not DRIVERS[plan.scenario.driver].local_processes:
        return plan.scenario.netns == "always"
    # A run in a namespace is out of reach of other tools, so it is used only where it is needed.
    return tracking_exceeded(plan) is not None and namespace.unavailable_reason() is None


def tracking_exceeded(plan: Plan) -> str | None:
    """Return the reason why the packet filter of this network cannot track all links of a run; None if it can."""
    tracked, links = machine.tracked_connections(), plan.topology.link_count
    # No packet filter, or room for all links.
    if tracked is None or tracked[0] + links <= tracked[1]:
        return None
    return (
        f"this run opens {links} connections and the packet filter here tracks at most {tracked[1]}, "
        f"{tracked[0]} of which are taken"
    )


def warning(plan: Plan) -> str | None:
    """Return a warning if a run takes long, or None.

    Such a run moves far more segments than it delivers.
    """
    made, crossing = deliveries(plan), hops(plan)
    if crossing < MANY_HOPS or crossing < WASTEFUL * made:
        return None
    return (
        f"this run moves at least {crossing:,} segments for {made:,} deliveries, {crossing // made} for each: it takes "
        f"minutes and about {memory_bytes(plan) / 2**30:.1f} GiB of memory"
    )


def why_impossible(plan: Plan) -> str | None:
    """Return why this machine cannot run a plan, with the remedy; None if it can."""
    try:
        require_possible(plan)
    except RunError as error:
        return str(error)
    return None


LIBRARY_BYTES: Final = 800 * 2**20
"""The addresses that polars, numpy and their threads take; polars ends a process that cannot have them."""


def require_possible(plan: Plan) -> None:
    """Raise RunError, with the remedy, if this machine cannot run a plan."""
    driver = DRIVERS[plan.scenario.driver]
    if plan.scenario.driver == "docker" and plan.hosts > MOST_CONTAINERS:
        raise RunError(
            f"{plan.hosts} containers exceed the {MOST_CONTAINERS} that fit on one network; "
            f"use --ranks-per-host {-(-plan.topology.order // MOST_CONTAINERS)}"
        )
    if driver.local_memory:
        _require_memory(plan)
    if plan.hosts:
        _require_coordinator_descriptors(plan)
    if driver.local_processes:
        _require_local_hosts(plan)


def _require_libraries() -> None:
    allowed = machine.process_memory()
    if allowed is not None and allowed < LIBRARY_BYTES:
        raise RunError(
            f"the limits of this process leave {allowed / 2**20:,.0f} MiB of memory, and its libraries take "
            f"{LIBRARY_BYTES / 2**20:,.0f} MiB of addresses; raise ulimit -v or -d"
        )


def _require_memory(plan: Plan) -> None:
    # The user's numbers are in memory already.
    needed, free = memory_bytes(plan), machine.available_memory() + len(plan.spec.own_data)
    own = None if plan.hosts else machine.process_memory()
    if own is not None:
        free = min(free, max(0, own))
    if needed <= free:
        _require_libraries()
        return
    tables = table_copies(plan) * plan.algorithm.table_bytes
    if tables > needed / 2:
        raise RunError(
            f"this run needs about {needed / 2**30:.1f} GiB of memory, {tables / 2**30:.1f} GiB of them for the precomputed "
            f"schedule in {table_copies(plan)} processes, and {free / 2**30:.1f} GiB are free; use fewer messages, segments "
            f"or hosts, or a smaller topology"
        )
    # If the journal makes up most of the memory, a smaller topology is not the only remedy.
    if journal_bytes(plan) > needed / 2:
        remedy = (
            f"it makes at least {deliveries(plan):,} deliveries by {hops(plan):,} hops: use fewer messages or segments, or "
            "a smaller topology"
        )
    else:
        remedy = "use a smaller topology" + (", or --driver memory" if plan.hosts else "")
    raise RunError(
        f"this run needs about {needed / 2**30:.1f} GiB of memory and {free / 2**30:.1f} GiB are free; {remedy}"
    )


def _require_coordinator_descriptors(plan: Plan) -> None:
    needed, limit = plan.hosts + RESERVED_DESCRIPTORS, machine.descriptor_limit()
    if needed > limit:
        raise RunError(f"{plan.hosts} hosts need {needed} file descriptors; the limit is {limit}")


def _require_local_hosts(plan: Plan) -> None:
    """Require room for host processes on this machine: descriptors, ports, sockets, tracked connections and process
    ids.
    """
    limit, needed, ends = machine.descriptor_limit(), descriptors_per_host(plan), ends_per_host(plan)
    if needed > limit:
        # Whole ranks: each needs a descriptor per link.
        fit = (limit - RESERVED_DESCRIPTORS) // plan.topology.degree
        remedy = f"use --ranks-per-host {fit} or less" if fit >= 1 else "raise the limit"
        raise RunError(
            f"a host would need {needed} file descriptors and the limit is {limit}; "
            f"{remedy}, or raise it with `ulimit -n {needed}`"
        )
    if ends > LOCAL_PORTS:
        raise RunError(
            f"a host would dial up to {ends} links and its address has {LOCAL_PORTS} ports; "
            f"use --ranks-per-host {LOCAL_PORTS // plan.topology.degree} or less"
        )
    used, most = machine.system_files()
    # Both ends of every link are on this machine.
    sockets = 2 * plan.topology.link_count
    if used + sockets > most:
        raise RunError(
            f"this run needs {sockets} sockets and the file table of this machine has room for {most - used} more; "
            f"raise it with `sysctl fs.file-max={used + sockets + 100_000}`, or use --driver memory"
        )
    if not needs_own_network(plan) and (reason := tracking_exceeded(plan)):
        remedy = "use --netns auto" if plan.scenario.netns == "never" else str(namespace.unavailable_reason())
        raise RunError(f"{reason}; {remedy}")
    processes = machine.process_limit()
    # Half, because threads and other programs count against the same limit.
    if processes is not None and plan.hosts > processes // 2:
        raise RunError(f"{plan.hosts} processes are too many for this machine; use --ranks-per-host auto")
