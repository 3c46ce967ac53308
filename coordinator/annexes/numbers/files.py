"""Arrays in files: the contributions of ranks that a user gives, and the results that ranks end with."""

from hashlib import sha256
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, cast

import numpy as np
from numpy.lib.format import read_array_header_1_0, read_array_header_2_0, read_magic
from numpy.typing import NDArray

from coordinator.history.run_directory import CONTRIBUTIONS
from coordinator.history.stored.reading import RefusedError, open_regular
from emunode.annexes.numbers.float_types import FLOAT_TYPES
from emunode.available_memory import available_memory
from emunode.errors import RunError, ScenarioError
from emunode.model import MOST_DATA, MOST_ELEMENTS, NUMBER_BYTES, NumberType, RealNumbers

CONVERTED: Final = 2**20
"""Numbers that are converted together."""
MOST_RESULTS: Final = 2**30
"""Bytes of the largest results that a run keeps: a row for each rank in an allreduce."""
HEADER_BYTES: Final = 4096
READERS: Final = {(1, 0): read_array_header_1_0, (2, 0): read_array_header_2_0}
"""Readers of the head of a file, by the version of the format."""
HELD: Final = "array:"
"""Prefix of the names of arrays that a program of Python gives."""
MOST_HELD: Final = 16
MOST_HELD_BYTES: Final = 2**31
"""Bytes of the arrays that are held, together, unless the most recent one alone has more."""
LANES: Final = 2**14
"""Words that are mixed side by side into the name of an array: few enough to stay in the cache."""
_held: dict[str, NDArray[Any]] = {}
"""Arrays of this process by name, the most recent ones."""
_without_nan: set[tuple[str, NumberType]] = set()
"""Pairs of a held array, by its name, and a type of numbers: the array has no NaN as this type."""


def hold_contributions(array: NDArray[Any], *, fresh: bool = False) -> str:
    """Return the value of `data` for an array of this process.

    The array is copied, unless it is `fresh` (made for this call) or an equal array is held.

    Equal arrays have one name, in every process, and different arrays of a process have different names.
    """
    if array.dtype.hasobject:
        raise ScenarioError("data", array.dtype, "an array of floats, not of objects")
    given = np.ascontiguousarray(array)
    # The same array again is usual, so that it costs one comparison and no copy: a copy of 768 MB takes longer than their
    # additions. Other arrays differ in their first words.
    name = next((each for each in reversed(_held) if _has_bits_of(_held[each], given)), "")
    held = _held.pop(name, None)
    if held is None:
        first = name = HELD + _fingerprint(given)
        while name in _held:
            name = f"{first}-{len(name)}"
        held = given if fresh or not np.may_share_memory(given, array) else given.copy()
        held.flags.writeable = False
    while _held and (
        len(_held) >= MOST_HELD or held.nbytes + sum(each.nbytes for each in _held.values()) > MOST_HELD_BYTES
    ):
        del _held[next(iter(_held))]
    _held[name] = held
    _without_nan.difference_update([pair for pair in _without_nan if pair[0] not in _held])
    return name


def _fingerprint(array: NDArray[Any]) -> str:
    """Return a digest of an array that only a made-up array shares with another one.

    SHA-256 of all of 768 MB takes four times as long as their additions, so it digests sums of words by place.
    """
    content = array.reshape(-1).view("u1")
    words = content[: len(content) // 8 * 8].view("u8")
    sums, factor = np.zeros(LANES, "u8"), 1
    for start in range(0, len(words), LANES):
        piece = words[start : start + LANES]
        # Odd factors, so that no bit is lost; each piece has its own, so that the order of pieces counts.
        factor = factor * 0x9E3779B97F4A7C15 % 2**64
        sums[: len(piece)] += piece * np.uint64(factor)
    head = repr((array.shape, array.dtype.str)).encode()
    return sha256(head + sums.tobytes() + content[len(words) * 8 :].tobytes()).hexdigest()


def _has_bits_of(one: NDArray[Any], other: NDArray[Any]) -> bool:
    """Report whether two arrays have the same type, shape and bits."""
    if (one.shape, one.dtype) != (other.shape, other.dtype):
        return False
    mine, theirs = (array.reshape(-1).view("u1") for array in (one, other))
    words = one.nbytes // 8 * 8
    pairs = [(each[:words].view("u8"), each[words:]) for each in (mine, theirs)]
    places = (slice(start, start + LANES) for start in range(0, words // 8, LANES))
    return np.array_equal(pairs[0][1], pairs[1][1]) and all(
        np.array_equal(pairs[0][0][place], pairs[1][0][place]) for place in places
    )


def read_contributions(path: str, kind: NumberType, count: int, row: str = "node") -> bytes:
    """Return the contributions of a `.npy` file of shape (count, elements), in the storage of `kind`. Each row is of one
    `row`.

    Floats of another type are rounded once; 16-bit words are bfloat16. ScenarioError (field `data`) for anything else.
    """
    if path.startswith(HELD):
        array = _held.get(path)
        if array is None:
            raise ScenarioError(
                "data", path, "this process does not hold the array, or holds it no longer; give a file"
            )
        _require_shape(array.shape, kind, count, path, row)
        if (path, kind) in _without_nan:
            return cast("bytes", array.reshape(-1).data.cast("B"))
        content = stored(array, kind, path)
        if isinstance(content, memoryview):
            _without_nan.add((path, kind))
        return content
    try:
        with open_regular(Path(path)) as file:
            header = _header(file)
            _require_shape(header.shape, kind, count, path, row)
            return stored(_content(file, header), kind, path)
    except RefusedError as error:
        raise ScenarioError("data", path, f"the file cannot be used: {error}") from None
    except OSError as error:
        raise ScenarioError("data", path, f"the file cannot be read: {error.strerror}") from None
    except ValueError:
        raise ScenarioError("data", path, "it is not an array of numbers in the format .npy") from None


def _require_shape(shape: tuple[int, ...], kind: NumberType, count: int, path: str, row: str) -> None:
    """Refuse arrays of another shape, and RunError for contributions that do not fit into memory."""
    if len(shape) != 2 or shape[0] != count or not shape[1]:
        found = "x".join(map(str, shape)) or "()"
        raise ScenarioError("data", path, f"an array of shape ({count}, elements), one row for each {row}, not {found}")
    if shape[1] > MOST_ELEMENTS:
        raise ScenarioError("data", path, f"at most {MOST_ELEMENTS:,} elements of a {row}, not {shape[1]:,}")
    needed = shape[0] * shape[1] * NUMBER_BYTES[kind]
    if needed > MOST_DATA:
        raise ScenarioError("data", path, f"at most {MOST_DATA:,} bytes as {kind}, not {needed:,}")
    if needed > (free := available_memory()):
        raise RunError(
            f"the contributions of {path} take {needed / 2**30:.1f} GiB as {kind}, and {free / 2**30:.1f} GiB of memory "
            "are free; use fewer elements"
        )


def stored(array: NDArray[Any], kind: NumberType, name: str) -> bytes:
    """Return numbers in the storage of `kind`, rounded once: a view of the array where it has them already. ScenarioError
    (field `data`) for arrays of another type.
    """
    target = FLOAT_TYPES[kind]
    # Files of numpy have no name for bfloat16: ml-dtypes writes it as two bytes without a type.
    is_word = array.dtype.name == "bfloat16" or array.dtype.str in ("<V2", "|V2", "<u2")
    is_bfloat16 = kind is NumberType.BFLOAT16 and is_word
    if not is_bfloat16 and (array.dtype.kind != "f" or array.dtype.itemsize > 8):
        raise ScenarioError("data", name, f"an array of floats, not of {array.dtype}")
    numbers = np.ascontiguousarray(array)
    flat = (numbers.view("<u2") if is_bfloat16 else numbers).reshape(-1)
    # Piece by piece: a second array of numbers in double precision would take more memory than all contributions.
    pieces = (flat[start : start + CONVERTED] for start in range(0, len(flat), CONVERTED))
    if flat.dtype == target.storage:
        if not any(target.undefined(piece).any() for piece in pieces):
            # A view reads like bytes; a copy of all contributions takes twice as long as their additions.
            return cast("bytes", flat.data.cast("B"))
        pieces = (flat[start : start + CONVERTED] for start in range(0, len(flat), CONVERTED))
        return b"".join(target.canonical(piece).data.cast("B") for piece in pieces)
    return b"".join(target.rounded(piece.astype("<f8")).data.cast("B") for piece in pieces)


def write_contributions(folder: Path, numbers: RealNumbers, count: int) -> str:
    """Write the contributions of a run into its folder; return the value of `data` that names the file there."""
    array = FLOAT_TYPES[numbers.type].read(numbers.data).reshape(count, -1)
    with (folder / CONTRIBUTIONS).open("xb") as file:
        np.save(file, array, allow_pickle=False)
    return CONTRIBUTIONS


def read_results(path: Path) -> NDArray[Any]:
    """Return the array of a `results.npy`; OSError, ValueError or RefusedError."""
    with open_regular(path, follow=False) as file:
        header = _header(file)
        if len(header.shape) != 2:
            raise ValueError("it is no array of two dimensions in the format .npy")
        if header.bytes > MOST_RESULTS:
            raise RefusedError(f"it has more than {MOST_RESULTS} bytes")
        return _content(file, header)


class Header(NamedTuple):
    """The head of a file `.npy`."""

    shape: tuple[int, ...]
    by_columns: bool
    dtype: np.dtype[Any]

    @property
    def bytes(self) -> int:
        """Bytes of the content."""
        return prod(self.shape) * self.dtype.itemsize


def _header(file: BinaryIO) -> Header:
    """Read the head of a file `.npy`; ValueError for other files, and for arrays of objects, which a pickle would hold."""
    try:
        version = read_magic(file)
        if version not in READERS:
            raise ValueError(f"version {version} of the format")
        # A pickle in the file would run code of its author: objects are refused, and no pickle is read.
        shape, by_columns, dtype = READERS[version](file, HEADER_BYTES)
    except (EOFError, SyntaxError) as error:
        raise ValueError(f"it is no array in the format .npy: {error}") from None
    if dtype.hasobject or any(length < 0 for length in shape):
        raise ValueError("it is no array of numbers in the format .npy")
    return Header(shape, by_columns, dtype)


def _content(file: BinaryIO, header: Header) -> NDArray[Any]:
    """Return the array behind the head of a file; ValueError if the file is shorter or longer."""
    data = file.read(header.bytes)
    if len(data) < header.bytes or file.read(1):
        raise ValueError(f"it is no array in the format .npy: expected {header.bytes} bytes behind its head")
    array = np.frombuffer(data, header.dtype)
    return array.reshape(header.shape[::-1]).T if header.by_columns else array.reshape(header.shape)
