"""A node on a complete graph: it sends every message that it owns straight to its target, and forwards nothing."""

import json
import sys

for line in sys.stdin:
    message, sends = json.loads(line), []
    if message["type"] == "init":
        for link in message["links"]:
            for target in message["own"]["targets"]:
                if target in (link["rank"], -1):
                    for number in range(message["own"]["numbers"]):
                        segment = [message["rank"], target, 0, number]
                        sends.append({"step": number + 1, "port": link["port"], "segment": segment})
    print(json.dumps({"sends": sends}), flush=True)
