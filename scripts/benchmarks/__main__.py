"""Benchmarks: every figure beside a bare loop or other software, measured in the same run."""

import argparse
import os
import pkgutil
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

import benchmarks.sections
from benchmarks.record import Note, Options, Row, Section
from benchmarks.results import Document, Measured, read_document, write_document
from benchmarks.subprocesses import ROOT, ProgramError
from benchmarks.tables import HEADER, line, render
from emunode.errors import EmulatorError

PAGES = ROOT / "docs" / "maintainers"
DOCUMENT = PAGES / "scale.json"
DRAWING = PAGES / "scale.svg"
RENDERED = (PAGES / "scale.md",)
QUICK_TURNS = 1


def find_sections() -> dict[str, Section]:
    """Return every module of `sections` by name, the shortest first."""
    names = [module.name for module in pkgutil.iter_modules(benchmarks.sections.__path__)]
    found = {name: import_module(f"benchmarks.sections.{name}").SECTION for name in names}
    return dict(sorted(found.items(), key=lambda item: (item[1].optional, item[1].seconds, item[0])))


def measure(section: Section, options: Options) -> Measured:
    """Measure a section and print each figure as soon as it is available."""
    began, load = time.perf_counter(), os.getloadavg()[0]
    rows: list[Row] = []
    notes: list[Note] = []
    for item in section.run(options):
        if isinstance(item, Note):
            notes.append(item)
            print(f"  ({item.text})", flush=True)
        else:
            rows.append(item)
            print(line(item), flush=True)
    return Measured(rows, notes, time.perf_counter() - began, (load, os.getloadavg()[0]))


def draw(document: Document, path: Path) -> None:
    """Draw the figure; what draws is imported only for this, as it takes half of the time of a start."""
    from benchmarks import figure

    figure.draw(document, path)


def refresh_documents(document: Document) -> None:
    """Redraw the figure and refresh the tables of the documentation."""
    draw(document, DRAWING)
    for path in RENDERED:
        path.write_text(render(path.read_text(encoding="utf-8"), document), encoding="utf-8")
        print(f"wrote {path.relative_to(ROOT)}")


@contextmanager
def interruptible() -> Iterator[None]:
    """Handle SIGINT even if the shell ignores it, and treat SIGTERM as SIGINT."""
    # trio handles SIGINT at safe points, so SIGTERM is passed on instead of raising an exception
    handlers = {
        signal.SIGINT: signal.default_int_handler,
        signal.SIGTERM: lambda *_: signal.raise_signal(signal.SIGINT),
    }
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def parse(arguments: Sequence[str] | None, sections: dict[str, Section]) -> argparse.Namespace:
    """Parse the command line; exits with status 2 if it is invalid."""
    about = "".join(f"\n  {name:10} {section.about}; {section.seconds} s" for name, section in sections.items())
    parser = argparse.ArgumentParser(
        prog="scripts/bench",
        description=__doc__,
        epilog=f"sections, and about how long each takes:{about}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "sections", nargs="*", metavar="SECTION", help="sections to measure (default: all that are not optional)"
    )
    parser.add_argument(
        "--turns", type=int, metavar="N", help=f"rounds of candidates and baseline (default {Options.turns})"
    )
    parser.add_argument("--quick", action="store_true", help="functional check: small networks, one round")
    parser.add_argument(
        "--against", type=Path, metavar="DIR", help="another checkout, with its own .venv, for section versions"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write to FILE; other sections in it are kept")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the figures as FILE.svg or FILE.png")
    parser.add_argument(
        "--docs", action="store_true", help="write the figures to docs/maintainers/scale.json and refresh the page"
    )
    parser.add_argument(
        "--render", action="store_true", help="refresh the page from docs/maintainers/scale.json without measuring"
    )
    options = parser.parse_args(arguments)
    unknown = [name for name in options.sections if name not in sections]
    if unknown:
        parser.error(f"unknown section {unknown[0]!r}; available: {', '.join(sections)}")
    if options.turns is not None and options.turns < 1:
        parser.error(f"--turns {options.turns}: at least 1")
    if options.docs and options.quick:
        parser.error("--docs --quick: the documentation needs full measurements")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the requested sections; exit status 1 if a figure misses its target, 130 when interrupted."""
    sections = find_sections()
    requested = parse(arguments, sections)
    try:
        with interruptible():
            return _run(requested, sections)
    except KeyboardInterrupt:
        print("scripts/bench: interrupted", file=sys.stderr)
        return 130
    except (EmulatorError, OSError, ProgramError, ValueError) as error:
        print(f"scripts/bench: {error}", file=sys.stderr)
        return 4


def _run(requested: argparse.Namespace, sections: dict[str, Section]) -> int:
    if requested.render:
        refresh_documents(read_document(DOCUMENT))
        return 0
    options = Options(
        quick=requested.quick,
        turns=requested.turns or (QUICK_TURNS if requested.quick else Options.turns),
        against=requested.against,
    )
    target = DOCUMENT if requested.docs else requested.json
    document = read_document(target) if target else {"sections": {}}
    print(HEADER, flush=True)
    met = True
    for name in requested.sections or [name for name, section in sections.items() if not section.optional]:
        measured = measure(sections[name], options)
        met &= all(row.met for row in measured.rows)
        document["sections"][name] = measured.record(options)
        if target:  # after each section, so that a later failure loses nothing
            write_document(target, document)
    if requested.docs:
        refresh_documents(document)
    if requested.plot:
        draw(document, requested.plot)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
