"""Fuzz targets: every decoder and handshake, user input, and the host and coordinator behind them, without sockets.

A process fuzzes one target under atheris (coverage-guided, with libFuzzer):
`python -m stress_tests.fuzzing TARGET [libFuzzer options] [corpus folders]`. A target returns for accepted input and for
input that is refused as documented (FrameError, ScenarioError). Any other exception, a stall and growing memory end the
process. `python -m stress_tests.fuzzing -replay FOLDER` feeds every target the files in the folder of its name, and does
not need atheris. To add a target, write a function of bytes and an entry in the table of its module.

Structured input is made from the bytes by `Source`, not by Hypothesis: its `fuzz_one_input` is about fifty times slower.
"""
