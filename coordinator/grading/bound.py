"""How far a run is from the fewest steps that any algorithm needs."""

from coordinator.grading.played_run import PlayedRun
from coordinator.theory.lower_bounds import Traffic, lower_bounds
from emunode.model import Collective


def fewest_steps(run: PlayedRun) -> tuple[int, str] | None:
    """A lower bound on the steps, and its reason; None where nothing is known. Packets hold what `link_capacity` says."""
    spec = run.spec
    capacity = run.opened.get("link_capacity")
    traffic = Traffic(
        spec.collective,
        spec.source,
        spec.messages * int(run.opened["segments_per_message"]),
        spec.messages * spec.message_bytes,
        spec.port_model,
        spec.duplex,
        capacity if isinstance(capacity, int) else None,
        pairs=((spec.source, spec.target),) if spec.collective is Collective.UNICAST else (),
    )
    claims = [claim for claim in lower_bounds(run.topology, traffic) if claim.name == "steps"]
    if not claims or not isinstance(claims[0].predicted, int):
        return None
    return claims[0].predicted, claims[0].source.partition(": ")[2]
