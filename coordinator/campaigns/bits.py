"""The bits that the record of a run in a sweep keeps of its results; `annexes.numbers` compares them."""

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from coordinator.history.result_array import ResultArray

MOST_COMPARED: Final = 1024
"""Elements of the lowest rank that the record of a run keeps."""
BITS: Final = "bits"
"""The key of a record with the elements, in hexadecimal digits of their little-endian bytes."""


def bits_record(results: "ResultArray | None") -> dict[str, Any]:
    """Return what the record of a run keeps of its results; nothing for a run without real numbers."""
    return {} if results is None else {BITS: results.numbers[0, :MOST_COMPARED].tobytes().hex()}
