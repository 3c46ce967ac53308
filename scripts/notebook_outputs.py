"""Execute notebooks and store in them what their cells print: `python scripts/notebook_outputs.py examples/course/*.ipynb`.

The cells run in order, in one namespace, in a process of their own in the folder of the notebook. No Jupyter is needed: an
output is the printed text, and the text of an expression in the last line of a cell.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

Cell = dict[str, Any]
Execute = Callable[[Path, Sequence[str]], tuple[int, str, str]]
"""Runs a program in a folder and returns its exit status, output and errors."""
PROGRAM: Final = """
import ast, contextlib, io, json, sys

space, outputs = {"__name__": "__main__"}, []
for source in json.loads(sys.argv[1]):
    printed, value = io.StringIO(), None
    module = ast.parse(source)
    last = module.body.pop() if module.body and isinstance(module.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(printed):
        exec(compile(module, "cell", "exec"), space)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), space)
    outputs.append([printed.getvalue(), None if value is None else repr(value)])
json.dump(outputs, sys.stdout)
"""


def lines(text: str) -> list[str]:
    """Return a text as notebooks store it."""
    return text.splitlines(keepends=True)


def code_cells(notebook: dict[str, Any]) -> list[Cell]:
    """Return the cells that are executed."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def execute(folder: Path, program: Sequence[str], seconds: float = 240) -> tuple[int, str, str]:
    """Run a program in an interpreter of its own."""
    done = subprocess.run(program, cwd=folder, capture_output=True, text=True, timeout=seconds, check=False)
    return done.returncode, done.stdout, done.stderr


def outputs_of(path: Path, run: Execute = execute) -> list[list[Cell]]:
    """Execute a notebook and return the outputs of each code cell; RuntimeError if a cell fails."""
    cells = code_cells(json.loads(path.read_text(encoding="utf-8")))
    sources = json.dumps(["".join(cell["source"]) for cell in cells])
    status, out, err = run(path.parent, [sys.executable, "-c", PROGRAM, sources])
    if status:
        raise RuntimeError(f"{path}: a cell failed\n{err}")
    found = []
    for count, (printed, value) in enumerate(json.loads(out), start=1):
        outputs: list[Cell] = []
        if printed:
            outputs.append({"name": "stdout", "output_type": "stream", "text": lines(printed)})
        if value is not None:
            data = {"text/plain": lines(value)}
            outputs.append({"data": data, "execution_count": count, "metadata": {}, "output_type": "execute_result"})
        found.append(outputs)
    return found


def main() -> int:
    """Store the outputs of the notebooks that the arguments name."""
    for path in map(Path, sys.argv[1:]):
        notebook = json.loads(path.read_text(encoding="utf-8"))
        for count, (cell, outputs) in enumerate(zip(code_cells(notebook), outputs_of(path), strict=True), start=1):
            cell |= {"execution_count": count, "outputs": outputs}
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
