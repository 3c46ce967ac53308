"""Arrays in files: the contributions of ranks that a user gives, and the results that ranks end with."""

from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from coordinator.stored.reading import RefusedError, read_bytes
from emunode.errors import ScenarioError
from emunode.model import NUMBER_BYTES, NumberType, RealNumbers
from emunode.values.float_types import FLOAT_TYPES, FloatArray

MOST_DATA: Final = 48 * 2**20
"""Bytes of contributions of all ranks together at most: hosts receive them with their configuration, in one frame."""
MOST_RESULTS: Final = 2**30
"""Bytes of the largest results that a run keeps: a row for each rank in an allreduce."""
HEADER_BYTES: Final = 4096
HELD: Final = "array:"
"""Prefix of the names of arrays that a program of Python gives."""
DATA: Final = "data.npy"
"""The file of a run directory that holds its contributions."""
MOST_HELD: Final = 16
_held: dict[str, NDArray[Any]] = {}
"""Arrays of this process by name, the most recent ones."""


def hold_contributions(array: NDArray[Any]) -> str:
    """Return the value of `data` for an array of this process, which is copied."""
    copy = np.array(array)
    name = HELD + sha256(repr((copy.shape, copy.dtype.str)).encode() + copy.tobytes()).hexdigest()
    _held.pop(name, None)
    _held[name] = copy
    if len(_held) > MOST_HELD:
        del _held[next(iter(_held))]
    return name


def read_contributions(path: str, kind: NumberType, ranks: int) -> bytes:
    """Return the contributions of a `.npy` file of shape (ranks, elements), in the storage of `kind`.

    Floats of another type are rounded once; 16-bit words are bfloat16. ScenarioError (field `data`) for anything else.
    """
    if path.startswith(HELD):
        array = _held.get(path)
        if array is None:
            raise ScenarioError("data", path, "the array of another process; give a file")
    else:
        # A number of eight bytes in a file may become one of two.
        array = _array(path, "data", 8 // NUMBER_BYTES[kind] * MOST_DATA + HEADER_BYTES)
    if array.ndim != 2 or array.shape[0] != ranks or not array.size:
        shape = "x".join(map(str, array.shape)) or "()"
        raise ScenarioError("data", path, f"an array of shape ({ranks}, elements), one row for each node, not {shape}")
    return stored(array, kind, path).tobytes()


def stored(array: NDArray[Any], kind: NumberType, name: str) -> FloatArray:
    """Return numbers in the storage of `kind`, rounded once; ScenarioError (field `data`) for arrays of another type."""
    target = FLOAT_TYPES[kind]
    # Files of numpy have no name for bfloat16: ml-dtypes writes it as two bytes without a type.
    if kind is NumberType.BFLOAT16 and (array.dtype.name == "bfloat16" or array.dtype.str in ("<V2", "|V2", "<u2")):
        numbers: FloatArray = target.canonical(np.ascontiguousarray(array).view("<u2"))
    elif array.dtype.kind == "f" and array.dtype.itemsize <= 8:
        numbers = target.rounded(np.ascontiguousarray(array, "<f8"))
    else:
        raise ScenarioError("data", name, f"an array of floats, not of {array.dtype}")
    if numbers.nbytes > MOST_DATA:
        raise ScenarioError("data", name, f"at most {MOST_DATA} bytes as {kind}, not {numbers.nbytes}")
    return numbers


def write_contributions(folder: Path, numbers: RealNumbers, ranks: int) -> str:
    """Write the contributions of a run into its folder; return the value of `data` that names the file there."""
    array = FLOAT_TYPES[numbers.type].read(numbers.data).reshape(ranks, -1)
    with (folder / DATA).open("xb") as file:
        np.save(file, array, allow_pickle=False)
    return DATA


def read_results(path: Path) -> NDArray[Any]:
    """Return the array of a `results.npy`; OSError, ValueError or RefusedError."""
    data = read_bytes(path, MOST_RESULTS + HEADER_BYTES, follow=False)
    try:
        array = np.load(BytesIO(data), allow_pickle=False)
    except (EOFError, SyntaxError) as error:
        raise ValueError(f"it is no array in the format .npy: {error}") from None
    if not isinstance(array, np.ndarray) or array.ndim != 2:
        raise ValueError("it is no array of two dimensions in the format .npy")
    return array


def _array(path: str, field: str, most: int) -> NDArray[Any]:
    """Return the array of a `.npy` file of at most `most` bytes; ScenarioError if it cannot be read."""
    try:
        data = read_bytes(Path(path), most)
        # A pickle in the file would run code of its author.
        array = np.load(BytesIO(data), allow_pickle=False)
    except RefusedError as error:
        raise ScenarioError(field, path, f"the file cannot be used: {error}") from None
    except OSError as error:
        raise ScenarioError(field, path, f"the file cannot be read: {error.strerror}") from None
    except (ValueError, EOFError, SyntaxError):
        raise ScenarioError(field, path, "it is no array of numbers in the format .npy") from None
    if not isinstance(array, np.ndarray):
        raise ScenarioError(field, path, "it is an archive of arrays; expected one array in the format .npy")
    return array
