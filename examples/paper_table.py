"""A table of a paper: printed, predicted and measured values, side by side.

    python paper_table.py [FOLDER]      # with FOLDER also the page with the figures, and every table as CSV

`coordinator reproduce` lists the papers. The whole tables take minutes; this is one size of one paper.
"""

import sys

import coordinator as tb


def main() -> None:
    folder = sys.argv[1] if len(sys.argv) > 1 else None
    paper = tb.reproduce("johnsson-ho-graphs", n=4, out=folder)
    print(f"verdict: {paper.verdict}", dict(paper.counts))
    for table in paper.tables:
        print(f"\n{table.title}")
        for row in table.rows[:5]:
            print("  ", "  ".join(f"{name}={value}" for name, value in row.items() if value is not None))
    if not paper.counts.get("holds"):
        raise SystemExit("no row holds")


if __name__ == "__main__":
    main()
