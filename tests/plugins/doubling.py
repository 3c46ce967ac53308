"""A node on a hypercube that adds: recursive doubling. With the word `double` it does not round its sums to float32."""

import json
import sys
from array import array

KIND = "d" if "double" in sys.argv[1:] else "f"

for line in sys.stdin:
    message, sends, results = json.loads(line), [], []
    if message["type"] == "init":
        me, links = message["rank"], message["links"]
        sums, step = [array(KIND, part["values"]) for part in message["contributions"]], 0
    else:
        step = message["step"]
        for arrival in message["arrivals"]:
            for segment, values in zip(arrival["segments"], arrival["values"], strict=True):
                number = segment[3]
                sums[number] = array(KIND, [a + b for a, b in zip(sums[number], values, strict=True)])
    for number, values in enumerate(sums):
        if step < len(links):
            segment = [me, links[step]["rank"], 0, number]
            sends.append({"step": step + 1, "port": step, "segment": segment, "values": list(values)})
        else:
            results.append({"owner": 0, "segment": number, "values": list(values)})
    print(json.dumps({"sends": sends, "results": results}), flush=True)
