"""All targets, by name. To add one, write a function of bytes and an entry in the table of its module."""

from stress_tests.fuzzing import decoders, files, shells, streams, texts

TARGETS = decoders.TARGETS | files.TARGETS | streams.TARGETS | texts.TARGETS | shells.TARGETS
