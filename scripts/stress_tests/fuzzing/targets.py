"""All targets, by name. To add one, write a function of bytes and an entry in the table of its module."""

from stress_tests.fuzzing import decoders, shells, streams, texts
from stress_tests.fuzzing.source import Target

TARGETS: dict[str, Target] = decoders.TARGETS | streams.TARGETS | texts.TARGETS | shells.TARGETS
