"""A reader of XML from unknown hands: no document type, no entities, and bounds on depth, elements and text.

The parser is expat of the standard library. It never sees an entity, because a document type ends the reading.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final
from xml.parsers.expat import ExpatError, ParserCreate, errors

from coordinator.annexes.schedules.base import LARGEST, MOST_OPERATIONS, RefusedScheduleError

NUMBER: Final = re.compile(r"-?[0-9]+", re.ASCII)
MOST_DEPTH: Final = 8
MOST_ATTRIBUTES: Final = 64
MOST_TEXT: Final = 65_536
"""The longest value of an attribute, in characters."""
XML_ELEMENTS: Final = 2 * MOST_OPERATIONS
# A comment ends at its first end: without the atomic group, many comments would be divided in exponentially many ways.
BEFORE_ROOT: Final = rb"(?:\xef\xbb\xbf)?\s*+(?:<\?xml[^>]*+>\s*+)?(?:(?><!--.*?-->)\s*+)*+<"
LONGEST_TAG: Final = 1 << 20
"""The most bytes of one tag or comment, about."""
PART: Final = 1 << 16
"""Bytes that are parsed at once, so that a bound ends the reading soon after it is passed."""


@dataclass(slots=True)
class XmlElement:
    """One element: its name, attributes, children, and its first line."""

    tag: str
    attributes: Mapping[str, str]
    line: int
    children: list["XmlElement"] = field(default_factory=list)

    def named(self, *tags: str) -> Iterator["XmlElement"]:
        """Yield the children that have one of these names."""
        return (child for child in self.children if child.tag in tags)

    def text(self, at: str, name: str) -> str:
        """Return an attribute of the element at a place. Raises a RefusedScheduleError that names the place."""
        if name not in self.attributes:
            raise RefusedScheduleError(f"{at}: no attribute {name!r}")
        return self.attributes[name]

    def whole(self, at: str, name: str, least: int = -LARGEST, most: int = LARGEST) -> int:
        """Return an attribute that is a whole number from `least` to `most`. Raises a RefusedScheduleError that names the
        place.
        """
        text = self.text(at, name)
        if not NUMBER.fullmatch(text):
            raise RefusedScheduleError(f"{at}: {name}={text!r:.40} is not a whole number")
        # A number of thousands of digits is not computed.
        if len(text) > len(str(LARGEST)) + 1 or not least <= int(text) <= most:
            raise RefusedScheduleError(f"{at}: {name}={text:.40}; expected {max(least, 0)} to {most}")
        return int(text)

    def natural(self, at: str, name: str, most: int = LARGEST) -> int:
        """Return an attribute that is a whole number of at least 0. Raises a RefusedScheduleError that names the place."""
        number = self.whole(at, name, most=most)
        if number < 0:
            raise RefusedScheduleError(f"{at}: {name}={number} is below 0")
        return number


def begins_with(data: bytes, tag: str) -> bool:
    """Return whether the first element of a document has this name, behind its declaration and comments."""
    return re.match(BEFORE_ROOT + re.escape(tag.encode()) + rb"[\s>/]", data[:PART], re.DOTALL) is not None


def parse_xml(data: bytes) -> XmlElement:
    """Return the root of an XML document; text between elements is left out. Raises RefusedScheduleError."""
    top = XmlElement("", {}, 0)
    opened, count = [top], 0
    parser = ParserCreate()
    # Expat hands over long texts in one call instead of many small ones.
    parser.buffer_text = True

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal count
        count += 1
        line = parser.CurrentLineNumber
        if count > XML_ELEMENTS:
            raise RefusedScheduleError(f"it has more than {XML_ELEMENTS:,} elements")
        if len(opened) > MOST_DEPTH:
            raise RefusedScheduleError(f"line {line}: elements are nested more than {MOST_DEPTH} deep")
        if len(attributes) > MOST_ATTRIBUTES or any(len(value) > MOST_TEXT for value in attributes.values()):
            raise RefusedScheduleError(
                f"line {line}: <{tag:.20}> has more than {MOST_ATTRIBUTES} attributes, or one of more than {MOST_TEXT} "
                "characters"
            )
        element = XmlElement(tag, attributes, line)
        opened[-1].children.append(element)
        opened.append(element)

    def refuse_type(*_: object) -> None:
        raise RefusedScheduleError(f"line {parser.CurrentLineNumber}: document types and entities are not read")

    parser.StartElementHandler = start
    parser.EndElementHandler = lambda _: opened.pop()
    parser.StartDoctypeDeclHandler = refuse_type
    parser.EntityDeclHandler = refuse_type
    try:
        for first in range(0, len(data), PART):
            parser.Parse(data[first : first + PART])
            # Expat reads a tag from its beginning again with every part, so a long one would take quadratic time.
            if first + PART - max(parser.CurrentByteIndex, 0) > LONGEST_TAG:
                raise RefusedScheduleError(
                    f"line {parser.CurrentLineNumber}: a tag or comment has more than {LONGEST_TAG:,} bytes"
                )
        parser.Parse(b"", True)
    except ExpatError as error:
        reason = errors.messages[error.code]
        raise RefusedScheduleError(f"not XML: {reason}, line {error.lineno}, column {error.offset}") from None
    except (LookupError, ValueError) as error:
        # An encoding that expat does not know, or that Python cannot decode.
        raise RefusedScheduleError(f"not XML: {error}") from None
    return top.children[0]
