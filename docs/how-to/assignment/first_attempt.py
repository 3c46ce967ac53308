"""A first attempt at the trees of the assignment: it brings the first symbol home, and forgets what to do after that."""


def parent(label: str, tree: int) -> int | None:
    """The port of the parent; None at the root."""
    del tree
    first = int(label[0])
    if label == "".join(sorted(label)):
        return None
    # The first symbol belongs at place `first`, which is behind port first - 2. If it is 1, any port will do .. or will it?
    return first - 2 if first != 1 else 0
