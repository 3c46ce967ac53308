#!/usr/bin/env python3
"""Judge the runs of certificates in archives of `coordinator pack`, with the standard library and no code of the emulator.

    python -I check_histories.py ARCHIVE..

Judged anew: the hash of every stored history, that its hops follow links and that stopped places send nothing, the messages
that each run delivers, levels of which the archive has every set, the counterexample, and the verdict. check_cuts.py judges
digests, scenario, network, fault-free paths, and levels that paths decide. From the archive, and named: facts about the
collective, claims that runs violate, why runs decide nothing, deliveries of collectives that fold. Nothing is executed.
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
from itertools import islice
from math import comb

FORMAT, MOST_BYTES, MOST_ROWS, STORED = 1, 256 << 20, 2_000_000, 10
FILES = {f"{name}.json" for name in ("manifest", "certificate", "facts", "runs")}
FILES |= {f"{name}.csv" for name in ("nodes", "network", "journal", "faults", "runs")}
OUTCOMES = ("first", "duplicate", "relay", "lost", "corrupt", "control", "withheld", "report")
AGAIN = 2**14  # trees from here on: a collective that runs again, and control segments
STOPS = {"crash": "node", "hang": "node", "silent": "sender", "down": "link"}
Hop = namedtuple("Hop", "step sender port receiver origin target tree segment bytes outcome")

def rows(data):
    """The rows of a table, without its heading."""
    found = list(islice(csv.reader(io.StringIO(data.decode())), MOST_ROWS + 2))
    if len(found) > MOST_ROWS + 1:
        raise ValueError(f"a table has more than {MOST_ROWS} rows")
    return found[1:]

def hop_of(row):
    return Hop(*map(int, row[:9]), row[9])

def journal_hash(hops):
    """The digest of a journal, whose rows are sorted."""
    digest = hashlib.blake2b(digest_size=16)
    for hop in sorted(hops, key=lambda hop: (*hop[:3], *hop[4:8], OUTCOMES.index(hop.outcome), hop.bytes)):
        numbers = *hop[:2], *hop[3:6], hop.segment, hop.bytes, hop.tree, hop.port, OUTCOMES.index(hop.outcome)
        digest.update(struct.pack("<8ihb", *numbers))
    return digest.hexdigest()

class Archive:
    """The files of an archive, and what follows from them."""
    def __init__(self, path):
        with zipfile.ZipFile(path) as archive:
            entries = {entry.filename: entry for entry in archive.infolist()}
            if set(entries) != FILES or len(entries) != len(archive.infolist()):
                raise ValueError(f"it is no certificate: expected the files {', '.join(sorted(FILES))}, each once")
            if sum(entry.file_size for entry in entries.values()) > MOST_BYTES:
                raise ValueError(f"it has more than {MOST_BYTES} bytes")
            files = {name: archive.open(entry).read(entry.file_size + 1) for name, entry in entries.items()}
        manifest, self.data, self.facts, stored = (
            json.loads(files[f"{name}.json"]) for name in ("manifest", "certificate", "facts", "runs"))
        if manifest["format"] != FORMAT:
            raise ValueError(f"version {manifest['version']} wrote format {manifest['format']}; this is for {FORMAT}")
        self.wrong = [f"{name}: its digest is not the one in manifest.json" for name, data in sorted(files.items())
                      if name != "manifest.json" and hashlib.sha256(data).hexdigest() != manifest["sha256"].get(name)]
        nodes, links, journal, runs = (rows(files[f"{name}.csv"]) for name in ("nodes", "network", "journal", "runs"))
        self.order, self.labels = len(nodes), [label for _, label, _, _ in nodes]
        self.data_ranks = [rank for rank, (*_, switch, _) in enumerate(nodes) if switch == "0"]
        self.ends = {(int(a), int(p)): int(b) for a, p, b, _ in links}
        self.places = {label: rank for rank, label in enumerate(self.labels)}
        for (one, _), other in self.ends.items():
            self.places[f"{self.labels[one]}~{self.labels[other]}"] = min(one, other), max(one, other)
        self.faulty, broken = set(self.facts["faulty"]), set(map(tuple, self.facts["broken"]))
        spared = self.faulty | ({self.facts["source"]} if self.facts["rooted"] else set())
        self.may_fail = (set(range(self.order)) | {place for place in self.places.values() if isinstance(place, tuple)})
        self.may_fail -= spared | broken
        self.runs = [run | {"hops": []} for run in stored["runs"]]
        self.whole = set(stored["whole"])
        for row in runs:
            self.runs[int(row[0])]["hops"].append(hop_of(row[1:]))
        self.due = defaultdict(set)
        for hop in map(hop_of, journal):
            if hop.tree < AGAIN:
                for receiver in self.data_ranks if hop.target < 0 else [hop.target]:
                    if receiver != hop.origin:
                        self.due[hop.origin, receiver].add((hop.origin, hop.target, hop.segment))
    def fault(self, spec):
        """Kind, place, first and last step, argument and interval of a fault, such as crash:4231@2 or loss:A~B:0.5@1-3."""
        match = re.fullmatch(r"([a-z-]+):(.+)@([^@]*)", spec)
        where = match[2] if match else ""
        argument = "" if where in self.places else where.rpartition(":")[2]
        place = self.places.get(where.removesuffix(f":{argument}"))
        if place is None:
            raise ValueError(f"the place of {spec[:80]!r} is not in the network")
        first, _, last = match[3].partition("-")
        steps = int(first) if first.isdecimal() else None, int(last) if last.isdecimal() else 2**62
        return match[1], place, *steps, (argument, match[3])
    def missing(self, run):
        """The healthy ranks that miss a message in a run: some piece has no majority of intact copies."""
        failing = self.faulty | {place for _, place, *_ in map(self.fault, run["faults"]) if isinstance(place, int)}
        votes = defaultdict(dict)
        for hop in sorted(run["hops"]):
            if hop.outcome in ("first", "duplicate", "corrupt") and hop.target in (-1, hop.receiver) and hop.tree < AGAIN:
                key = hop.receiver, (hop.origin, hop.target, hop.segment)
                votes[key].setdefault(hop.tree, hop.outcome != "corrupt")
        right = {key for key, cast in votes.items() if sum(cast.values()) * 2 > len(cast)}
        return {receiver for (origin, receiver), pieces in self.due.items()
                if not failing & {origin, receiver} and not all((receiver, piece) in right for piece in pieces)}
    def impossible(self, run):
        """The first hop of a run that no link joins, or that a stopped place sends or receives; or None."""
        stops = [fault for fault in map(self.fault, run["faults"]) if fault[0] in STOPS and fault[2] is not None]
        for hop in run["hops"]:
            if hop.outcome in ("report", "withheld"):
                continue
            if self.ends.get((hop.sender, hop.port)) != hop.receiver:
                return hop
            for kind, place, first, last, _ in stops if self.facts["in_steps"] else ():
                met = {"node": place in (hop.sender, hop.receiver), "sender": place == hop.sender,
                       "link": place == (min(hop.sender, hop.receiver), max(hop.sender, hop.receiver))}[STOPS[kind]]
                may_be_lost = place != hop.sender or kind == "silent"
                if first <= hop.step <= last and met and (hop.outcome != "lost" or not may_be_lost):
                    return hop
        return None

def sets_of(archive, level):
    """The number of sets of a level, and the numbers of its kinds."""
    body, _, when = level.partition("@")
    parts = body.split(";") if level != "as they are" else []
    words = [re.fullmatch(r"([a-z-]+)=(\d{1,6})(:[^;]+)?", word) for word in parts]
    if not all(words):
        raise ValueError(f"level {level[:60]!r} cannot be read")
    names = {"nodes": "crash", "links": "down"}
    counts = Counter()
    links = {place for place in archive.may_fail if isinstance(place, tuple)}
    free, sets = {True: len(links), False: len(archive.may_fail) - len(links)}, 1
    for kind, number, argument in ((names.get(word[1], word[1]), int(word[2]), (word[3] or ":")[1:]) for word in words):
        on_links = archive.facts["kinds"][kind]
        counts[kind, (argument, when or "1")] += number
        sets *= comb(max(0, free[on_links]), number)
        free[on_links] -= number
    return sets, +counts

def kinds_of(archive, specs):
    faults = list(map(archive.fault, specs))
    if len({place for _, place, *_ in faults}) < len(faults) or not {place for _, place, *_ in faults} <= archive.may_fail:
        return None
    return Counter((kind, when) for kind, *_, when in faults)

def counterexample(archive, found, missing):
    """The contradictions in a counterexample."""
    run = next((run for run in archive.runs if run["faults"] == found["faults"]), None)
    levels = [sets_of(archive, level["faults"])[1] for level in archive.data["levels"]]
    if run is None or kinds_of(archive, found["faults"]) not in levels:
        return ["counterexample: its faults are not a set of any level that the archive has a run of"]
    if sorted(archive.labels[rank] for rank in missing(run)) != sorted(found["unserved"]):
        return [f"counterexample: its run leaves other nodes unserved than {', '.join(found['unserved'])[:80]}"]
    proves = found["unserved"] or (run["violated"] and archive.data["method"] == "runs")
    idle = "counterexample: its run decides nothing, or serves all nodes and violates no claim"
    return [] if proves and not run["undecided"] else [idle]

def judge(archive):
    """The contradictions, the parts that are not judged, and the parts that are taken from the archive."""
    data, facts, wrong, unjudged, refuted = archive.data, archive.facts, archive.wrong, [], []
    by_runs, folds = data["method"] == "runs", not facts["deliveries_judged"]
    taken = ["facts about the collective", *(["deliveries"] if folds else [])]
    def missing(run):
        return set(run["unserved"]) if folds else archive.missing(run)
    def under(name, specs, digest):
        run = next((run for run in archive.runs if run["faults"] == specs), None)
        found = run and journal_hash(run["hops"])
        if found != digest:
            wrong.append(f"{name}: the history under {', '.join(specs)[:80] or 'no further faults'} is not {digest[:40]}")
    for run in archive.runs:
        name = ", ".join(run["faults"])[:80] or "no further faults"
        if hop := archive.impossible(run):
            wrong.append(f"the run under {name} has an impossible hop: {', '.join(map(str, hop))}")
        if not folds and set(run["unserved"]) != archive.missing(run):
            wrong.append(f"the run under {name} leaves ranks {sorted(archive.missing(run))} unserved, not {run['unserved']}")
    for level in data["levels"]:
        name, (least, most), sets = level["faults"], level["survived"], level["sets"]
        expected, counts = sets_of(archive, name)
        if sets != expected or not 0 <= least <= most <= sets:
            wrong.append(f"{name}: it has {expected} sets, and not {sets}, of which {least} to {most} are survived")
        runs = {frozenset(run["faults"]): run for run in archive.runs if kinds_of(archive, run["faults"]) == counts}
        for history in level["histories"][:STORED]:
            under(name, history["faults"], history["journal_hash"])
            if kinds_of(archive, history["faults"]) != counts:
                wrong.append(f"{name}: {', '.join(history['faults'])[:80]} is not one of its sets")
        if name not in archive.whole:
            unjudged += [f"{name}: the sets whose runs are not in the archive"] if by_runs and len(runs) < sets else []
        elif len(runs) != sets:
            wrong.append(f"{name}: the archive has {len(runs)} of its {sets} sets")
        else:
            lost = sum(len(missing(run)) for run in runs.values())
            survived = sum(not run["undecided"] and not missing(run) for run in runs.values())
            if not least <= survived <= most or level["lost"] not in (None, lost):
                wrong.append(f"{name}: {survived} sets are survived, and {lost} messages are lost in all")
        if by_runs and least == sets and not level["undecided"] and any(run["undecided"] for run in runs.values()):
            wrong.append(f"{name}: a run decides nothing, and the certificate says that all do")
        decided = [run for run in runs.values() if not run["undecided"]]
        # A set whose run decides nothing is not survived, and does not fail.
        fails = most < sets and not (by_runs and level["undecided"])
        refuted += [name] if fails or any(by_runs and (missing(run) or run["violated"]) for run in decided) else []
        taken += ["claims that runs violate", "why runs decide nothing"] if by_runs else []
    found = data["counterexample"]
    wrong += counterexample(archive, found, missing) if found is not None else []
    if "different" in data:
        under("different", data["different"]["faults"], data["different"]["memory"])
        equal = data["different"]["memory"] == data["different"]["driver"]
        wrong += ["different: both histories are equal"] if equal else []
        unjudged.append("the history on the other driver")
    shown = found is not None or "different" in data
    whole = all(level["survived"][0] == level["sets"] and not level["undecided"] for level in data["levels"])
    wrong += [f"there is no counterexample, and some sets fail: {refuted[0]}"] if refuted and not shown else []
    verdict = "violated" if shown or refuted else "holds" if whole else "undecided"
    wrong += [f"the verdict is {verdict}, and not {data['verdict']}"] if verdict != data["verdict"] else []
    return wrong, unjudged + ([] if by_runs else ["the argument by cuts"]), taken

def main(arguments, status=0):
    for path in arguments:
        try:
            archive = Archive(path)
            wrong, unjudged, taken = judge(archive)
            taken = ", ".join(sorted(set(taken)))
            last = f"{'wrong' if wrong else 'right'}: {archive.data['verdict']}; from the archive: {taken}"
        except Exception as error:  # an archive may hold anything
            wrong, unjudged, last = [], [], f"unreadable: {type(error).__name__}: {error}"[:300]
        status = max(status, 1 if wrong else 3 if unjudged else 2 if last.startswith("unreadable") else 0)
        for line in [*wrong[:50], f"not judged: {'; '.join(unjudged[:5])}" if unjudged and not wrong else last]:
            print(f"{path}: {line}")
    return status

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
