#!/usr/bin/env python3
"""Judge archives of `coordinator pack` with the standard library of Python 3.11 and no code of the emulator.

    python -I check_run.py [--json] ARCHIVE..

Judged anew: links, addresses, outcomes, causality, faults, port model, capacity, deliveries, votes, all numbers measured in
lock-step, all verdicts, and that scenario, heading, facts, faults and network belong together. From the archive, and named:
predictions, the algorithm and its facts, other networks than star, hypercube and Eisenstein-Jacobi, random effects, numbers
of protocols, plug-ins and paths (see check_paths.py), early ends. Nothing in it is executed, and all sizes have bounds.
Exit status: 0 the archive is right, 1 something is wrong, 2 it cannot be read, 3 it is of a run that is not judged.
"""

# fmt: off
import csv
import hashlib
import io
import json
import re
import struct
import sys
import tomllib
import zipfile
from collections import Counter, defaultdict, namedtuple
from math import factorial, fsum, isclose
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
segment_of, copy = itemgetter(4, 5, 7), itemgetter(4, 5, 7, 6)  # of a hop: (origin, target, segment), and with its tree

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
        self.scenario = DEFAULTS | tomllib.loads(files["scenario.toml"].decode())
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
    def possible(self, step, sender, port, receiver):
        """Whether a packet was sent, and whether it could arrive, as far as stopped places decide it."""
        stops = "stops", "stops and forgets"
        dead = self.has((receiver,), step, *stops) or self.has((sender, port), step, *stops)
        unsent = self.has((sender,), step, *stops) or (dead and self.run["knows_neighbours"])
        return not unsent, not dead and not unsent

def rows(data):
    """The rows of a table, without its heading."""
    found = [row for row, _ in zip(csv.reader(io.StringIO(data.decode())), range(MOST_ROWS + 2), strict=False)]
    if len(found) > MOST_ROWS + 1:
        raise ValueError(f"a table has more than {MOST_ROWS} rows")
    return found[1:]

# From here to the next line of this kind, two checkers are alike: the network and faults of a scenario.
DEFAULTS = {"topology": "", "algorithm": "", "source": None, "port_model": "all-port", "duplex": "full", "clock": "steps",
            "messages": 1, "segments": 1, "redundancy": 1, "seed": 0, "fault": [], "fault_knowledge": "none",
            "on_failure": "continue", "reliable": False}
FORGETS, EVER = "stops and forgets", 2**62
# By kind of fault, in the order in which they begin: its effects in lock-step, and the state of its rank.
KINDS = {
    "crash": ([FORGETS], "crashed"), "hang": (["stops"], "hung"), "recover": ([], "recovered"), "down": (["stops"], ""),
    "up": ([], ""), "heal": ([], ""), "loss": (["loses"], ""), "corrupt": (["alters"], ""), "drop": (["loses"], ""),
    "duplicate": (["duplicates"], ""), "delay": (["delays"], ""), "selective": (["alters", "loses"], "byzantine")}
KINDS |= dict.fromkeys(["byzantine", "equivocate", "collude"], (["alters"], "byzantine"))
KINDS |= dict.fromkeys(["silent", "silent-ports", "silent-segments"], (["loses"], "byzantine"))
ENDS = {"recover": FORGETS, "up": "stops", "crash": "stops", "heal": ""}  # the effects of earlier faults; empty: all

def family_of(topology):
    """Order, form of labels, function from a label to its node, and from a label to (node, its port) by port; else None.

    Of star graphs, hypercubes and Eisenstein-Jacobi networks that fit in a table, by their definitions."""
    found = re.fullmatch(r"(?:(star):([3-9])|(hypercube):(1?[1-9]|[12]0)|(ej):(\d{1,3})\+(\d{1,3})(?:\^(\d))?)", topology)
    family, a, *others = [each for each in found.groups() if each] if found else ("", 0)
    a, b, dimensions = (int(number) for number in (a, *others, 1, 1)[:3])
    norm, units = a * a + a * b + b * b, ((1, 0), (0, 1), (-1, 1), (-1, 0), (0, -1), (1, -1))
    def swapped(label):
        return [((label[port], *label[1:port], label[0], *label[port + 1:]), port - 1) for port in range(1, a)]
    def flipped(label):
        return [((*label[:a - 1 - port], "10"[int(label[a - 1 - port])], *label[a - port:]), port) for port in range(a)]
    def residues(label, at=-1, dx=0, dy=0):  # times the conjugate of a + b rho: equal for congruent numbers
        pairs = [tuple(map(int, pair.split(","))) for pair in reversed(label.split("/"))]
        pairs = [(x + (i == at) * dx, y + (i == at) * dy) for i, (x, y) in enumerate(pairs)]
        return tuple(((x * (a + b) + y * b) % norm, (y * a - x * b) % norm) for x, y in pairs)
    def added(label):
        return [(residues(label, d, *unit), 6 * d + (k + 3) % 6) for d in range(dimensions) for k, unit in enumerate(units)]
    return {"star": (factorial(min(a, 9)), rf"(?!.*(.).*\1)[1-{a}]{{{a}}}", tuple, swapped),
            "hypercube": (2**min(a, 20), rf"[01]{{{a}}}", tuple, flipped),
            "ej": (norm**dimensions, rf"(/?-?\d+,-?\d+){{{dimensions}}}", residues, added)}.get(family)

def wrong_network(topology, labels, switches, links):
    """The first contradiction of nodes.csv and network.csv with the network of this name."""
    order, form, node, ends = family_of(topology)
    strange = [f"nodes.csv: {label[:40]!r} is no node of {topology}" for label in labels if not re.fullmatch(form, label)]
    ranks = {node(label): rank for rank, label in enumerate(labels if not strange else ())}
    if strange or switches or not len(ranks) == len(labels) == order:
        return [*strange, f"nodes.csv has {len(ranks)} nodes, {switches} of them switches; {topology} has {order} nodes"][:1]
    due = {(rank, port): (ranks.get(to), its) for label, rank in zip(labels, ranks.values(), strict=True)
           for port, (to, its) in enumerate(ends(label))}
    return [f"network.csv: rank and port {at} are joined with {links.get(at)}, and in {topology} with {due.get(at)}"
            for at in sorted(due.keys() | links.keys()) if due.get(at) != links.get(at)][:1]

def effects_of(specs, labels, links, idle):
    """Rows (place, start, end, effect) of faults, the states of ranks, unknown kinds by place, and all places."""
    ranks, found, other, rows, states = {label: rank for rank, label in enumerate(labels)}, [], {}, [], {}
    ports = {(rank, end): port for (rank, port), (end, _) in links.items()}
    for spec in specs:
        kind, _, rest = spec.partition(":")
        rest, _, when = rest.rpartition("@") if "@" in rest else (rest, "", "1")
        (where, *values), steps = rest.split(":"), re.fullmatch(r"(\d{1,9})(?:-(\d{1,10}))?", when)
        one, arrow, two = re.fullmatch("([^~>]*)([~>]?)(.*)", where).groups()
        ends = [(ranks.get(a), ranks.get(b)) for a, b in ((one, two), (two, one))][:1 + (arrow == "~")]
        places = links if where == "*" else [(a, ports.get((a, b))) for a, b in ends] if arrow else [(ranks.get(one),)]
        if any(None in place for place in places) or (kind in KINDS and not steps):
            raise ValueError(f"{spec[:60]!r} is no fault by steps at a place of the network")
        for place in places:
            if kind in KINDS:
                never = values and kind not in ("delay", "drop") and not float(values[0])
                found.append((int(steps[1]), [*KINDS].index(kind), place, int(steps[2] or EVER) + 1, never, spec in idle))
            else:
                other[place] = kind
    for first, number, place, end, never, begins_late in sorted(found):
        (effects, state), cut = [*KINDS.values()][number], ENDS.get([*KINDS][number], "-")
        rows = [(at, start, min(last, first) if at == place and cut in (effect, "") else last, effect)
                for at, start, last, effect in rows]
        rows += [(place, first, end if end < 2**31 else EVER, effect) for effect in ([] if never else effects)]
        states |= {place[0]: state} if state and not begins_late else {}
    return Counter(row for row in rows if row[1] < row[2] or row[3] == FORGETS), states, other, [each[2] for each in found]

def wrong_faults(specs, labels, links, given, states, idle=()):
    """The contradictions of the scenario's faults with faults.csv and nodes.csv; unknown kinds; places of faults."""
    try:
        rows, expected, other, places = effects_of(specs, labels, links, idle)
    except (ValueError, IndexError) as error:
        return [f"scenario: {error}, and faults.csv has {len(given)} effects"], [], []
    wrong = [f"faults.csv: place {'/'.join(map(str, at))} has {given[at, *spell]} times {spell[2]} from {spell[0]}, and "
             f"by the faults of the scenario {rows[at, *spell]} times" for at, *spell in sorted(rows.keys() | given.keys())
             if rows[at, *spell] != given[at, *spell] and not other]
    wrong += [f"nodes.csv: rank {rank} is {states.get(rank, 'healthy')}, and by the faults of the scenario "
              f"{expected.get(rank, 'healthy')}" for rank in sorted(states.keys() | expected.keys())
              if states.get(rank) != expected.get(rank) and (rank,) not in other]
    return wrong[:5], sorted(set(other.values())), {*places, *other}
# To here.

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
        "against the faults": against_faults(run), "no fault in faults.csv explains draws": undue_draws(run),
        "sent before it arrived": sent_early(run), "port model or capacity": crowded(run),
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
    """Count relays at targets, receipts elsewhere, and segments of which not exactly the earliest is first."""
    wrong, lives, owners = 0, defaultdict(list), set(run.data_ranks)
    for hop in run.data:
        meant, back = hop.target == hop.receiver or (hop.target < 0 and hop.receiver in owners), hop.receiver == hop.origin
        wrong += {"first": back or not meant, "duplicate": not meant, "relay": meant}.get(hop.outcome, False)
        if hop.outcome in ("first", "duplicate") and not back:
            life = sum(rank == hop.receiver and hop.step >= step for step, rank in run.births)
            lives[hop.receiver, life, segment_of(hop)].append(hop)
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
    altered = earliest((hop for hop in crossing if hop.outcome == "corrupt"), lambda hop: (hop.receiver, segment_of(hop)))
    for hop in crossing:
        lost = hop.outcome == "lost"
        if (*hop[:3], *copy(hop)) in run.withheld:
            wrong += not lost
            continue
        sent, may_arrive = run.possible(*hop[:4])
        may_be_lost = sent and not may_arrive
        drawn = *hop[:3], int(hop.tree in run.run["news_trees"])  # nodes send news over suspected ports too
        may_arrive, may_be_lost, may_be_altered = run.draws.get(drawn, (may_arrive, may_be_lost, False))
        wrong += not (may_be_lost if lost else may_arrive)
        if hop.outcome == "corrupt" and (run.run["collective"] not in FOLDING or not run.spells) and not may_be_altered:
            wrong += altered.get((hop.sender, segment_of(hop)), NEVER) >= hop.step
    return wrong

def undue_draws(run):
    """Count rows of draws.csv, withheld.csv and altered.csv without a packet, or without a fault that draws, in its step."""
    sent = {hop[:3] for hop in run.journal}
    came = {(hop.step, hop.receiver, run.end(*hop[1:3])[1], hop.origin, hop.tree, hop.segment)
            for hop in run.data if hop.outcome == "corrupt"}
    wrong = len(run.altered.keys() - came)
    wrong += sum(row[:3] not in sent or not run.has(row[1:2], row[0], "alters", "loses") for row in run.withheld)
    for (step, sender, port, _), (arrives, lost, altered) in run.draws.items():
        places = (sender,), (sender, port)
        effects = {effect for place in places for *_, effect in run.spells.get(place, ())} - {"stops", FORGETS}
        if (step, sender, port) not in sent or not run.spells:
            wrong += 1
        elif "detection" not in run.run["features"] and not effects & {"delays", "unknown"}:
            left, may_arrive = run.possible(step, sender, port, run.end(sender, port)[0])
            loses, alters = (any(run.has(place, step, effect) for place in places) for effect in ("loses", "alters"))
            decided = (arrives, lost) == (may_arrive, left and not may_arrive)
            wrong += not effects or (arrives and not may_arrive) or (altered and not alters) or not (loses or decided)
    return wrong

def sent_early(run):
    """Count segments that a rank sent although it neither made them nor had received them in an earlier step."""
    name = copy if run.run["copies_keep_trees"] else segment_of
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
    """By segment, the step of its first copy, the number of votes, and the elected value: right, wrong or none."""
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
        free = spec.get("adds_by_itself")  # then a segment of a result counts once, however many arrivals made it
        block = spec["block_owners"][0] if free and len(spec["block_owners"]) == 1 else owner
        if 0 <= segment // parts < spec["messages"] and owner not in run.silent:
            messages[receiver, block, segment // parts][None if free else origin, segment] = intact
    due = [parts if kind == "allreduce" else -1] * spec["messages"] if kind in FOLDING else spec["pieces"]
    return {(rank, owner, number): all(segments.values()) for (rank, owner, number), segments in messages.items()
            if len(segments) == (spec["own_pieces"][str(rank)] if kind in FOLDING and rank == owner else due)[number]}

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

def seconds(text):
    """The seconds of a duration such as 1ms."""
    match = re.fullmatch(r"([0-9.e+-]+?)(ns|us|ms|s|)", str(text))
    return float(match[1]) * {"ns": 1e-9, "us": 1e-6, "ms": 1e-3}.get(match[2], 1)

def origin(run):
    """The contradictions between scenario, heading of the summary, facts and tables; the parts that none decides."""
    scenario, heading, spec, kind, ended = run.scenario, run.summary, run.run, run.run["collective"], run.run["ended"]
    rooted = kind in ("broadcast", "scatter", "gather", "reduce") or (kind == "unicast" and not scenario.get("permutation"))
    roots = [spec["source"], *([spec["destinations"].get(str(spec["source"]))] if kind == "unicast" else [])][:2 * rooted]
    own, knowledge = run.labels[spec["source"]], scenario["fault_knowledge"]
    sizes, degrees = spec["message_bytes"] * max(1, len(spec["block_owners"])), Counter(rank for rank, _ in run.links)
    fields = ("collective", "port_model", "clock", "redundancy", "messages")
    pairs = [("scenario.toml", name, scenario.get(name), "run.json", name, spec[name]) for name in (*fields, "duplex")]
    pairs += [("summary.json", name, heading[name], "run.json", name, spec[name]) for name in fields]
    fields = {name: name for name in ("topology", "algorithm", "driver", "seed", "message_bytes") if name in scenario}
    pairs += [("scenario.toml", name, scenario[name], "summary.json", other, heading[other])
              for name, other in (fields | {"segments": "segments_per_tree", "fault": "faults"}).items()]
    pairs += [("scenario.toml", name, seconds(scenario.get(name, spec[name])), "run.json", name, spec[name])
              for name in ("startup", "per_byte")]
    fields = {"reliable": scenario["reliable"], "detection": knowledge.startswith("detect"), "repair": "repair" in scenario,
              "agreement": scenario["on_failure"] != "continue"}
    pairs += [("run.json", f"protocol {name}", name in spec["features"], "scenario.toml", "by its fields", wanted)
              for name, wanted in fields.items()]
    pairs += [
        ("scenario.toml", "packet_limit", scenario.get("packet_limit", 0), "run.json", "packet_limit", spec["packet_limit"]),
        ("summary.json", "source", heading["source"], "run.json", "source", own),
        ("summary.json", "message_bytes", heading["message_bytes"], "run.json", "all blocks", sizes - spec["short_blocks"]),
        ("summary.json", "order", heading["order"], "nodes.csv", "the number of nodes", run.order),
        ("summary.json", "degree", heading["degree"], "network.csv", "the largest degree", max(degrees.values(), default=0)),
        ("summary.json", "diameter", heading["diameter"], "network.csv", "the diameter", diameter(run, heading["diameter"])),
        ("summary.json", "journal_rows", heading["journal_rows"], "journal.csv", "the number of rows", len(run.journal)),
        ("run.json", "roots", spec["roots"], "run.json", "source and target", roots),
        ("run.json", "many_roots", spec["many_roots"], "scenario.toml", "by its collective", not rooted),
        ("run.json", "faults", spec["faults"], "scenario.toml", "whether it has faults", bool(scenario["fault"])),
        ("run.json", "knows_neighbours", spec["knows_neighbours"], "scenario.toml", "by fault_knowledge",
         knowledge in ("neighbours", "all") and bool(scenario["fault"]))]
    known, given = family_of(heading["topology"]), run.labels[0] if scenario["source"] is None else str(scenario["source"])
    alike = known and re.fullmatch(known[1], given) and re.fullmatch(known[1], own) and known[2](given) == known[2](own)
    if given != own and not alike and (known or given in run.labels):
        pairs += [("scenario.toml", "source", given, "run.json", "source", own)]
    if (reason := heading.get("reason")) is not None:  # absent in archives of earlier versions
        early = (reason != "undecided by theory") if ended else reason in ("interrupted", "not yet served")
        pairs += [("summary.json", "reason", reason, "run.json", "ended", ended)] * (early != bool(ended))
    undecided, why = heading["verdict"] == "undecided", heading["undecided_because"]
    pairs += [("summary.json", "undecided_because", why, "summary.json", "undecided", undecided)] * (bool(why) != undecided)
    wrong = [f"{file}: {name} is {str(left)[:80]}, and {other}: {its} is {str(right)[:80]}"
             for file, name, left, other, its, right in pairs if left != right]
    taken, idle, switches = [] if known else ["network"], heading.get("without_effect", []), run.order - len(run.data_ranks)
    wrong += wrong_network(heading["topology"], run.labels, switches, run.links) if known else []
    if spec["clock"] == "steps":
        effects = Counter((place, *spell) for place, spells in run.spells.items() for spell in spells)
        found, unknown, _ = wrong_faults(scenario["fault"], run.labels, run.links, effects, run.states, idle)
        last = max((hop.step for hop in run.data), default=0)
        found += [f"summary.json: {fault} is without effect, and journal.csv has {last} steps"
                  for fault in idle if int(re.search(r"(?:@(\d+)[^@]*)?$", fault)[1] or 1) <= last]
        wrong, taken = wrong + found, taken + [f"effects of {name}" for name in unknown]
    return wrong, ["algorithm", "facts about the collective", *taken]

def diameter(run, unjudged):
    """The largest distance in the network; `unjudged` where there is too much to count."""
    near, most, starts = defaultdict(set), 0, range(run.order if run.order * len(run.links) <= MOST_SUMS else 0)
    for (rank, _), (other, _) in run.links.items():
        near[rank].add(other)
    for start in starts:
        far, ring, steps = {start}, {start}, -1
        while ring:
            ring, steps = set().union(*(near[rank] for rank in ring)) - far, steps + 1
            far |= ring
        most = max(most, steps)
    return most if starts else unjudged

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

def none_foreseen(run):
    """Whether the claims predict that nothing is delivered, of an algorithm that delivers without faults."""
    due, dropped = ([claim for claim in run.summary.get(name, ()) if claim["name"] in DELIVERY]
                    for name in ("claims", "dropped_claims"))
    most = {"least_contributions": len(run.data_ranks) - 1}
    none = any(claim["relation"] != ">=" and claim["predicted"] <= most.get(claim["name"], 0) for claim in due)
    some = any(claim["relation"] != "<=" and claim["name"] not in most and claim["predicted"] for claim in due)
    return none and not some and any(claim["predicted"] for claim in [*due, *dropped])

def verdicts(run, metrics):
    """The verdict on every claim, and on the run."""
    spec, claims, found = run.run, run.summary["claims"], []
    names = {claim["name"] for claim in claims}
    invalid = spec["ended"] or any(root in run.states for root in spec["roots"]) or not metrics["expected_deliveries"]
    delivered = metrics["intact_deliveries"] or metrics.get("final_delivery_ratio") or none_foreseen(run)
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
    differing, taken = origin(run)
    wrong, summary, hops, claims = run.wrong + differing, run.summary, run.journal, run.summary["claims"]
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
    taken = ["predictions", *taken, *(f"number {name}" for name in given)]
    taken += [f"protocol {name}" for name in run.run["features"]]
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
