"""The end of a process, and imports in a process that starts no threads for linear algebra."""

import os
import subprocess
import sys

import pytest

from emunode.runtime import OPENBLAS_THREADS, single_threaded_imports


def test_a_process_that_exits_at_once_runs_its_handlers() -> None:
    code = (
        "import atexit, sys\n"
        "from emunode.runtime import exit_at_once\n"
        "atexit.register(lambda: print('handler'))\n"
        "sys.stdout.write('buffered ')\n"
        "exit_at_once(3)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stdout) == (3, "buffered handler\n")


def test_imports_without_threads_leave_the_environment_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(OPENBLAS_THREADS, raising=False)
    with single_threaded_imports():
        assert os.environ[OPENBLAS_THREADS] == "1"
    assert OPENBLAS_THREADS not in os.environ
    monkeypatch.setenv(OPENBLAS_THREADS, "7")
    with single_threaded_imports():
        assert os.environ[OPENBLAS_THREADS] == "7"
    assert os.environ[OPENBLAS_THREADS] == "7"
