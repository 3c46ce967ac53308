"""Fuzz targets: every decoder, every handshake, and the host and coordinator behind them, without sockets.

One process fuzzes one target, under atheris (coverage-guided, libFuzzer inside): `python -m stress_tests.fuzzing TARGET
[libFuzzer options] [corpus folders]`. A target returns for what it takes and for what it refuses in the way that is
documented (FrameError, ScenarioError); anything else that is raised, a stall and memory that grows are findings, and end
the process. `python -m stress_tests.fuzzing -replay FOLDER` feeds every target what the folder of its name holds, and needs
no atheris.
"""
