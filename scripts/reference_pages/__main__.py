"""Write every generated file: pages and drawings of docs/, types of options. With `--check` compare them instead."""

import argparse
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from coordinator.reports.network_picture import draw_network
from documentation.gallery import listing, read_gallery
from emunode.topologies.registry import parse_topology
from reference_pages.architecture import architecture_page, draw_architecture
from reference_pages.collectives import ALGORITHMS, draw_collective
from reference_pages.fold_trees import draw_fold_tree
from reference_pages.interfaces import interfaces_page
from reference_pages.metrics import metrics_page
from reference_pages.option_types import option_types
from reference_pages.programs import commands_page, scenario_page
from reference_pages.tables import algorithms_page, faults_page, topologies_page

ROOT: Final = Path(__file__).resolve().parents[2]
NETWORKS: Final = ("star:4", "hypercube:4", "ej:2+3")
GENERATED: Final[Mapping[str, Callable[[], str]]] = {
    "docs/gallery.md": lambda: listing(read_gallery()),
    "coordinator/api/option_types.py": option_types,
    "docs/reference/commands.md": commands_page,
    "docs/reference/scenario.md": scenario_page,
    "docs/reference/metrics.md": metrics_page,
    "docs/reference/topologies.md": topologies_page,
    "docs/reference/algorithms.md": algorithms_page,
    "docs/reference/faults.md": faults_page,
    "docs/reference/interfaces.md": interfaces_page,
    "docs/explanation/architecture.md": architecture_page,
    "docs/pictures/architecture.svg": draw_architecture,
    "docs/pictures/fold-tree-ring.svg": lambda: draw_fold_tree("ring"),
    "docs/pictures/fold-tree-doubling.svg": lambda: draw_fold_tree("recursive doubling"),
    **{f"docs/pictures/{name.replace(':', '-')}.svg": partial(draw_network, parse_topology(name)) for name in NETWORKS},
    **{f"docs/pictures/collectives/{name}.svg": partial(draw_collective, name) for name in ALGORITHMS},
}


def stale_files() -> list[str]:
    """Return the generated files whose stored text differs from what the code gives now."""
    return [name for name, generate in GENERATED.items() if _stored(name) != generate()]


def _stored(name: str) -> str | None:
    path = ROOT / name
    return path.read_text(encoding="utf-8") if path.exists() else None


def main() -> int:
    """Regenerate the files; with `--check`, return 1 if any of them is stale."""
    parser = argparse.ArgumentParser(prog="scripts/reference", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="compare and write nothing; exit status 1 if a file is stale"
    )
    if parser.parse_args().check:
        stale = stale_files()
        print(
            "\n".join(f"{name} is stale: run scripts/reference" for name in stale) or "every generated file is current"
        )
        return 1 if stale else 0
    for name, generate in GENERATED.items():
        path = ROOT / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(generate(), encoding="utf-8")
        print(name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
