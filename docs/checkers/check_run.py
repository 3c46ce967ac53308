#!/usr/bin/env python3
"""Judge archives of `coordinator pack` with the standard library of Python 3.11 and no code of the emulator.

    python -I check_run.py [--json] ARCHIVE..

Judged anew from journal and network: links, addresses, outcomes, causality, faults, port model, capacity, deliveries,
votes, every number measured in lock-step, the verdict of every claim and of the run. Taken from the archive, and named:
predictions, effects that faults drew at random, the numbers of protocols and plug-ins, why a run ended early, and the
numbers about paths, which check_paths.py judges. Nothing in an archive is executed, and all sizes have bounds.
Exit status: 0 the archive is right, 1 something is wrong, 2 it cannot be read, 3 it is of a run that is not judged.
"""

# fmt: off
import csv
import hashlib
import io
import json
import struct
import sys
import zipfile
from collections import Counter, defaultdict, namedtuple
from math import fsum, isclose
from operator import itemgetter

FORMAT, MOST_BYTES, MOST_ROWS, MOST_SUMS, NEVER = 1, 256 << 20, 2_000_000, 20_000_000, 2**31
FILES = {"manifest.json", "run.json", "summary.json", "scenario.toml", "nodes.csv", "network.csv", "journal.csv",
         "faults.csv", "draws.csv", "withheld.csv", "altered.csv"}
OUTCOMES = ("first", "duplicate", "relay", "lost", "corrupt", "control", "withheld", "report")
AGAIN, CONTROL = 2**14, 2**15 - 256  # trees from here on: a collective that runs again, control segments
FOLDING = ("reduce", "reduce-scatter", "allreduce")
DELIVERY = {"deliveries", "intact_deliveries", "delivery_ratio", "final_delivery_ratio", "least_contributions"}
EMULATOR = ("illegal_hops", "replay_mismatches")  # claims about the emulator, not the algorithm
Hop = namedtuple("Hop", "step sender port receiver origin target tree segment bytes outcome")
piece, copy = itemgetter(4, 5, 7), itemgetter(4, 5, 7, 6)  # of a hop: (origin, target, segment), and with its tree

class Archive:
    """The files of an archive."""
    def __init__(self, path):
        with zipfile.ZipFile(path) as archive:
            entries = {entry.filename: entry for entry in archive.infolist()}
            if set(entries) != FILES or len(entries) != len(archive.infolist()):
                raise ValueError(f"expected the files {', '.join(sorted(FILES))}, each once")
            if sum(entry.file_size for entry in entries.values()) > MOST_BYTES:
                raise ValueError(f"it has more than {MOST_BYTES} bytes")
            files = {name: archive.open(entry).read(entry.file_size + 1) for name, entry in entries.items()}
        manifest, self.run, self.summary = (json.loads(files[f"{name}.json"]) for name in ("manifest", "run", "summary"))
        if manifest["format"] != FORMAT:
            raise ValueError(f"version {manifest['version']} wrote format {manifest['format']}; this is for {FORMAT}")
        self.wrong = [f"{name}: its digest is not the one in manifest.json" for name, data in sorted(files.items())
                      if name != "manifest.json" and hashlib.sha256(data).hexdigest() != manifest["sha256"].get(name)]
        nodes, links, journal, faults, draws, withheld, altered = (rows(files[f"{name}.csv"]) for name in (
            "nodes", "network", "journal", "faults", "draws", "withheld", "altered"))
        self.order, self.labels = len(nodes), [label for _, label, _, _ in nodes]
        self.states = {rank: state for rank, (*_, state) in enumerate(nodes) if state}
        self.data_ranks = [rank for rank, (*_, switch, _) in enumerate(nodes) if switch == "0"]
        self.links = {(int(a), int(p)): (int(b), int(q)) for a, p, b, q in links}
        self.journal = [Hop(*map(int, row[:9]), row[9]) for row in journal]
        self.spells = defaultdict(list)  # by (rank,) or (rank, port): when which effect lasts
        for place, start, end, effect in faults:
            self.spells[tuple(map(int, place.split("/")))].append((int(start), int(end), effect))
        self.draws = {tuple(map(int, row[:4])): tuple(map(int, row[4:])) for row in draws}
        self.withheld, self.listed = {tuple(map(int, row)) for row in withheld}, set(map(tuple, self.run.get("listed", ())))
        self.altered = {tuple(map(int, row[:6])): int(row[6]) for row in altered}
        self.healthy = set(self.data_ranks) - set(self.states)
        self.silent = set(self.states) if self.run["faulty_owners_are_silent"] else set()
        last = AGAIN if "agreement" in self.run["features"] else CONTROL if self.run["has_control"] else NEVER
        idle = "withheld" if self.run["has_control"] else "", "report" if last == AGAIN else ""
        self.data = [hop for hop in self.journal if hop.tree < last and hop.outcome not in idle]
        self.births = sorted((end, place[0]) for place, spells in self.spells.items() for _, end, effect in spells
                             if effect == "stops and forgets" and len(place) == 1 and end < 2**62)  # without memory
    def own_rows(self):
        """The outcomes that only protocols of this run give."""
        own = {"detection": {"withheld", "control"}, "agreement": {"report", "control"}}
        return set().union(*(own.get(name, {"control"}) for name in self.run["features"]))
    def end(self, rank, port):
        return self.links.get((rank, port), (-1, -1))
    def has(self, place, step, *effects):
        return any(start <= step < end and effect in effects for start, end, effect in self.spells.get(place, ()))
    def links_with(self, *effects):
        return {place for place, spells in self.spells.items() if any(spell[2] in (*effects, "unknown") for spell in spells)}
    def owner(self, hop):
        """The rank whose message, or block of the result, a hop to its target carries."""
        return hop.origin if self.run["collective"] not in FOLDING or hop.target < 0 else hop.receiver
    def is_meant(self, hop):
        return hop.target in (-1, hop.receiver) and hop.receiver != hop.origin and hop.receiver in self.healthy

def rows(data):
    """The rows of a table, without its heading."""
    found = [row for row, _ in zip(csv.reader(io.StringIO(data.decode())), range(MOST_ROWS + 2), strict=False)]
    if len(found) > MOST_ROWS + 1:
        raise ValueError(f"a table has more than {MOST_ROWS} rows")
    return found[1:]

def journal_hash(journal):
    """The hash of a journal: BLAKE2b over its rows as little-endian integers."""
    digest = hashlib.blake2b(digest_size=16)
    for hop in journal:
        digest.update(struct.pack("<8ihb", hop.step, hop.sender, hop.receiver, hop.origin, hop.target, hop.segment,
                                  hop.bytes, hop.tree, hop.port, OUTCOMES.index(hop.outcome)))
    return digest.hexdigest()

def earliest(hops, key):
    """By key, the first step of the hops with that key."""
    found = {}
    for hop in hops:
        found[key(hop)] = min(hop.step, found.get(key(hop), NEVER))
    return found

def illegal_hops(run):
    """The number of breaches of each rule."""
    return +Counter({
        "no such link": sum(run.end(*hop[1:3])[0] != hop.receiver and hop.outcome != "report" for hop in run.journal),
        "not part of the collective": sum(not is_part(run, hop) for hop in run.data), "wrong outcome": wrong_outcomes(run),
        "copy repeated on a link": repeated(run) if run.run["copies_keep_trees"] else 0,
        "against the faults": against_faults(run), "sent before it arrived": sent_early(run),
        "port model or capacity": crowded(run),
        "row of no protocol": sum(hop.outcome in set(OUTCOMES[5:]) - run.own_rows() for hop in run.journal)})

def is_part(run, hop):
    """Whether origin, target, number and size of a segment belong to the collective."""
    spec, kind = run.run, run.run["collective"]
    if kind == "messages":  # of a file; each crosses one link
        return hop[1] == hop[4] and hop[3] == hop[5] and not hop.tree and (*hop[4:6], *hop[7:9]) in run.listed
    parts, block = spec["segments_per_message"], hop.origin if hop.target < 0 else hop.target
    made = (hop.origin == spec["source"] if kind in ("broadcast", "scatter")
            else 0 <= hop.origin < run.order and hop.origin != spec["target"])
    personal, own = 0 <= hop.target < run.order and hop.target != hop.origin, hop.origin == hop.sender
    meant = {"scatter": personal, "alltoall": personal, "unicast": spec["destinations"].get(str(hop.origin)) == hop.target,
             "reduce-scatter": personal and own, "allreduce": (personal and own and hop.target in spec["folders"]) or (
                 hop.target == -1 and hop.origin in spec["finishers"])}.get(kind, hop.target == spec["target"])
    size = spec["message_bytes"] - (block in run.data_ranks[len(run.data_ranks) - spec["short_blocks"]:])
    sized = hop.bytes == size // parts + (hop.segment % parts < size % parts)
    answer = spec["ack_bytes"] and hop.target == hop.sender and hop.bytes == spec["ack_bytes"]
    return made and ((meant and sized) or answer) and 0 <= hop.segment < spec["messages"] * parts and hop.tree >= 0

def wrong_outcomes(run):
    """Count relays at targets, receipts elsewhere, and pieces of which not exactly the earliest is first."""
    wrong, lives, owners = 0, defaultdict(list), set(run.data_ranks)
    for hop in run.data:
        meant, back = hop.target == hop.receiver or (hop.target < 0 and hop.receiver in owners), hop.receiver == hop.origin
        wrong += {"first": back or not meant, "duplicate": not meant, "relay": meant}.get(hop.outcome, False)
        if hop.outcome in ("first", "duplicate") and not back:
            life = sum(rank == hop.receiver and hop.step >= step for step, rank in run.births)
            lives[hop.receiver, life, piece(hop)].append(hop)
    for hops in lives.values():
        first = [hop.step for hop in hops if hop.outcome == "first"]
        wrong += len(first) != 1 or first[0] > min(hop.step for hop in hops)
    return wrong

def repeated(run):
    """Count copies that cross a link twice in a step although nothing duplicates or delays packets there."""
    excused, spread, arrived = run.links_with("delays", "duplicates"), run.links_with("duplicates"), defaultdict(list)
    for hop in run.data:
        if hop.outcome != "lost":
            arrived[hop.receiver, copy(hop)].append(hop.step)
    wrong = 0
    for (step, sender, port, name), times in Counter((*hop[:3], copy(hop)) for hop in run.data).items():
        if times > 1 and (sender, port) not in excused and not (spread and run.run["ack_bytes"] and sender == name[1]):
            wrong += times > (sum(before < step for before in arrived[sender, name]) if spread else 0)
    return wrong

def against_faults(run):
    """Count hops that were lost or altered without a fault, or that were sent or arrived despite one."""
    wrong, crossing = 0, [hop for hop in run.journal if hop.outcome not in OUTCOMES[6:]]
    altered = earliest((hop for hop in crossing if hop.outcome == "corrupt"), lambda hop: (hop.receiver, piece(hop)))
    for hop in crossing:
        lost, stops = hop.outcome == "lost", ("stops", "stops and forgets")
        if (*hop[:3], *copy(hop)) in run.withheld:
            wrong += not lost
            continue
        dead = run.has((hop.receiver,), hop.step, *stops) or run.has((hop.sender, hop.port), hop.step, *stops)
        unsent = run.has((hop.sender,), hop.step, *stops) or (dead and run.run["knows_neighbours"])
        may_arrive, may_be_lost = not dead and not unsent, dead and not unsent
        drawn = *hop[:3], int(hop.tree in run.run["news_trees"])  # nodes send news over suspected ports too
        may_arrive, may_be_lost, may_be_altered = run.draws.get(drawn, (may_arrive, may_be_lost, False))
        wrong += not (may_be_lost if lost else may_arrive)
        if hop.outcome == "corrupt" and (run.run["collective"] not in FOLDING or not run.spells) and not may_be_altered:
            wrong += altered.get((hop.sender, piece(hop)), NEVER) >= hop.step
    return wrong

def sent_early(run):
    """Count segments that a rank sent although it neither made them nor had received them in an earlier step."""
    name = copy if run.run["copies_keep_trees"] else piece
    had = earliest((hop for hop in run.data if hop.outcome != "lost"), lambda hop: (hop.receiver, name(hop)))
    return sum(had.get((hop.sender, name(hop)), NEVER) >= hop.step
               for hop in run.data if hop.sender not in (hop.origin, hop.target))

def crowded(run):
    """Count packets beyond the capacity of links, and ranks that use more ports in a step than the port model allows."""
    spec, model, late = run.run, run.run["port_model"], run.links_with("delays")
    half, excused = spec["duplex"] == "half", run.links_with("delays", "duplicates")
    used = defaultdict(lambda: (set(), set()))  # by step and rank, the ports that send and that receive
    sizes = Counter(hop[:4] for hop in run.data)
    wrong = sum(size > (spec["link_capacity"] or NEVER) and key[1:3] not in excused for key, size in sizes.items())
    hops = [hop for hop in run.journal if hop.outcome != "report"]
    for step, sender, port in {hop[:3] for hop in (hops if spec["has_control"] else run.data)}:
        if (sender, port) not in late:
            used[step, sender][0].add(port)
    for hop in hops:
        if hop.outcome != "lost" and hop.step < (NEVER if spec["receipts_before"] is None else spec["receipts_before"]):
            used[hop.step, hop.receiver][1].add(run.end(hop.sender, hop.port)[1])
    for sent, received in used.values():
        both, ports = len(sent) + len(received), len(sent | received)
        wrong += (half and both > ports) or {"all-port": False, "one-port": len(sent) > 1 or len(received) > 1,
                                           "exchange": ports > 1, "send-or-receive": both > 1}[model]
    return wrong

def elections(run):
    """By piece, the step of its first copy, the number of votes, and the elected value: right, wrong or none."""
    ballots, found = defaultdict(dict), {}
    copies = [hop for hop in run.data if hop.outcome in ("first", "duplicate", "corrupt") and run.is_meant(hop)]
    for hop in sorted(copies, key=lambda hop: (hop.step, run.end(*hop[1:3])[1], OUTCOMES.index(hop.outcome))):
        vote = hop.step, run.end(*hop[1:3])[1], hop.outcome
        ballots[hop.receiver, run.owner(hop), hop.origin, hop.segment].setdefault(hop.tree, vote)
    for (receiver, owner, origin, segment), votes in ballots.items():
        forged = Counter(run.altered.get((step, receiver, port, origin, tree, segment))
                         for tree, (step, port, outcome) in votes.items() if outcome == "corrupt")
        right, wrong = len(votes) - sum(forged.values()), max(forged.values(), default=0)
        steps = [step for step, _, outcome in votes.values() if outcome != "duplicate"]
        if steps:
            elected = "right" if 2 * right > len(votes) else "wrong" if 2 * wrong > len(votes) else "none"
            found[receiver, owner, origin, segment] = min(steps), elected
    return found

def messages_due(run):
    """The number of messages due to each rank; none to a rank that is ever faulty, and none to a switch."""
    spec, kind, messages = run.run, run.run["collective"], run.run["messages"]
    others, whole = sum(rank not in run.silent for rank in run.data_ranks) - 1, len(spec["block_owners"]) < 2
    each = {"broadcast": 1, "scatter": 1, "reduce-scatter": 1, "allgather": others, "alltoall": others,
            "allreduce": 1 if whole else others + 1}.get(kind, 0)
    due = dict.fromkeys(range(run.order), each * messages)
    if kind in ("broadcast", "scatter", "gather", "reduce"):
        due[spec["source"]] = messages * {"gather": others, "reduce": 1}.get(kind, 0)
    due |= {target: messages for origin, target in spec["destinations"].items() if int(origin) not in run.silent}
    due |= Counter(target for origin, target, *_ in run.listed if origin not in run.silent)
    return {rank: number if rank in run.healthy else 0 for rank, number in due.items()}

def complete_messages(run, arrivals):
    """The messages that arrived completely, by (receiver, owner, number), and whether each is intact."""
    spec, kind, parts, messages = run.run, run.run["collective"], run.run["segments_per_message"], defaultdict(dict)
    for (receiver, owner, origin, segment), (_, intact) in arrivals.items():
        free = spec.get("adds_by_itself")  # a segment of a result is then one piece, whatever arrivals made it
        block = spec["block_owners"][0] if free and len(spec["block_owners"]) == 1 else owner
        if 0 <= segment // parts < spec["messages"] and owner not in run.silent:
            messages[receiver, block, segment // parts][None if free else origin, segment] = intact
    due = [parts if kind == "allreduce" else -1] * spec["messages"] if kind in FOLDING else spec["pieces"]
    return {(rank, owner, number): all(pieces.values()) for (rank, owner, number), pieces in messages.items()
            if len(pieces) == (spec["own_pieces"][str(rank)] if kind in FOLDING and rank == owner else due)[number]}

def contributions(run):
    """Count results without exactly one contribution of each rank, and the fewest contributions of a result."""
    spec, owners, births = run.run, run.run["block_owners"], list(run.births)
    reliable, segments = "reliable" in spec["features"], spec["messages"] * spec["segments_per_message"]
    sampled = set(owners[:: 1 + len(owners) * segments * run.order // MOST_SUMS])
    # Every rank contributes a number of its own, so that the sum tells which contributions a result has; and a one.
    own = {rank: (int.from_bytes(hashlib.blake2b(b"%d" % rank, digest_size=16).digest()), 1) for rank in run.data_ranks}
    total, held, early, seen, steps = sum(number for number, _ in own.values()), {}, set(), set(), defaultdict(list)
    for hop in run.data:
        finished = hop.target < 0 and hop.sender == hop.origin
        block = owners[0] if len(owners) == 1 else hop.sender if finished else hop.target
        known = 0 <= hop.segment < segments and all(0 <= rank < run.order for rank in (hop.receiver, hop.origin))
        key = hop.sender, hop.receiver, hop.segment, finished, block
        if known and block in sampled and (finished or (0 <= hop.target < run.order and hop.outcome != "lost")):
            if not (reliable and key in seen):  # a segment that is sent again is folded once
                steps[hop.step].append((hop.sender, hop.receiver, block, hop.segment, finished))
            seen.add(key)
    for step, hops in sorted(steps.items()):
        while births and births[0][0] <= step:
            rank = births.pop(0)[1]
            held = {key: value for key, value in held.items() if key[0] != rank}
        sent = [held.get((sender, *where), own.get(sender, (0, 0))) for sender, _, *where, _ in hops]
        for (sender, receiver, block, segment, finished), (number, count) in zip(hops, sent, strict=False):
            if finished and number != total:
                early.add((sender, block, segment))
            elif not finished:
                before = held.get((receiver, block, segment), own.get(receiver, (0, 0)))
                held[receiver, block, segment] = before[0] + number, before[1] + count
    places = [(rank, owner, segment) for owner in sampled for segment in range(segments)
              for rank in spec["holders"] or [owner]]
    results = {place: held.get(place, own.get(place[0], (0, 0))) for place in places}
    found = {"miscounted_results": len(early) + sum(number != total for number, _ in results.values())}
    counts = [count for (rank, *_), (_, count) in results.items() if rank in run.healthy]
    return found | ({"least_contributions": min(counts)} if spec["harmful"] and not reliable and counts else {})

def measure(run):
    """Every metric of a run in lock-step but those of protocols and plug-ins; of illegal hops, the number of breaches."""
    spec, outcomes = run.run, Counter(hop.outcome for hop in run.data)
    packets, loads = Counter(hop[:4] for hop in run.data), Counter(hop[1:4] for hop in run.data)
    sizes, firsts = Counter(), {}
    for hop in run.data:
        sizes[hop[:4]] += hop.bytes
    for hop in (hop for hop in run.data if hop.outcome == "first" and run.is_meant(hop)):
        firsts.setdefault((hop.receiver, run.owner(hop), hop.origin, hop.segment), (hop.step, True))
    votes = elections(run) if outcomes["corrupt"] else None
    arrivals = firsts if votes is None else {key: (step, value == "right") for key, (step, value) in votes.items()}
    due, complete = messages_due(run), complete_messages(run, arrivals)
    got, expected, intact = Counter(key[0] for key in complete if complete[key]), sum(due.values()), sum(complete.values())
    steps = range(1, max((hop.step for hop in run.data), default=0) + 1)
    (heaviest, busiest), senders, receivers = (dict.fromkeys(steps, 0) for _ in "ab"), defaultdict(set), defaultdict(set)
    for key, segments in packets.items():
        heaviest[key[0]], busiest[key[0]] = max(heaviest[key[0]], sizes[key]), max(busiest[key[0]], segments)
        senders[key[0]].add(key[1])
    last, latency = {}, {}
    for (receiver, *_), (step, _) in arrivals.items():
        receivers[step].add(receiver)
        last[receiver] = max(step, last.get(receiver, 0))
    for (receiver, owner, *_), (step, _) in firsts.items():
        if owner not in run.silent and got[receiver] >= due[receiver] > 0:
            latency[receiver] = max(step, latency.get(receiver, 0))
    limit, last_receipt = spec["packet_limit"], max(receivers, default=0)
    startups = [-(-size // limit) if limit else min(size, 1) for size in heaviest.values()]
    values = {key: value for key, (_, value) in votes.items()} if votes is not None else dict.fromkeys(firsts, "right")
    elected = Counter(value for key, value in values.items() if key[1] not in run.silent and spec["redundancy"] > 1)
    found = {
        "steps": len(steps), "packets": len(packets), "segments": len(run.data), "bytes": sum(sizes.values()),
        "expected_deliveries": expected, "deliveries": len(complete), "intact_deliveries": intact,
        "delivery_ratio": intact / expected if expected else 0.0,
        "duplicates": outcomes["duplicate"], "relays": outcomes["relay"], "lost": outcomes["lost"],
        "corrupt": outcomes["corrupt"], "max_link_segments_per_step": max(packets.values(), default=0),
        "max_link_segments": max(loads.values(), default=0), "links_used": len(loads),
        "startups": sum(startups), "transfer_bytes": sum(heaviest.values()),
        "heaviest_link_segments_per_step": list(busiest.values()), "heaviest_link_bytes_per_step": list(heaviest.values()),
        "virtual_seconds": fsum(begun * spec["startup"] + size * spec["per_byte"]
                                for begun, size in zip(startups, heaviest.values(), strict=False)),
        "senders_per_step": [len(senders[step]) for step in steps],
        "receivers_per_step": [len(receivers[step]) for step in range(1, last_receipt + 1)],
        "average_receive_step": sum(last.values()) / len(last) if last else 0.0,
        "served_nodes": len(latency), "redundancy_cost": len(packets) / max(1, len(run.data_ranks) - 1),
        **{f"elected_{value}": elected[value] for value in ("right", "wrong", "none")},
        "illegal_hops": sum(illegal_hops(run).values())}
    found |= contributions(run) if spec["collective"] in FOLDING and not spec.get("adds_by_itself") else {}
    found |= {"mean_latency": sum(latency.values()) / len(latency), "max_latency": max(latency.values())} if latency else {}
    if spec["collective"] == "broadcast":
        reach = range(max(latency.values(), default=0) + 1)
        found["informed_nodes_per_step"] = [1 + sum(late <= step for late in latency.values()) for step in reach]
    return found

def verdicts(run, metrics):
    """The verdict on every claim, and on the run."""
    spec, claims, found = run.run, run.summary["claims"], []
    names = {claim["name"] for claim in claims}
    invalid = spec["ended"] or any(root in run.states for root in spec["roots"]) or not metrics["expected_deliveries"]
    delivered = "least_contributions" in names or metrics["intact_deliveries"] or metrics.get("final_delivery_ratio")
    nothing = invalid or (spec["faults"] and not delivered)  # such a run proves nothing, but about the emulator
    for claim in claims:
        name, predicted, measured = claim["name"], claim["predicted"], metrics.get(claim["name"])
        reason = spec["ended"] if name in spec["judged_anyway"] else invalid if name in EMULATOR else nothing
        if measured is None or reason:
            found.append("undecided")
            continue
        holds = {"==": measured == predicted, "<=": measured <= predicted, ">=": measured >= predicted}[claim["relation"]]
        found.append("holds" if holds or same(measured, predicted) else "violated")
    if "violated" in found and not spec["ended"]:
        return found, "violated"
    return found, "undecided" if nothing or spec["unproven"] or not names & DELIVERY or "undecided" in found else "holds"

def check(path):
    """The contradictions in an archive, the parts that are not judged, and numbers and verdicts as judged here."""
    run = Archive(path)
    wrong, summary, hops, claims = run.wrong, run.summary, run.journal, run.summary["claims"]
    if run.run["clock"] != "steps":
        return {"archive": path, "wrong": wrong, "not judged": "a run under the timed clock"}
    if hops != sorted(hops, key=lambda hop: (*hop[:3], *hop[4:8], OUTCOMES.index(hop.outcome), hop.bytes)):
        wrong.append("journal.csv: its rows are not sorted")
    if journal_hash(hops) != summary["journal_hash"]:
        wrong.append(f"journal.csv: its hash is {journal_hash(hops)}, and the summary has {summary['journal_hash']}")
    metrics, breaches = measure(run), illegal_hops(run)
    given = sorted({claim["name"] for claim in claims} - metrics.keys())
    found, verdict = verdicts(run, {name: summary.get(name) for name in (*given, "final_delivery_ratio")} | metrics)
    wrong += [f"{name} is {summary.get(name)}, and the journal says {value}" for name, value in metrics.items()
              if name != "illegal_hops" and not same(summary.get(name), value)]
    wrong += [f"journal.csv: {rule}: {count} times" for rule, count in breaches.items()]
    wrong += [f"the claim {claim['name']} {claim['relation']} {claim['predicted']} is {own}, not {claim['verdict']}"
              for claim, own in zip(claims, found, strict=False) if claim["verdict"] != own]
    wrong += [f"the verdict is {verdict}, not {summary['verdict']}"] if verdict != summary["verdict"] else []
    wrong += [] if any(claim["name"] == "illegal_hops" for claim in claims) else ["illegal_hops is not claimed"]
    taken = ["predictions", *(f"number {name}" for name in given), *(f"protocol {name}" for name in run.run["features"])]
    taken += ["effects of faults drawn at random"] if run.draws or run.withheld else []
    taken += [f"early end: {run.run['ended']}"] if run.run["ended"] else []
    return {"archive": path, "wrong": wrong, "verdict": verdict, "claims": found, "metrics": metrics,
            "breaches": breaches, "from the archive": ", ".join(taken)}

def same(stored, value):
    return stored == value or (float in {type(stored), type(value)} <= {int, float} and isclose(stored, value, rel_tol=1e-9))

def main(arguments, status=0):
    for path in (path for path in arguments if path != "--json"):
        try:
            result = check(path)
        except Exception as error:  # an archive may hold anything
            result = {"archive": path, "wrong": [], "unreadable": f"{type(error).__name__}: {error}"[:300]}
        status = max(status, 1 if result["wrong"] else 2 if "unreadable" in result else 3 if "not judged" in result else 0)
        outcome = [f"{'wrong' if result['wrong'] else 'right'}: {result['verdict']}"] if "verdict" in result else []
        named = [f"{key}: {result[key]}" for key in ("unreadable", "not judged", "from the archive") if key in result]
        for line in [json.dumps(result)] if "--json" in arguments else [*result["wrong"], *named, *outcome]:
            print(line if "--json" in arguments else f"{path}: {line}")
    return status

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
