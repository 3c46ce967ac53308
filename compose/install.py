"""Install wheels by the pip that is one of them, without a network; run while an image is built.

`install.py WHEELS ENVIRONMENT [TARGET]`: into a virtual environment, or into a folder TARGET beside it. Everything is
compiled here: in a container nothing can be written.
"""

import compileall
import shutil
import subprocess
import sys
from pathlib import Path

wheels, environment, *beside = map(Path, sys.argv[1:])
target = beside[0] if beside else environment
(pip,) = wheels.glob("pip-*.whl")
mine = [wheel for wheel in wheels.glob("*.whl") if wheel != pip]
options = ["--no-index", "--no-deps", "--no-compile", *(["--target", target] if beside else [])]
subprocess.run(
    [environment / "bin" / "python3", f"{pip}/pip", "install", *options, *mine],
    check=True,
    env={"PYTHONDONTWRITEBYTECODE": "1"},
)
for tests in [path for path in target.rglob("tests") if path.is_dir()]:
    shutil.rmtree(tests, ignore_errors=True)  # one may lie within another
if (wheels / "healthy.py").exists():
    shutil.copy(wheels / "healthy.py", target)
if not compileall.compile_dir(target, quiet=1):
    sys.exit("something does not compile")
