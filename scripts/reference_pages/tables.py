"""Pages that print the registries: topologies, algorithms, kinds of faults."""

from itertools import groupby

from reference_pages.markdown import command_json, page, table


def topologies_page() -> str:
    """Return the network families, each with one example."""
    rows = command_json("list", "topologies")
    columns = {"form": "form", "describe": "definition", "condition": "condition", "example": "example"}
    return page(
        "Topologies",
        "The families of `coordinator list topologies --json`. [networks.md](../explanation/networks.md) explains the "
        "first three; `coordinator graph NET` shows the properties of one network.",
        table(list(columns.values()), ([row[name] for name in columns] for row in rows)),
    )


def algorithms_page() -> str:
    """Return the algorithms, one table per network family."""
    rows = command_json("list", "algorithms")
    columns = {
        "collective": "collective",
        "algorithm": "algorithm",
        "port_models": "port models",
        "schedule": "schedule",
        "citation": "source",
    }
    parts = [f"{len(rows)} combinations of network, collective and algorithm."]
    for family, members in groupby(rows, key=lambda row: row["topology"]):
        cells = [
            (
                row["collective"],
                f"`{row['algorithm']}`",
                ", ".join(row["port_models"]),
                row["schedule"],
                row["citation"],
            )
            for row in members
        ]
        parts += [f"## {family}", table(list(columns.values()), cells)]
    return page("Algorithms", *parts)


def faults_page() -> str:
    """Return the kinds of faults and their syntax."""
    listed = command_json("list", "faults")

    def rows(use: str) -> str:
        return table(
            ("kind", "syntax", "meaning"),
            [(row["kind"], f"`{row['written']}`", row["meaning"]) for row in listed if row["use"] == use],
        )

    text = "[How faults act](../explanation/faults.md) explains the exact effects."
    sets = "[Sets of faults](../how-to/campaigns.md#fault-sets) name a strategy, and numbers of places or blocks."
    parts = (rows("fault"), f"## Strategies\n\n{sets}\n\n{rows('strategy')}", f"## Blocks\n\n{rows('block')}")
    return page("Kinds of faults", text, *parts)
