"""A node on a complete network that reduces by Rabenseifner's algorithm, for any number of nodes.

Of p nodes p' = 2^floor(log2 p) take part: first the even node of each superfluous pair sends its vector to the odd one. They
halve the vector over the distances p'/2, .., 1, double it over 1, .., p'/2, and the odd nodes send the result to the even
ones. One segment for each participant. The word `f` or `d` is the type of the numbers.
"""

import json
import sys
from array import array
from typing import Any

KIND = sys.argv[1]


class Node:
    """One node."""

    def __init__(self, message: dict[str, Any]) -> None:
        self.me, order = message["rank"], message["order"]
        self.ports = {link["rank"]: link["port"] for link in message["links"]}
        self.rounds = order.bit_length() - 1
        self.pairs = order - (1 << self.rounds)
        self.before = min(self.pairs, 1)
        self.is_paired = self.me < 2 * self.pairs
        self.number = self.me // 2 if self.is_paired else self.me - self.pairs
        self.sums = [array(KIND, part["values"]) for part in message["contributions"]]
        self.finished: dict[int, int] = {}
        """By segment, the node that has its result."""

    def rank(self, number: int) -> int:
        return 2 * number + 1 if number < self.pairs else number + self.pairs

    def first(self) -> list[dict[str, Any]]:
        if self.is_paired and self.me % 2 == 0:
            return [self.send(1, self.me + 1, part, self.me + 1) for part in range(len(self.sums))]
        return [] if self.is_paired else self.act(self.before + 1)

    def take(self, arrivals: list[dict[str, Any]]) -> None:
        for arrival in arrivals:
            for (origin, target, _, part), values in zip(arrival["segments"], arrival["values"], strict=True):
                if target < 0:
                    self.finished[part], self.sums[part] = origin, array(KIND, values)
                else:
                    self.sums[part] = array(KIND, [a + b for a, b in zip(self.sums[part], values, strict=True)])

    def act(self, step: int) -> list[dict[str, Any]]:
        turn = step - self.before - 1
        if self.is_paired and self.me % 2 == 0:
            return []
        if turn < self.rounds:
            # The parts of the own half stay: all bits above the distance are those of the own number.
            distance = 1 << self.rounds - 1 - turn
            partner = self.number ^ distance
            theirs = [part for part in range(len(self.sums)) if part // distance == partner // distance]
            return [self.send(step, self.rank(partner), part, self.rank(partner)) for part in theirs]
        self.finished.setdefault(self.number, self.me)
        if turn < 2 * self.rounds:
            partner = self.rank(self.number ^ 1 << turn - self.rounds)
            return [self.send(step, partner, part, -1) for part in sorted(self.finished)]
        return [self.send(step, self.me - 1, part, -1) for part in sorted(self.finished)] if self.is_paired else []

    def send(self, step: int, to: int, part: int, target: int) -> dict[str, Any]:
        origin = self.finished.get(part, self.me)
        made = {"step": step, "port": self.ports[to], "segment": [origin, target, 0, part]}
        return made if origin != self.me else {**made, "values": list(self.sums[part])}

    def results(self) -> list[dict[str, Any]]:
        whole = len(self.finished) == len(self.sums)
        return [{"owner": 0, "segment": part, "values": list(values)} for part, values in enumerate(self.sums) if whole]


for line in sys.stdin:
    message = json.loads(line)
    if message["type"] == "init":
        node = Node(message)
        sends = node.first()
    else:
        node.take(message["arrivals"])
        sends = node.act(message["step"] + 1)
    print(json.dumps({"sends": sends, "results": node.results()}), flush=True)
