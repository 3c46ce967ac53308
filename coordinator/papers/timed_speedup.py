"""nESBT over SBT by a real clock: figures 16 and 17 of Johnsson and Ho, broadcast on cubes of 2 to 6 dimensions.

S. L. Johnsson and C.-T. Ho, "Spanning graphs for optimum broadcasting and personalized communication in hypercubes",
YALEU/DCS/TR-500, 1986, section 9. On the iPSC/d7 the ratio of the two broadcast times was "about n". The length of the
message is not in the text; with P packets of 1 KiB and both directions of a link in use, theory has n P cycles for SBT and
P + n for nESBT, so the ratio is nP / (P + n). A packet of 1 KiB costs a start-up of 8 ms and 0.8 us a byte (10 Mbit/s).
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from coordinator.plan import make_plan
from coordinator.run import run
from coordinator.scenario import make_scenario

PACKET_BYTES = 1024
STARTUP = "8ms"
PER_BYTE = "800ns"
CYCLE_SECONDS = 0.008 + PACKET_BYTES * 0.8e-6
DIMENSIONS = range(2, 7)


def rows(
    dimensions: Iterable[int] = DIMENSIONS, packets: int = 60, driver: str = "local", lateness_limit: float = 0.05
) -> Iterator[dict[str, object]]:
    """One row a dimension: predicted and measured seconds of both broadcasts, their ratio, and a verdict.

    `holds` when both runs hold and the measured ratio is within a tenth of the predicted one; `undecided` when the machine
    was late. Takes (n + 1) x packets cycles of 9 ms for each dimension n, and the bringing up of two networks.
    """
    for n in dimensions:
        runs = {name: _measure(n, name, packets, driver, lateness_limit) for name in ("sbt", "nesbt")}
        predicted = {"sbt": n * packets * CYCLE_SECONDS, "nesbt": (packets + n) * CYCLE_SECONDS}
        ratio = predicted["sbt"] / predicted["nesbt"]
        achieved = {name: float(str(summary["achieved_seconds"])) for name, summary in runs.items()}
        measured = achieved["sbt"] / achieved["nesbt"] if achieved["nesbt"] else 0.0
        verdicts = {summary["verdict"] for summary in runs.values()}
        verdict = "holds" if abs(measured / ratio - 1) <= 0.1 else "violated"
        yield {
            "n": n,
            "packets": packets,
            "sbt_predicted": predicted["sbt"],
            "sbt_measured": achieved["sbt"],
            "nesbt_predicted": predicted["nesbt"],
            "nesbt_measured": achieved["nesbt"],
            "speedup_paper": f"about {n}",
            "speedup_predicted": ratio,
            "speedup_measured": measured,
            "verdict": next((known for known in ("violated", "undecided") if known in verdicts), verdict),
        }


def _measure(n: int, algorithm: str, packets: int, driver: str, lateness_limit: float) -> dict[str, object]:
    """The summary of one broadcast under the timed clock."""
    scenario = make_scenario({
        "topology": f"hypercube:{n}",
        "collective": "broadcast",
        "algorithm": algorithm,
        "port_model": "exchange",
        "message_bytes": packets * PACKET_BYTES,
        "segments": packets,
        "packet_limit": PACKET_BYTES,
        "driver": driver,
        "clock": "timed",
        "startup": STARTUP,
        "per_byte": PER_BYTE,
        "lateness_limit": lateness_limit,
    })  # fmt: skip
    with TemporaryDirectory() as folder:
        return run(make_plan(scenario), Path(folder) / "run", lambda *_: None).summary
