"""All targets, by name. Another one is a function of bytes and an entry in the table of its module."""

from torturing.fuzzing import decoders, shells, streams, texts
from torturing.fuzzing.source import Target

TARGETS: dict[str, Target] = decoders.TARGETS | streams.TARGETS | texts.TARGETS | shells.TARGETS
