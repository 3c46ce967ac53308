"""Fingerprints of objects: equal for equal content."""

from coordinator.execution.every_order.fingerprints import fingerprint


def test_fingerprints_see_paused_generators_and_closures() -> None:
    def numbers(last: int):  # type: ignore[no-untyped-def]
        yield from range(last)

    one, other = numbers(3), numbers(3)
    assert fingerprint([one]) == fingerprint([other])
    next(one)
    assert fingerprint([one]) != fingerprint([other])
    assert fingerprint(lambda: one) != fingerprint(lambda: other)
    circle: list[object] = [1]
    circle.append(circle)
    assert fingerprint(circle) != fingerprint([1, [1]])
