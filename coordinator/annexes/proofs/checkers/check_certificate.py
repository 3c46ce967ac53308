#!/usr/bin/env python3
"""Judge certificates in archives of `coordinator pack`, with the standard library and no code of the emulator.

    python -I check_certificate.py ARCHIVE..

`coordinator verify` calls this file, with an archive that it makes anew from the scenario of the certificate. By
paths, from network and fault-free hops: digests, numbers of sets, paths of copies, classes, smallest cuts,
tolerances, numbers of survived sets, the counterexample, and that scenario, facts, faults and network belong
together. By runs, where nodes choose, wait or fold: the hash of every stored history, that its hops follow links and
that stopped places send nothing, the messages that each run delivers, and levels of which the archive has every set.
And the verdict. From the archive, and named: facts about the collective, claims that runs violate, why runs decide
nothing, deliveries of collectives that fold. Nothing in an archive is executed, and all sizes have bounds.
Exit status: 0 the certificate is right, 1 something is wrong, 2 it cannot be read, 3 it is not judged completely.
"""

# fmt: off
import csv
import hashlib
import io
import json
import re
import struct
import sys
import zipfile
from collections import Counter, defaultdict, namedtuple
from functools import lru_cache
from itertools import combinations, islice, product
from math import comb, factorial

FORMAT, MOST_BYTES, MOST_ROWS, FOREVER = 1, 256 << 20, 2_000_000, 2**62
MOST_COUNTED, MOST_WORK, MOST_SEARCHED, MOST_STATES, STORED = 20_000, 100_000_000, 5_000_000, 200_000, 10
AGAIN = 2**14  # trees from here on: a collective that runs again, and control segments
FILES = {f"{name}.json" for name in ("manifest", "certificate", "facts", "runs")}
FILES |= {f"{name}.csv" for name in ("nodes", "network", "journal", "faults", "runs")}
OUTCOMES = ("first", "duplicate", "relay", "lost", "corrupt", "control", "withheld", "report")
STOPS = {"crash": "node", "hang": "node", "silent": "sender", "down": "link"}
EFFECTS = {"crash": "stop", "hang": "stop", "silent": "mute", "byzantine": "alter", "equivocate": "alter", "down": "cut"}
SCHEMA = {
    "certificate": {"format": str, "version": str, "verdict": str, "method": str, "network": "network", "levels": ["level"],
                    "schedule": "schedule", "threats": ["threat"], "counterexample": (dict, type(None)), "scenario": dict},
    "network": {"name": str, "order": int, "links": int, "sha256": str}, "schedule": {"hops": int, "sha256": str},
    "counterexample": {"faults": [str], "unserved": [str]}, "different": {"faults": [str], "memory": str, "driver": str},
    "level": {"faults": str, "sets": int, "survived": [int], "lost": (int, type(None)), "undecided": int,
              "histories": ["history"]},
    "history": {"faults": [str], "journal_hash": str},
    "threat": {"kinds": [str], "when": str, "tolerated": (int, type(None)), "classes": ["class"]},
    "class": {"members": [[int]], "piece": [int], "argument": str, "paths": [[int]], "least": (int, type(None)),
              "cut": (list, type(None))},
}
Hop = namedtuple("Hop", "step sender port receiver origin target tree segment bytes outcome")
Level = namedtuple("Level", "kinds numbers first last arguments")
Copies = namedtuple("Copies", "count stopped altered strikes")  # bits by copy; strikes: (part, place) to such bits

def require(value, kind, name="certificate"):
    """Refuse a value that is not of a type of SCHEMA: by its name, a choice of types, or a list of one type."""
    if isinstance(kind, str) and isinstance(value, dict):
        for key, inner in SCHEMA[kind].items():
            require(value.get(key, ...), inner, f"{kind}: {key}")
    elif isinstance(kind, list) and isinstance(value, list):
        for each in value:
            require(each, kind[0], name)
    elif type(value) not in (kind if isinstance(kind, tuple) else (kind,)):
        raise ValueError(f"{name} is {str(value)[:60]!r}, which is of the wrong type")

def require_certificate(data):
    """Refuse other keys, types and words than those of a certificate."""
    require(data, "certificate")
    for name in [name for name in ("counterexample", "different") if data.get(name) is not None]:
        require(data[name], name)
    classes = [each for threat in data["threats"] for each in threat["classes"]]
    require([each["cut"] or [] for each in classes], [[str]], "a cut")
    if data["format"] != "coordinator-certificate" or not re.fullmatch(r"\d+\.\d+\.\d+", data["version"]):
        raise ValueError("its format is not coordinator-certificate, or its version is not three numbers such as 0.3.0")
    if data["method"] not in ("cuts", "runs") or not 1 <= len(data["levels"]) <= 10_000:
        raise ValueError("its method is cuts or runs, and it has 1 to 10,000 levels")
    if not all(each["members"] and all(len(pair) == 2 for pair in each["members"]) for each in classes):
        raise ValueError("the members of a class are pairs of ranks")

def rows(data):
    """The rows of a table, without its heading."""
    found = list(islice(csv.reader(io.StringIO(data.decode())), MOST_ROWS + 2))
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

def read(path):
    """The files of an archive."""
    with zipfile.ZipFile(path) as archive:
        entries = {entry.filename: entry for entry in archive.infolist()}
        if set(entries) != FILES or len(entries) != len(archive.infolist()):
            raise ValueError(f"it is no certificate: expected the files {', '.join(sorted(FILES))}, each once")
        if sum(entry.file_size for entry in entries.values()) > MOST_BYTES:
            raise ValueError(f"it has more than {MOST_BYTES} bytes")
        return {name: archive.open(entry).read(entry.file_size + 1) for name, entry in entries.items()}

def hop_of(row):
    return Hop(*map(int, row[:9]), row[9])

def numbers_of(hop):
    """A row of a journal as it is hashed."""
    return *hop[:2], *hop[3:6], hop.segment, hop.bytes, hop.tree, hop.port, OUTCOMES.index(hop.outcome)

def journal_hash(hops):
    """The digest of a journal, whose rows are sorted."""
    digest = hashlib.blake2b(digest_size=16)
    for hop in sorted(hops, key=lambda hop: (*hop[:3], *hop[4:8], OUTCOMES.index(hop.outcome), hop.bytes)):
        digest.update(struct.pack("<8ihb", *numbers_of(hop)))
    return digest.hexdigest()

class Archive:
    """The files of an archive, and what follows from them."""
    def __init__(self, files):
        manifest, self.data, self.facts, stored = (
            json.loads(files[f"{key}.json"]) for key in ("manifest", "certificate", "facts", "runs"))
        if manifest["format"] != FORMAT:
            raise ValueError(f"version {manifest['version']} wrote format {manifest['format']}; this is for {FORMAT}")
        self.wrong = [f"{name}: its digest is not the one in manifest.json" for name, data in sorted(files.items())
                      if name != "manifest.json" and hashlib.sha256(data).hexdigest() != manifest["sha256"].get(name)]
        require_certificate(self.data)
        nodes, links, journal, faults, runs = (
            rows(files[f"{name}.csv"]) for name in ["nodes", "network", "journal", "faults", "runs"])
        self.order, self.labels = len(nodes), [label for _, label, _, _ in nodes]
        self.states = {rank: state for rank, (*_, state) in enumerate(nodes) if state}
        self.data_ranks = [rank for rank, (*_, switch, _) in enumerate(nodes) if switch == "0"]
        self.ends = {(int(a), int(p)): (int(b), int(q)) for a, p, b, q in links}
        if any(self.ends.get(there) != here or not 0 <= here[0] < self.order for here, there in self.ends.items()):
            raise ValueError("network.csv: a link has one end")
        self.neighbours = {(one, other) for (one, _), (other, _) in self.ends.items()}
        self.hops = list(map(hop_of, journal))
        self.runs, self.whole = [run | {"hops": []} for run in stored["runs"]], set(stored["whole"])
        for row in runs:
            self.runs[int(row[0])]["hops"].append(hop_of(row[1:]))
        self.given = [(tuple(map(int, row[0].split("/"))), *map(int, row[1:3]), row[3]) for row in faults]
        self.faulty, broken = set(self.facts["faulty"]), set(map(frozenset, self.facts["broken"]))
        spared = self.faulty | ({self.facts["source"]} if self.facts["rooted"] else set())
        self.nodes = sorted(set(range(self.order)) - spared)
        self.links = sorted({(min(ends), max(ends)) for ends in self.neighbours if frozenset(ends) not in broken})
        self.may_fail = {*self.nodes, *self.links}
        self.places = {label: rank for rank, label in enumerate(self.labels)}
        self.places |= {f"{self.labels[a]}~{self.labels[b]}": (min(a, b), max(a, b)) for a, b in self.neighbours}
        self.arrivals, self.due = defaultdict(lambda: defaultdict(dict)), defaultdict(list)
        self.known, self.by_paths = {}, self.facts["paths_decide"]
        for hop in self.hops:
            into = self.arrivals[hop.origin, hop.target, hop.segment][hop.tree]
            self.by_paths &= hop.receiver not in into and hop.receiver != hop.origin
            into[hop.receiver] = hop
        for segment in sorted(segment for segment, into in self.arrivals.items() if min(into) < AGAIN):
            for receiver in self.data_ranks if segment[1] < 0 else [segment[1]]:
                if receiver != segment[0]:
                    self.due[segment[0], receiver].append(segment)
    def digests(self):
        one_way = sorted((*here, *there) for here, there in self.ends.items() if here < there)
        text = f"network 1\n{self.order} {len(one_way)}\n" + "".join(f"{label}\n" for label in self.labels)
        text += "".join("{} {} {} {}\n".format(*link) for link in one_way)
        data = b"".join(struct.pack("<8ihb", *row) for row in sorted(map(numbers_of, self.hops)))
        return hashlib.sha256(text.encode()).hexdigest(), hashlib.sha256(data).hexdigest()
    def pairs(self, struck=()):
        """Origin and receiver of all messages between ranks that do not fail."""
        return [pair for pair in self.due if not self.faulty.union(struck).intersection(pair)]
    def paths(self, segment, receiver):
        """The hops of each copy of a segment to a receiver, by tree; a copy that does not reach it is left out."""
        found = []
        for _, into in sorted(self.arrivals[segment].items()):
            hops = [into[receiver]] if receiver in into else []
            while hops and hops[0].sender != segment[0]:
                hops = [into[hops[0].sender], *hops] if hops[0].sender in into and len(hops) <= len(into) else []
            found += [hops] if hops else []
        return found
    def fate(self, hops):
        """The effect of the given faults on a copy: stop, alter, or empty."""
        fate = ""
        for at, hop in enumerate(hops):
            met = {(place, effect.split()[0]) for place, start, end, effect in self.given if start <= hop.step < end}
            stopped = {place for place, effect in met if effect == "stops"}
            if stopped & {(hop.sender,), (hop.receiver,), (hop.sender, hop.port)} or ((hop.sender,), "loses") in met:
                return "stop"
            fate = "alter" if at and ((hop.sender,), "alters") in met else fate
        return fate
    def copies(self, *key):
        """The copies of a segment as bits, and which of them each kind of fault hits at each place."""
        if key in self.known:
            return self.known[key]
        (kinds, first, last, *copy), strikes = key, defaultdict(lambda: [0, 0])
        paths = self.paths(*copy)
        bits = [sum((self.fate(hops) == fate) << at for at, hops in enumerate(paths)) for fate in ("stop", "alter")]
        for at, hops in enumerate(paths):
            for place, hop in ((place, hop) for place, hop in enumerate(hops) if first <= hop.step <= last):
                for part, kind in enumerate(kinds):
                    effect, ends = self.effect(kind), (hop.sender, hop.receiver)
                    # The origin of a message is no place on its path, and nor is its receiver.
                    met = {hop.sender} if place and effect != "cut" else set()
                    met |= {hop.receiver} if effect == "stop" and place < len(hops) - 1 else set()
                    met |= {(min(ends), max(ends))} if effect == "cut" else set()
                    for where in met & self.may_fail:
                        strikes[part, where][effect == "alter"] |= 1 << at
        self.known[key] = Copies(len(paths), *bits, {strike: tuple(each) for strike, each in strikes.items()})
        return self.known[key]
    def unserved(self, level, strikes):
        """The healthy ranks that miss a message under these strikes."""
        return {pair[1] for pair in self.pairs([place for _, place in strikes]) for segment in self.due[pair]
                if struck(self.copies(level.kinds, level.first, level.last, segment, pair[1]), strikes)}
    def least(self, window, pair, budget=None):
        """The fewest faults that lose one of the segments of a message."""
        segments = (self.copies(*window, segment, pair[1]) for segment in self.due[pair])
        found = [fewest(*copies[:3], frozenset((part, *bits) for (part, _), bits in copies.strikes.items()), budget)
                 for copies in segments]
        return min((number for number in found if number is not None), default=None)

    def effect(self, kind):
        """The effect of a kind of fault on copies; None for a kind of a plug-in that is like no built-in kind."""
        return EFFECTS.get(self.facts.get("like", {}).get(kind, kind))
    def by_effects(self, kinds):
        return self.by_paths and all(map(self.effect, kinds))
    def fault(self, spec):
        """Kind, place, first and last step and argument of a fault, such as crash:4231@2 or loss:A~B:0.5@1-3."""
        match = re.fullmatch(r"([a-z-]+):(.+)@([^@]*)", spec)
        where = match[2] if match else ""
        argument = "" if where in self.places else where.rpartition(":")[2]
        place = self.places.get(where.removesuffix(f":{argument}"))
        if place is None:
            raise ValueError(f"the place of {spec[:80]!r} is not in the network")
        first, dash, last = match[3].partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            return match[1], place, match[3], FOREVER, argument
        return match[1], place, int(first), int(last) if dash else FOREVER, argument
    def kinds_of(self, specs):
        """The numbers of a set's faults by kind, steps and argument; None if a place fails twice, or may not fail."""
        faults = list(map(self.fault, specs))
        places = {place for _, place, *_ in faults}
        if len(places) < len(faults) or not places <= self.may_fail:
            return None
        return Counter((kind, *others) for kind, _, *others in faults)
    def missing(self, run):
        """The healthy ranks that miss a message in a run: some segment has no majority of intact copies."""
        failing = self.faulty | {place for _, place, *_ in map(self.fault, run["faults"]) if isinstance(place, int)}
        votes = defaultdict(dict)
        for hop in sorted(run["hops"]):
            if hop.outcome in ("first", "duplicate", "corrupt") and hop.target in (-1, hop.receiver) and hop.tree < AGAIN:
                key = hop.receiver, (hop.origin, hop.target, hop.segment)
                votes[key].setdefault(hop.tree, hop.outcome != "corrupt")
        right = {key for key, cast in votes.items() if sum(cast.values()) * 2 > len(cast)}
        return {receiver for (origin, receiver), segments in self.due.items()
                if not failing & {origin, receiver} and not all((receiver, segment) in right for segment in segments)}
    def impossible(self, run):
        """The first hop of a run that no link joins, or that a stopped place sends or receives; or None."""
        stops = [fault for fault in map(self.fault, run["faults"]) if fault[0] in STOPS and isinstance(fault[2], int)]
        for hop in run["hops"]:
            if hop.outcome in ("report", "withheld"):
                continue
            if self.ends.get((hop.sender, hop.port), ("",))[0] != hop.receiver:
                return hop
            for kind, place, first, last, _ in stops if self.facts["in_steps"] else ():
                met = {"node": place in (hop.sender, hop.receiver), "sender": place == hop.sender,
                       "link": place == (min(hop.sender, hop.receiver), max(hop.sender, hop.receiver))}[STOPS[kind]]
                may_be_lost = place != hop.sender or kind == "silent"
                if first <= hop.step <= last and met and (hop.outcome != "lost" or not may_be_lost):
                    return hop
        return None

def lost(count, stopped, altered):
    """Return whether no majority of the copies that arrive has the right value."""
    arrived = count - stopped.bit_count()
    return 2 * (arrived - (altered & ~stopped).bit_count()) <= arrived

def struck(copies, strikes):
    """Return whether these strikes lose a segment."""
    stopped, altered = copies.stopped, copies.altered
    for stops, alters in (copies.strikes.get(strike, (0, 0)) for strike in strikes):
        stopped, altered = stopped | stops, altered | alters
    return lost(copies.count, stopped, altered)

@lru_cache(100_000)
def fewest(count, stopped, altered, moves, budget):
    """The fewest faults that lose a segment, with at most `budget` of each part: move by move, for each set of copies."""
    least = {(stopped, altered, (0,) * len(budget or ())): 0}
    for part, stops, alters in sorted(moves):
        for (before, changed, used), number in list(least.items()):
            if budget is None or used[part] < budget[part]:
                spent = tuple(each + (at == part) for at, each in enumerate(used))
                key = before | stops, changed | alters, spent
                least[key] = min(number + 1, least.get(key, FOREVER))
        if len(least) > MOST_STATES:
            raise OverflowError("the copies of a message can be affected in too many ways")
    return min((number for (stops, alters, _), number in least.items() if lost(count, stops, alters)), default=None)

def level_of(text, kinds):
    """A level, such as nodes=2;links=1@2-5."""
    match = re.fullmatch(r"((?:;?[a-z-]+=\d{1,6}(?::[^;@:]+)?)+)(?:@(\d{1,9})(?:-(\d{1,9}))?)?", text)
    if text == "as they are":
        return Level((), (), 1, FOREVER, ())
    words = [re.split("[=:]", f"{word}:")[:3] for word in match[1].split(";")] if match else []
    names, numbers, arguments = zip(*words, strict=True) if words else ((), (), ())
    names = tuple({"nodes": "crash", "links": "down"}.get(name, name) for name in names)
    first, last = int((match and match[2]) or 1), int((match and match[3]) or FOREVER)
    sound = set(names) <= kinds.keys() and len(set(zip(names, arguments, strict=True))) == len(names)
    if not names or not sound or not 0 < first <= last:
        raise ValueError(f"level {text[:60]!r} cannot be read")
    return Level(names, tuple(map(int, numbers)), first, last, arguments)

def kinds_in(level):
    """The numbers of the faults of each set of a level, as of `Archive.kinds_of`."""
    found = Counter()
    for kind, number, argument in zip(level.kinds, level.numbers, level.arguments, strict=True):
        found[kind, level.first, level.last, argument] += number
    return +found

class Judge:
    """The judgement of one certificate."""
    def __init__(self, archive):
        self.archive, self.data, self.wrong, self.unjudged, self.refuted = archive, archive.data, archive.wrong, [], []
        self.taken, self.unknown = ["algorithm", "facts about the collective"], []
        self.by_runs, self.uncounted = self.data["method"] == "runs", []
    def same(self, name, stored, expected):
        if stored != expected:
            self.wrong.append(f"{name} is {str(stored)[:100]}, and it should be {str(expected)[:100]}")
    def judge(self):
        data, archive = self.data, self.archive
        network, schedule = archive.digests()
        sizes = {"name": archive.facts["topology"], "order": archive.order, "links": len(archive.ends) // 2}
        for name, value in {**sizes, "sha256": network}.items():
            self.same(f"network: {name}", data["network"][name], value)
        self.origin()
        for name, value in {"hops": len(archive.hops), "sha256": schedule}.items():
            self.same(f"schedule: {name}", data["schedule"][name], value)
        if self.wrong:
            return
        levels = [(stored, level_of(stored["faults"], archive.facts["kinds"])) for stored in data["levels"]]
        times = Counter(level for _, level in levels)
        for stored, level in levels:
            self.wrong += [f"level {stored['faults']}: it is repeated"] if times[level] > 1 else []
            self.sizes(stored, level)
        if self.wrong:
            return
        self.countable(levels)
        if self.by_runs:
            self.same("threats of a certificate by runs", data["threats"], [])
            for stored, level in levels if archive.by_paths else ():
                if level in self.counted:
                    self.recount(stored, level)
        else:
            self.cuts(levels)
        self.histories(levels)
        self.verdict()
        if data["counterexample"] is not None:
            self.counterexample(data["counterexample"], levels)
        if "different" in data:
            self.history("different", data["different"]["faults"], data["different"]["memory"])
            self.wrong += ["different: both histories are the same"] * (
                data["different"]["memory"] == data["different"]["driver"])
            self.unjudged.append("the history on another driver")
    def origin(self):
        """Judge that scenario, facts and tables are of one run, and the network of a named family."""
        archive, facts, scenario = self.archive, self.archive.facts, DEFAULTS | self.data["scenario"]
        kind, network, labels = facts["collective"], self.data["network"]["name"], archive.labels
        rooted = facts["rooted"] if kind == "messages" else (
            not scenario.get("permutation") if kind == "unicast" else kind in ("broadcast", "scatter", "gather", "reduce"))
        copies = map(len, archive.arrivals.values() if archive.by_paths and facts["redundancy"] > 1 else ())
        effects, known = Counter(archive.given), family_of(network)
        pairs = [("topology", scenario["topology"], facts["topology"]), ("collective", scenario.get("collective"), kind),
                 ("algorithm", scenario["algorithm"], facts.get("algorithm", scenario["algorithm"])),
                 ("redundancy", scenario["redundancy"], facts["redundancy"]), ("rooted", rooted, facts["rooted"]),
                 ("clock is steps", scenario["clock"] == "steps", facts["in_steps"])]
        wrong = [f"certificate.json: scenario: {name} is {str(left)[:80]}, and facts.json: it is {str(right)[:80]}"
                 for name, left, right in pairs if left != right]
        own, given = labels[facts["source"]], labels[0] if scenario["source"] is None else str(scenario["source"])
        alike = known and re.fullmatch(known[1], given) and re.fullmatch(known[1], own) and known[2](given) == known[2](own)
        if given != own and not alike and (known or given in labels):
            wrong.append(f"certificate.json: scenario: source is {given[:80]}, and facts.json: source is {own}")
        origins = {hop.origin for hop in archive.hops if hop.tree < 2**14} if kind in ("broadcast", "scatter") else set()
        if not origins <= {facts["source"]}:
            wrong.append(f"journal.csv: rank {max(origins)} sends a message, and facts.json: source is {facts['source']}")
        wrong += [f"journal.csv: a message has {number} copies, and facts.json: redundancy is {facts['redundancy']}"
                  for number in copies if number != facts["redundancy"]][:1]
        if known:
            wrong += wrong_network(network, labels, len(labels) - len(archive.data_ranks), archive.ends)
        self.taken += [] if known else ["network"]
        if facts["in_steps"]:
            last, idle = max((hop.step for hop in archive.hops), default=0), []
            for spec in scenario["fault"]:  # one that begins after the last step leaves no state
                where, start = re.fullmatch(r"[^:]*:([^:@]*)[^@]*(?:@(\d+).*)?", spec).groups()
                idle += [spec] * (int(start or 1) > last and archive.places.get(where) not in archive.states)
            tables = labels, archive.ends, effects, archive.states
            found, self.unknown, places = wrong_faults(scenario["fault"], *tables, idle)
            faulty = {place[0] for place in places if len(place) == 1}
            links = {frozenset((place[0], archive.ends[place][0])) for place in places if len(place) == 2}
            pairs = [("faulty", facts["faulty"], sorted(faulty)),
                     ("broken", sorted(map(sorted, facts["broken"])), sorted(map(sorted, links)))]
            wrong += found or [f"facts.json: {name} is {str(left)[:80]}, and by the scenario's faults {str(right)[:80]}"
                               for name, left, right in pairs if left != right]
            self.taken += [f"effects of {name}" for name in self.unknown]
        self.wrong += wrong
    def sizes(self, stored, level):
        """Judge the number of sets of a level, and that its other numbers are within it."""
        free, sets = {False: len(self.archive.nodes), True: len(self.archive.links)}, 1
        for kind, number in zip(level.kinds, level.numbers, strict=True):
            on_links = self.archive.facts["kinds"][kind]
            sets *= comb(max(0, free[on_links]), number)
            free[on_links] -= number
        self.same(f"{stored['faults']}: sets", stored["sets"], sets)
        bounds = [0, *stored["survived"], sets]
        if len(bounds) != 4 or bounds != sorted(bounds) or not 0 <= stored["undecided"] <= sets or (stored["lost"] or 0) < 0:
            self.wrong.append(f"{stored['faults']}: survived are two numbers within 0..{sets}, undecided and lost one each")
    def countable(self, levels):
        """The levels that are counted set by set: the smallest ones, within a bound on the work."""
        self.counted, left = set(), MOST_WORK
        for stored, level in sorted(levels, key=lambda each: each[0]["sets"]):
            work = stored["sets"] * max(1, len(self.archive.hops))
            if stored["sets"] <= MOST_COUNTED and work <= left and self.archive.by_effects(level.kinds):
                left -= work
                self.counted.add(level)
    def cuts(self, levels):
        """Judge the argument by cuts: every class of every threat, and each level by it."""
        if self.unknown:
            raise OverflowError(f"the argument by cuts beside {', '.join(self.unknown)}")
        if not self.archive.by_paths:
            raise ValueError("paths decide nothing where nodes choose, wait or fold")
        threats, used, redundancy = {}, set(), max(1, self.archive.facts["redundancy"])
        if len(self.data["threats"]) * sum(map(len, self.archive.due.values())) * redundancy > MOST_SEARCHED:
            raise OverflowError("too many combinations of kinds and copies")
        for stored in self.data["threats"]:
            kinds, when = tuple(stored["kinds"]), re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", stored["when"])
            key = kinds, int(when[1] if when else 0), int((when and when[2]) or FOREVER)
            known = {*kinds} <= self.archive.facts["kinds"].keys() and len({*kinds}) == len(kinds) > 0
            if not when or not known or key in threats:
                name = f"threat {str(stored['kinds'])[:60]} in steps {stored['when'][:40]}"
                raise ValueError(f"{name}: {'it is repeated' if key in threats else 'expected kinds of faults, and a step'}")
            added = sorted(kind for kind in kinds if not self.archive.effect(kind))  # only its plug-in knows what it does
            self.taken += [f"effects of {kind}" for kind in kinds if kind not in EFFECTS and kind not in added]
            self.unjudged += [f"the argument by cuts of {', '.join(added)}"] if added else []
            threats[key] = None if added else self.tolerance(key, stored)
        for stored, level in levels:
            key = level.kinds, level.first, level.last
            used.add(key)
            if key not in threats:
                raise ValueError(f"{stored['faults']}: no threat of the certificate has its kinds of faults")
            if all(map(self.archive.effect, level.kinds)):
                self.level_by_cuts(stored, level, key, threats[key])
        self.same("number of threats", len(threats), len(used))
    def tolerance(self, window, stored):
        name, found = " and ".join(window[0]), [each["least"] for each in stored["classes"] if each["least"] is not None]
        members, due = (Counter(map(tuple, pairs)) for pairs in (
            (pair for each in stored["classes"] for pair in each["members"]), self.archive.pairs()))
        self.wrong += [f"{name}: no class has the message of rank {pair[0]} to rank {pair[1]}" for pair in due - members][:1]
        self.wrong += [f"{name}: the message of rank {pair[0]} to rank {pair[1]} is not due, or another class has it"
                       for pair in members - due][:1]
        if members != due:
            return None
        for each in stored["classes"]:
            self.one_class(window, each)
        self.same(f"{name}: tolerated", stored["tolerated"], min(found) - 1 if found else None)
        return stored["tolerated"]
    def one_class(self, window, each):
        archive, (origin, receiver), segment = self.archive, each["members"][0], tuple(each["piece"])
        name, (kinds, first, last) = f"rank {origin} to rank {receiver}", window
        if segment not in archive.due[origin, receiver]:
            self.wrong.append(f"{name}: piece {str(segment)[:60]} is not one of this message")
            return
        paths = [[hop.sender for hop in hops] + [receiver] for hops in archive.paths(segment, receiver)]
        if each["paths"] != paths:
            self.wrong.append(f"{name}: its paths are not {str(paths)[:80]}, as the algorithm has them")
        copies = archive.copies(*window, segment, receiver)
        shared = any((stops | alters).bit_count() > 1 for stops, alters in copies.strikes.values())
        self.same(f"{name}: argument", each["argument"], "search" if shared else "disjoint")
        for pair in map(tuple, each["members"]):
            self.same(f"rank {pair[0]} to rank {pair[1]}: the fewest faults", each["least"], archive.least(window, pair))
        when = str(first) if last == FOREVER else f"{first}-{last}"
        known = {f"{kinds[part]}:{self.word(place)}@{when}": (part, place) for part, place in copies.strikes}
        hits = [known.get(spec) for spec in each["cut"] or ()]
        if each["cut"] is None or each["least"] is None:
            unequal = (each["cut"] is None) != (each["least"] is None)
            self.wrong += [f"{name}: it has a cut exactly if some faults defeat it"] if unequal else []
        elif None in hits or not len(set(hits)) == len(hits) == each["least"] or not struck(copies, hits):
            self.wrong.append(f"{name}: its cut is not {each['least']} different faults on its paths that defeat it")
    def word(self, place):
        return "~".join(self.archive.labels[rank] for rank in (place if isinstance(place, tuple) else (place,)))
    def recount(self, stored, level):
        """Count the survived sets of a level one by one; the sets without any message that is due."""
        archive, survived, missing, vacant = self.archive, 0, 0, 0
        choices = (combinations(archive.links if archive.facts["kinds"][kind] else archive.nodes, number)
                   for kind, number in zip(level.kinds, level.numbers, strict=True))
        for chosen in product(*choices):
            strikes = [(part, place) for part, places in enumerate(chosen) for place in places]
            if len({place for _, place in strikes}) == len(strikes):  # a place fails once
                unserved = archive.unserved(level, strikes)
                survived, missing = survived + (not unserved), missing + len(unserved)
                vacant += not archive.pairs([place for _, place in strikes])
        self.refuted += [stored["faults"]] if survived < stored["sets"] else []
        survived -= vacant if self.data["method"] == "runs" else 0  # a run without receivers decides nothing
        if not stored["survived"][0] <= survived <= stored["survived"][1]:
            self.wrong.append(f"{stored['faults']}: {survived} sets are survived, and not {stored['survived']}")
        self.same(f"{stored['faults']}: lost", stored["lost"], None if stored["lost"] is None else missing)
        return vacant
    def level_by_cuts(self, stored, level, window, tolerated):
        name, sets = stored["faults"], stored["sets"]
        if level in self.counted:
            self.same(f"{name}: undecided", stored["undecided"], self.recount(stored, level))
        elif tolerated is None or sum(level.numbers) <= tolerated:
            self.same(f"{name}: survived and lost", [*stored["survived"], stored["lost"]], [sets, sets, 0])
        else:
            fails = any(self.archive.least(window, pair, level.numbers) is not None for pair in self.archive.pairs())
            if stored["survived"][0] == sets:
                self.same(f"{name}: some set costs a node a message", fails, False)
            else:
                self.uncounted.append(f"how many sets of {name} are survived")
                self.refuted += [name] if fails and self.data["verdict"] == "undecided" else []
    def verdict(self):
        data = self.data
        self.refuted += [level["faults"] for level in data["levels"] if level["survived"][1] < level["sets"]
                         and not (data["method"] == "runs" and level["undecided"])]  # undecided sets do not fail
        whole = all(level["survived"][0] == level["sets"] and not level["undecided"] for level in data["levels"])
        shown = data["counterexample"] is not None or "different" in data
        if self.refuted and not shown:
            self.wrong.append(f"there is no counterexample, and some sets fail: {self.refuted[0]}")
        self.same("verdict", data["verdict"], "violated" if shown or self.refuted else "holds" if whole else "undecided")
    def history(self, name, specs, digest):
        """Judge the hash of a stored history by the run of the archive."""
        run = next((run for run in self.archive.runs if run["faults"] == specs), None)
        under, found = ", ".join(specs)[:80] or "no further faults", run and journal_hash(run["hops"])
        self.wrong += [f"{name}: the history under {under} is {found}, and not {digest[:40]}"] if found != digest else []
    def missing(self, run):
        return self.archive.missing(run) if self.archive.facts["deliveries_judged"] else set(run["unserved"])
    def histories(self, levels):
        """Judge the runs of the archive: what is possible in them, what they deliver, and the levels that they belong to."""
        archive = self.archive
        self.taken += [] if archive.facts["deliveries_judged"] else ["deliveries"]
        self.taken += ["claims that runs violate", "why runs decide nothing"] if self.by_runs else []
        for run in archive.runs:
            name = ", ".join(run["faults"])[:80] or "no further faults"
            if hop := archive.impossible(run):
                self.wrong.append(f"the run under {name} has an impossible hop: {', '.join(map(str, hop))}")
            self.same(f"the run under {name}: its unserved ranks", sorted(run["unserved"]), sorted(self.missing(run)))
        for stored, level in levels:
            runs = {frozenset(run["faults"]): run for run in archive.runs
                    if archive.kinds_of(run["faults"]) == kinds_in(level)}
            for each in stored["histories"][:STORED]:
                self.history(stored["faults"], each["faults"], each["journal_hash"])
                if archive.kinds_of(each["faults"]) != kinds_in(level):
                    self.wrong.append(f"{stored['faults']}: {', '.join(each['faults'])[:80]} is not one of its sets")
            self.level_by_runs(stored, level, runs)
    def level_by_runs(self, stored, level, runs):
        name, (least, most), sets = stored["faults"], stored["survived"], stored["sets"]
        if name in self.archive.whole:
            survived = sum(not run["undecided"] and not self.missing(run) for run in runs.values())
            self.same(f"{name}: sets in the archive", len(runs), sets)
            if not least <= survived <= most:
                self.wrong.append(f"{name}: {survived} sets are survived, and the certificate says {stored['survived']}")
            lost_in_all = sum(len(self.missing(run)) for run in runs.values())
            self.same(f"{name}: lost", stored["lost"], None if stored["lost"] is None else lost_in_all)
        elif self.by_runs and level not in self.counted and len(runs) < sets:
            self.unjudged.append(f"{name}: the sets whose runs are not in the archive")
        decided = [run for run in runs.values() if not run["undecided"]]
        failing = [run for run in decided if self.missing(run) or (self.by_runs and run["violated"])]
        where = ", ".join(failing[0]["faults"])[:160] or "no further faults" if failing else ""
        if least == sets and any(map(self.missing, decided)):
            self.wrong.append(f"{name}: a run under {where} costs a node a message, and the certificate says none does")
        elif least == sets and not stored["undecided"] and self.by_runs and len(decided) < len(runs):
            self.wrong.append(f"{name}: a run decides nothing, and the certificate says that all do")
        if failing and self.by_runs:
            self.refuted.append(f"{name}, by {where}")
    def counterexample(self, stored, levels):
        """Judge that the counterexample is a set of a level, and what it costs."""
        run = next((run for run in self.archive.runs if run["faults"] == stored["faults"]), None)
        kinds = self.archive.kinds_of(stored["faults"])
        if kinds is None or kinds not in [kinds_in(level) for _, level in levels]:
            self.wrong.append("counterexample: its faults are not a set of any level, at different places that may fail")
        elif run is None:
            self.unjudged.append("the counterexample, whose run is not in the archive")
        else:
            level = next(level for _, level in levels if kinds_in(level) == kinds)
            if self.archive.by_effects(level.kinds):
                places = [self.archive.fault(spec)[:2] for spec in stored["faults"]]
                strikes = [(level.kinds.index(kind), place) for kind, place in places]
                self.same("counterexample: unserved ranks of its run", sorted(run["unserved"]),
                          sorted(self.archive.unserved(level, strikes)))
            missing = sorted(self.archive.labels[rank] for rank in self.missing(run))
            self.same("counterexample: unserved", sorted(stored["unserved"]), missing)
            if run["undecided"] or not (missing or (self.by_runs and run["violated"])):
                more = ", and violates no claim" if self.by_runs else ""
                self.wrong.append(f"counterexample: its run leaves no healthy node without a message{more}")

def main(arguments, status=0):
    for path in arguments:
        try:
            judge = Judge(Archive(read(path)))
            judge.judge()
            wrong, unjudged = judge.wrong[:50], judge.unjudged + judge.uncounted
            last = f"{'wrong' if wrong else 'right'}: {judge.data['verdict']}; from the archive: {', '.join(judge.taken)}"
        except Exception as error:  # an archive may hold anything
            wrong, unjudged = [], [str(error)] if isinstance(error, OverflowError) else []
            last = f"unreadable: {type(error).__name__}: {error}"[:300]
        status = max(status, 1 if wrong else 3 if unjudged else 2 if last.startswith("unreadable") else 0)
        for line in [*wrong, f"not judged: {'; '.join(unjudged[:5])}" if unjudged and not wrong else last]:
            print(f"{path}: {line}")
    return status

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
