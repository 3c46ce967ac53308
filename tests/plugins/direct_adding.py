"""A node on a complete graph that adds float32 numbers: each block goes straight to the nodes that are to have its sum.

A node adds its own contribution first, and then what came in by rank. In an allreduce every node adds for itself.
"""

import json
import sys
from array import array

for line in sys.stdin:
    message, sends, results = json.loads(line), [], []
    if message["type"] == "init":
        me, source, collective = message["rank"], message["source"], message["collective"]
        own = {(part["owner"], part["segment"]): array("f", part["values"]) for part in message["contributions"]}
        for link in message["links"]:
            for (owner, number), values in own.items():
                target = -1 if collective == "allreduce" else owner
                if target in (-1, link["rank"]):
                    segment = [me, target, 0, number]
                    sends.append({"step": 1, "port": link["port"], "segment": segment, "values": list(values)})
    else:
        came = sorted(
            (segment, values)
            for arrival in message["arrivals"]
            for segment, values in zip(arrival["segments"], arrival["values"], strict=True)
        )
        mine = {"allreduce": min(own)[0], "reduce": source}.get(collective, me)
        for number in {segment[3] for segment, _ in came}:
            total = own[mine, number]
            for segment, values in came:
                if segment[3] == number:
                    total = array("f", [a + b for a, b in zip(total, values, strict=True)])
            results.append({"owner": mine, "segment": number, "values": list(total)})
    print(json.dumps({"sends": sends, "results": results}), flush=True)
