"""Spanning trees from files: an algorithm of one's own in a few lines."""

from coordinator.annexes import Annex


def register() -> Annex:
    """Return what this annex adds to the core."""
    return Annex(
        needs=("grading",),
        commands={
            "new tree": (
                "coordinator.annexes.trees.new_command:tree",
                "Write a spanning tree to start from, in eight lines: the greedy tree of the permutation star graph.",
            ),
        },
        calls={"--trees": "coordinator.annexes.trees.scenario_values:with_trees_file"},
        options={"TreesOptions": "coordinator.annexes.trees.options"},
    )
