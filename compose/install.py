"""Install wheels without a network, with the pip that is among them; runs while an image is built.

`install.py WHEELS ENVIRONMENT [TARGET]` installs into a virtual environment, or into a separate folder TARGET. All modules
are compiled here, because a container cannot write to its file system.
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
    shutil.rmtree(tests, ignore_errors=True)  # test folders can be nested
if (wheels / "healthcheck.py").exists():
    shutil.copy(wheels / "healthcheck.py", target)
if not compileall.compile_dir(target, quiet=1):
    sys.exit("compilation failed")
