"""`coordinator certify`."""

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from coordinator.annexes import annex_function
from coordinator.annexes.proofs.api import certify_scenario
from coordinator.annexes.proofs.certificate import Certificate, Level, record
from coordinator.api.console import on_stderr, say_wrapped
from coordinator.campaigns.engines import Engine
from coordinator.cli import render
from coordinator.cli.given import values_from
from coordinator.cli.options import ScenarioWords
from coordinator.cli.output import OUTPUT, Command, as_command
from coordinator.cli.trials import TRIAL_DEFAULTS, TrialFlags, WorkersFlag
from coordinator.scenario.command import describe
from coordinator.scenario.model import make_scenario
from coordinator.scenario.plugins import plugin_flags
from emunode.errors import ScenarioError
from emunode.terminal import plural, print_json, say


@as_command
@dataclass
class CertifyCommand(Command):
    """Decide every set of faults up to symmetry, or find a smallest counterexample.

    The verdict is `holds` if every healthy node receives everything that is due, under every set of faults.

    Examples:
      coordinator certify star:4 broadcast edt --redundancy 3 --faults 'nodes<=2'
      coordinator certify counterexample.toml
    """

    scenario: ScenarioWords = ()
    _: KW_ONLY
    flags: TrialFlags = None
    faults: Annotated[
        list[str] | None,
        Parameter(
            metavar="SETS",
            help="sets of faults: nodes<=2, links<=2, 'nodes<=1;links<=1' or any<=2 (repeatable); "
            "default: the faults of the scenario",
        ),
    ] = None
    sample: Annotated[
        int | None,
        Parameter(
            help="run all sets in memory, then run on --driver those that leave one copy, and this many of the others"
        ),
    ] = None
    method: Annotated[
        str,
        Parameter(
            help="cuts: prove by the smallest sets of faults that meet all paths; runs: run every set; auto: cuts where "
            "the paths of the algorithm decide, else runs"
        ),
    ] = "auto"
    engine: Annotated[
        Engine | None,
        Parameter(
            help="how sets are run: messages; exact, for deliveries without messages, and no other claims; auto "
            "(default): exact for many sets in memory, wherever possible, with a sample that is run again with messages"
        ),
    ] = None
    workers: WorkersFlag = None
    every_order: Annotated[
        bool,
        Parameter(
            help="run every order of arrivals, orders and reports that hosts allow, or under the timed clock of the events "
            "of equal times, of at most eight nodes, in place of sets of faults: holds if there is one journal; "
            "--ranks-per-host sets the hosts, by default one process for each node",
        ),
    ] = False
    executions: Annotated[
        int | None, Parameter(help="most executions of --every-order (undecided beyond); default: 100000")
    ] = None
    out: Annotated[
        Path | None,
        Parameter(
            group=OUTPUT,
            help="file for the certificate, such as certificate.json, which `coordinator verify` checks; or for the "
            "scenario of a counterexample, such as counterexample.toml; or for the order that deviates, such as order.json",
        ),
    ] = None

    def __call__(self) -> int:
        base = make_scenario({**TRIAL_DEFAULTS, **values_from(self.scenario, self.flags)})
        if self.executions is not None and not self.every_order:
            raise ScenarioError("executions", self.executions, "it bounds --every-order; give that too")
        if self.every_order:
            if self.faults or self.sample is not None or self.engine or self.workers or self.method != "auto":
                raise ScenarioError(
                    "every_order",
                    None,
                    "it takes a scenario with its --fault, --executions and --out, and no other flag of certify",
                )
            status: int = annex_function("certify --every-order")(base, self.executions, self.out, as_json=self.json)
            return status
        with on_stderr("certify", "nothing is kept; the same command begins again") as progress:
            certificate = certify_scenario(
                base, self.faults or [], self.sample, self.workers, progress, self.method, self.engine or "auto"
            )
        path = None
        if certificate.counterexample is not None and self.faults:
            path = Path("runs", "counterexamples", f"{certificate.plan.name}.toml")
            path = self.out if self.out is not None and self.out.suffix != ".json" else path
            certificate.save_counterexample(path)
        if self.out is not None and self.out.suffix == ".json" and not certificate.interrupted:
            certificate.save(self.out)
        if self.json:
            print_json(record(certificate, path))
        else:
            show_certificate(certificate, path)
        return 130 if certificate.interrupted else certificate.exit_status


def _symmetries(count: int) -> str:
    """Describe the symmetries of the counted sets of faults, as a clause."""
    verbs = ("fixes", "keeps") if count == 1 else ("fix", "keep")
    return f"{plural(count, 'symmetr', 'ies', 'y')} {verbs[0]} the source and {verbs[1]} the trees"


def show_certificate(certificate: Certificate, path: Path | None) -> None:
    """Print the certified claim, each level, the counterexample if there is one, and the verdict."""
    out, plan, spec, verdict = render.console(), certificate.plan, certificate.plan.spec, certificate.verdict
    out.print(
        f"[bold]{plan.topology.title}[/bold]: {spec.collective} by {describe(plan.scenario.model_dump())}, "
        f"driver {plan.scenario.driver}; {_symmetries(certificate.symmetries)}",
        wrap=out.is_terminal,
    )
    render.show_rows("sets of faults", [_row(level, certificate.method) for level in certificate.counts])
    for line in _argument_lines(certificate):
        say_wrapped(line)
    for line in _counterexample_lines(certificate, path):
        say(line)
    out.print(f"verdict: {render.verdict_text(verdict)}   {_counted(certificate)}", wrap=out.is_terminal)


def _row(level: Level, method: str) -> dict[str, object]:
    """Return the columns of a level that are informative under this method; bounds of a number are shown as a range."""
    row = level.record()
    least, most = row.pop("survived_least"), row.pop("survived_most")
    survived = f"{least:,}" if least == most else f"{least:,} to {most:,}"
    unused = ("orbits", "tight", "covered") if method == "cuts" else ()
    shown = {name: value for name, value in row.items() if name not in unused}
    again = {"run as a check": shown.pop("again")} if "again" in shown else {}
    return {"faults": shown.pop("faults"), "sets": shown.pop("sets"), "survived": survived, **shown, **again}


def _argument_lines(certificate: Certificate) -> Iterator[str]:
    if certificate.without_cuts is not None:
        yield f"sets are run, because {certificate.without_cuts}"
    yield from (f"why, for {argument}" for argument in certificate.argument)


def _counted(certificate: Certificate) -> str:
    """Return the grounds of the verdict."""
    covered, orbits = (sum(getattr(level, name) for level in certificate.counts) for name in ("covered", "orbits"))
    sets = sum(level.sets for level in certificate.counts)
    if certificate.method == "cuts":
        return f"{plural(sets, 'set')} of faults by smallest cuts; {plural(certificate.trials, 'run')} of the message engine"
    rate = f"; {certificate.trials_per_second:,.0f} per second" if certificate.trials_per_second else ""
    if certificate.engine == "exact":
        decided = f"{plural(covered, 'set')} of faults in {plural(orbits, 'orbit')}, each evaluated exactly{rate}"
        return f"{decided}; {certificate.repeated} repeated with messages agree"
    return f"{plural(covered, 'set')} of faults in {plural(orbits, 'orbit')}, each one run{rate}"


def _counterexample_lines(certificate: Certificate, path: Path | None) -> Iterator[str]:
    found = certificate.counterexample
    if found:
        yield f"counterexample: {', '.join(found.faults) or 'nothing broken'}"
        if found.unserved:
            yield f"  healthy and not served: {', '.join(found.unserved)}"
        if found.violated:
            yield f"  violated: {'; '.join(found.violated)}"
    if path:
        yield f"  repeat it with: coordinator certify {path}{plugin_flags(certificate.plan.scenario.plugin)}"
    if certificate.different is not None:
        yield f"history different from memory under: {', '.join(certificate.different)}"
