"""What the sockets cost: every figure beside a bare loop, or beside what a user would pick instead, in the same run."""

import argparse
import pkgutil
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import FrameType

import benchmarks.sections
from benchmarks.figure import draw
from benchmarks.record import Note, Options, Row, Section
from benchmarks.results import Clock, Document, Measured, read_document, write_document
from benchmarks.subprocesses import ROOT, ProgramError
from benchmarks.tables import HEADER, line, render
from emunode.errors import EmulatorError

PAGES = ROOT / "docs" / "maintainers"
DOCUMENT = PAGES / "scale.json"
DRAWING = PAGES / "scale.svg"
RENDERED = (PAGES / "scale.md",)
QUICK_TURNS = 1


def find_sections() -> dict[str, Section]:
    """Every module of `sections`, by its name, the quick ones first."""
    names = [module.name for module in pkgutil.iter_modules(benchmarks.sections.__path__)]
    found = {name: import_module(f"benchmarks.sections.{name}").SECTION for name in names}
    return dict(sorted(found.items(), key=lambda item: (item[1].optional, item[1].seconds, item[0])))


def measure(section: Section, options: Options) -> Measured:
    """Measure a section, and print each figure when it is there."""
    clock = Clock()
    rows: list[Row] = []
    notes: list[Note] = []
    for item in section.run(options):
        if isinstance(item, Note):
            notes.append(item)
            print(f"  ({item.text})", flush=True)
        else:
            rows.append(item)
            print(line(item), flush=True)
    return Measured(rows, notes, *clock.read())


def refresh_documents(document: Document) -> None:
    """Draw and write anew what the documentation says was measured."""
    draw(document, DRAWING)
    for path in RENDERED:
        path.write_text(render(path.read_text(encoding="utf-8"), document), encoding="utf-8")
        print(f"wrote {path.relative_to(ROOT)}")


@contextmanager
def interruptible() -> Iterator[None]:
    """Ctrl-C works even where a shell has it ignored, and SIGTERM is the same."""

    def pass_on(_number: int, _frame: FrameType | None) -> None:
        signal.raise_signal(signal.SIGINT)  # trio knows where that may strike

    handlers = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: pass_on}
    before = [(number, signal.signal(number, handler)) for number, handler in handlers.items()]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)


def parse(arguments: Sequence[str] | None, sections: dict[str, Section]) -> argparse.Namespace:
    """The command line; exit status 2 for one that will not do."""
    about = "".join(f"\n  {name:10} {section.about}; {section.seconds} s" for name, section in sections.items())
    parser = argparse.ArgumentParser(
        prog="scripts/bench",
        description=__doc__,
        epilog=f"sections, and about how long each takes:{about}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "sections", nargs="*", metavar="SECTION", help="what to measure (default: all but the named only)"
    )
    parser.add_argument(
        "--turns", type=int, metavar="N", help=f"times that contenders and floor take turns (default {Options.turns})"
    )
    parser.add_argument(
        "--quick", action="store_true", help="small networks, one turn: does it work, not how fast is it"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there; other sections in it stay")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw them: FILE.svg or FILE.png")
    parser.add_argument(
        "--docs", action="store_true", help="write them into docs/maintainers/scale.json, and refresh the documents"
    )
    parser.add_argument(
        "--render", action="store_true", help="measure nothing, refresh the documents from docs/maintainers/scale.json"
    )
    options = parser.parse_args(arguments)
    unknown = [name for name in options.sections if name not in sections]
    if unknown:
        parser.error(f"there is no section {unknown[0]!r}; there are: {', '.join(sections)}")
    if options.turns is not None and options.turns < 1:
        parser.error(f"--turns {options.turns}: at least 1")
    if options.docs and options.quick:
        parser.error("--docs --quick: what the documents say is measured in full")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the sections asked for; exit status 1 when a figure falls short of what is wanted, 130 when interrupted."""
    sections = find_sections()
    asked = parse(arguments, sections)
    try:
        with interruptible():
            return _run(asked, sections)
    except KeyboardInterrupt:
        print("scripts/bench: interrupted", file=sys.stderr)
        return 130
    except (EmulatorError, OSError, ProgramError, ValueError) as error:
        print(f"scripts/bench: {error}", file=sys.stderr)
        return 4


def _run(asked: argparse.Namespace, sections: dict[str, Section]) -> int:
    if asked.render:
        refresh_documents(read_document(DOCUMENT))
        return 0
    options = Options(quick=asked.quick, turns=asked.turns or (QUICK_TURNS if asked.quick else Options.turns))
    target = DOCUMENT if asked.docs else asked.json
    document = read_document(target) if target else {"sections": {}}
    print(HEADER)
    met = True
    for name in asked.sections or [name for name, section in sections.items() if not section.optional]:
        measured = measure(sections[name], options)
        met &= all(row.met for row in measured.rows)
        document["sections"][name] = measured.record(options)
        if target:  # after each: whatever comes next, this is kept
            write_document(target, document)
    if asked.docs:
        refresh_documents(document)
    if asked.plot:
        draw(document, asked.plot)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
