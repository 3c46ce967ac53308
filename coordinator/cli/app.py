"""The table of commands.

cyclopts imports the module of a command when the command is used, from the name given here.

Exit statuses:

* 0: every claim holds.
* 1: a claim, a certificate or a stored run is wrong, and nothing else.
* 2: usage or scenario error.
* 3: undecided.
* 4: the command could not run on this machine.
* 130: interrupted.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from cyclopts import App, Group, Parameter
from cyclopts.help import DefaultFormatter, HelpPanel

from coordinator.annexes import merged
from emunode import __version__

WORDS = {"STR": "TEXT", "FLOAT": "NUMBER"}
"""Placeholders of values, by the names that the argument library gives them."""


def in_words(text: str) -> str:
    """Replace the names of Python's types in a placeholder, or in a text with placeholders."""
    return re.sub(rf"\b({'|'.join(WORDS)})\b", lambda found: WORDS[found[0]], text)


def shown_default(value: object) -> str | None:
    """Return a default as a user writes it; None, to hide it, where nothing is the default."""
    return None if value is None or value is False or value in ((), "") else str(value)


class HelpText(DefaultFormatter):
    """The boxes of the help."""

    def __call__(self, console: Any, options: Any, panel: HelpPanel) -> None:
        """Print a box with placeholders in words of users."""
        entries = [each.copy(metavar=each.metavar and in_words(each.metavar)) for each in panel.entries]
        super().__call__(console, options, panel.copy(entries=entries))


app = App(
    name="coordinator",
    version=__version__,
    help="Bring up an interconnection network, run a collective on it, and judge the result.",
    help_format="plaintext",
    group_commands=Group("Commands", sort_key=9),
    help_epilogue="`coordinator COMMAND -h` shows what a command does, with examples; `coordinator COMMAND --help` also all "
    "flags, with types and defaults.",
    help_formatter=HelpText(),
    default_parameter=Parameter(negative=(), show_default=shown_default),
    suppress_keyboard_interrupt=False,
)
# Each summary repeats the first line of the command's docstring: reading it would import the module of the command.
CORE_COMMANDS = {
    "run": ("run:RunCommand", "Run a scenario."),
    "plan": ("plan:plan", "Print what a scenario needs and what theory predicts, without running it."),
    "serve": ("serve:serve", "Wait for hosts that are started elsewhere, then run a scenario on them."),
    "campaign": ("campaign:campaign_command", "Run many trials over a grid of scenarios and faults."),
    "sweep": ("sweep:SweepCommand", "Run algorithms over networks and sizes, and draw a metric with its lower bound."),
    "verify": ("verify:verify", "Check stored runs, campaigns, sweeps and certificate files."),
    "report": ("report:report", "Draw the report of a stored run again."),
    "open": ("runs:open_run", "Show the report of a run in the browser, and print its path."),
    "compare": ("compare:compare_runs", "Compare stored runs: what differs in their scenarios, metrics and claims."),
    "doctor": ("doctor:doctor", "Check what this machine offers: limits, loopback, disk, clock, containers."),
    "clean": ("leftovers:clean", "Remove what killed runs of this folder have left."),
    "image": ("image:image", "Build the container images with Docker."),
    "compose": ("image:compose", "Print a compose file."),
    "list topologies": ("listing:TopologiesCommand", "List the families of networks, with the form of their names."),
    "list algorithms": ("listing:algorithms_command", "List the algorithms, or describe one in full."),
    "list faults": ("listing:FaultsCommand", "List the kinds of fault and their syntax, and the sets of faults."),
    "list placements": ("listing:PlacementsCommand", "List the placements: the nodes that share a host."),
    "list runs": ("runs:RunsCommand", "List the stored runs, newest first."),
}
CORE_GROUPS = {
    "list": "List the topologies, the algorithms, the kinds of fault, and stored runs.",
}
USES = {
    "Run": ("coordinator run star:4 broadcast edt", "run plan list open report compare verify"),
    "Study": (
        "coordinator sweep star:3..6 broadcast edt,greedy-tree",
        "sweep campaign certify reproduce graph export pack",
    ),
    "Own work": ("coordinator new algorithm my-tree --topology star", "new check judge"),
    "Machines": (
        "coordinator run star:4 broadcast edt --driver docker",
        "doctor clean serve image compose manifest",
    ),
}
"""The boxes of the help in their order: an example, and the commands."""
PLACES: Mapping[str, dict[str, Any]] = {
    name: {"group": group, "sort_key": place}
    for number, (use, (example, names)) in enumerate(USES.items())
    for group in [Group(use, help=f"for example: {example}", sort_key=number)]
    for place, name in enumerate(names.split())
}
groups = {
    name: App(name=name, help=text, **PLACES.get(name, {}))
    for name, text in {**CORE_GROUPS, **merged("groups")}.items()
}
_core = {words: (f"coordinator.cli.{target}", summary) for words, (target, summary) in CORE_COMMANDS.items()}
_all = _core | merged("commands")
COMMANDS = {words: each for words, each in _all.items() if words.split()[0] in {*_all, *groups}}
"""The target and the summary of every command, by its words; without those below the command of a missing annex."""

for each in groups.values():
    app.command(each)
for words, (target, summary) in COMMANDS.items():
    *parents, name = words.split()
    parent = groups.get(parents[0]) if parents else app
    if parent is not None:  # a command adds the commands below it
        parent.command(target, name=name, help=summary, **({} if parents else PLACES.get(name, {})))
app.command(
    "coordinator.cli.completion:install_completion", name="--install-completion", help="Install shell completion."
)


def short_help(arguments: Sequence[str]) -> str | None:
    """Return what a command with `-h` does, with examples; None without it, and for a group of commands."""
    if "-h" not in arguments:
        return None
    words, apps, _ = app.parse_commands(arguments[: arguments.index("-h")])
    if apps[-1].default_command is None:
        return None
    name = " ".join(["coordinator", *words])
    details = f"{apps[-1].help_epilogue}\n\n`{name} --help` lists its flags"
    return f"{name}: {apps[-1].help.splitlines()[0]}\n\n{details}"
