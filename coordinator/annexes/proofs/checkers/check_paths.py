#!/usr/bin/env python3
"""Judge the claims about paths in archives of `coordinator pack`, with the standard library and no code of the emulator.

    python -I check_paths.py ARCHIVE..

The paths of messages are followed through the journal; the trees of the algorithm are not in the archive. check_run.py
judges everything else, the hops themselves included. Nothing in an archive is executed, and all sizes have bounds.
Exit status: 0 the numbers are right, 1 one is wrong, 2 the archive cannot be read.
"""

# fmt: off
import csv
import hashlib
import io
import json
import sys
import zipfile
from collections import Counter, defaultdict, namedtuple

FORMAT, MOST_BYTES, MOST_ROWS, SAMPLED_HOPS, SAMPLED_PATHS = 1, 256 << 20, 2_000_000, 40_000, 300_000
Arc = namedtuple("Arc", "root leaf tree segment step port parent child")

class Paths:
    """The hops of a run, each as an arc from a parent to a child as the root of the collective sees it."""
    def __init__(self, path):
        with zipfile.ZipFile(path) as archive:
            entries = {entry.filename: entry for entry in archive.infolist()}
            if sum(entry.file_size for entry in entries.values()) > MOST_BYTES or len(entries) != len(archive.infolist()):
                raise ValueError(f"it has more than {MOST_BYTES} bytes, or two files of one name")
            names = ("manifest.json", "run.json", "summary.json", "nodes.csv", "network.csv", "journal.csv")
            files = {name: archive.open(entries[name]).read(entries[name].file_size + 1) for name in names}
        manifest, self.run, self.summary = (json.loads(files[name]) for name in names[:3])
        if manifest["format"] != FORMAT:
            raise ValueError(f"version {manifest['version']} wrote format {manifest['format']}; this is for {FORMAT}")
        if any(hashlib.sha256(files[name]).hexdigest() != manifest["sha256"][name] for name in names[1:]):
            raise ValueError("a digest is not the one in manifest.json")
        nodes, links, journal = (rows(files[name]) for name in names[3:])
        self.order, self.labels = len(nodes), [label for _, label, _, _ in nodes]
        self.links = {(int(a), int(p)): (int(b), int(q)) for a, p, b, q in links}
        self.degree = 1 + max((port for _, port in self.links), default=-1)
        kind, self.arcs, self.parents = self.run["collective"], [], defaultdict(dict)
        self.personal = kind in ("scatter", "gather", "alltoall", "unicast")
        inwards = kind in ("gather", "reduce", "reduce-scatter")
        # Where every rank is a root, evenly spaced ones are followed.
        count = max(1, min(self.order, SAMPLED_HOPS * self.order // max(len(journal), 1)))
        roots = {index * self.order // count for index in range(count)} if self.run["many_roots"] else range(self.order)
        last = 2**14 if "agreement" in self.run["features"] else 2**15 - 256 if self.run["has_control"] else 2**31
        data = [row for row in journal if int(row[6]) < last and not (self.run["has_control"] and row[9] == "withheld")]
        for row in data if self.run["structure"] else ():
            step, sender, port, receiver, origin, target, tree, segment, _ = map(int, row[:9])
            arc = Arc(origin, target, tree, segment, step, port, sender, receiver)
            if inwards:  # a gather or a reduce runs every arc of its tree upwards
                there = self.links.get((sender, port), (-1, -1))[1]
                arc = Arc(target, origin, tree, segment, step, there, receiver, sender)
            ends = arc.root, arc.parent, arc.child, arc.leaf if self.personal else 0
            if arc.root in roots and all(0 <= rank < self.order for rank in ends):
                self.arcs.append(arc)
                above = self.parents[arc.root, tree]
                above[arc.child] = max(arc.parent, above.get(arc.child, 0))
        self.below = {(arc.root, arc.leaf, arc.tree, arc.port) for arc in self.arcs if arc.parent == arc.root}
    def ancestors(self, root, tree, rank):
        """The ranks above a rank in a tree: up to the root, to a rank without a parent, or round a cycle."""
        path = [self.parents[root, tree].get(rank)]
        while path[-1] not in (root, None) and len(path) < self.order:
            path.append(self.parents[root, tree].get(path[-1]))
        return path
    def distances(self, root):
        """The length of a shortest path from the root, by rank."""
        far, line = {root: 0}, [root]
        for rank in line:
            for other, _ in filter(None, (self.links.get((rank, port)) for port in range(self.degree))):
                if other not in far:
                    far[other] = far[rank] + 1
                    line.append(other)
        return far

def rows(data):
    """The rows of a table, without its heading."""
    found = [row for row, _ in zip(csv.reader(io.StringIO(data.decode())), range(MOST_ROWS + 2), strict=False)]
    if len(found) > MOST_ROWS + 1:
        raise ValueError(f"a table has more than {MOST_ROWS} rows")
    return found[1:]

def most(pairs):
    """The most different values of one key."""
    return max(Counter(key for key, _ in set(pairs)).values(), default=0)

def longest_detour(paths):
    """The most hops of a message beyond its distance; the number of ranks if it did not come from the root."""
    far = {root: paths.distances(root) for root in {arc.root for arc in paths.arcs}}
    if paths.personal:
        lengths = Counter((arc.root, arc.leaf, arc.tree, arc.segment) for arc in paths.arcs)
        return max(length - far[root][leaf] for (root, leaf, _, _), length in lengths.items())
    above = {(root, tree, rank): paths.ancestors(root, tree, rank) for root, tree in paths.parents for rank in
             paths.parents[root, tree]}
    return max(len(path) - far[root][rank] if path[-1] == root else paths.order for (root, _, rank), path in above.items())

def paths_per_inner_node(paths):
    """The most paths from one root to one rank, in different trees, through one other rank."""
    if paths.personal:
        return most(((arc.root, arc.leaf, arc.child), arc.tree) for arc in paths.arcs if arc.child != arc.leaf)
    # Of many paths, those to evenly spaced ranks are compared.
    trees = Counter(root for root, _ in paths.parents)
    passed = Counter((root, rank, above) for (root, tree), ranks in paths.parents.items()
                     for rank in sorted(ranks)[:: 1 + paths.order * trees[root] // SAMPLED_PATHS]
                     for above in paths.ancestors(root, tree, rank) if above not in (root, None))
    return max(passed.values(), default=0)

def subtree_sizes(paths):
    """The number of leaves behind each port of the root, each once for every tree."""
    sizes = Counter(port for *_, port in paths.below)
    return [sizes[port] for port in range(paths.degree)]

class StarPaths:
    """Paths on a star graph: the labels of nodes as their root sees them (Fragopoulou and Akl, TR 93-346)."""
    def __init__(self, paths):
        self.paths, self.ports = paths, defaultdict(set)
        self.symbols = [tuple(map(int, label.split(".") if "." in label else label)) for label in paths.labels]
        for root, leaf, _, port in paths.below:
            self.ports[self.relative(leaf, root)].add(port)
    def relative(self, rank, root):
        return tuple(self.symbols[root].index(symbol) + 1 for symbol in self.symbols[rank])
    @staticmethod
    def turn(label):
        """The rotation of symbols and positions 2 -> 3 -> .. -> n -> 2."""
        turned = tuple(symbol if symbol == 1 else (symbol - 1) % (len(label) - 1) + 2 for symbol in label)
        return turned[:1] + turned[-1:] + turned[1:-1]
    def period(self, label):
        """The number of nodes in the necklace of a node."""
        orbit = [self.turn(label)]
        while orbit[-1] != label:
            orbit.append(self.turn(orbit[-1]))
        return len(orbit)
    def is_displaced(self, label, own):
        length, lowest = self.period(label), min(own)
        after = {port % length for port in self.ports.get(self.turn(label), ())}
        return len({port % length for port in own}) != 1 or lowest >= length or after != {(lowest + 1) % length}
    def unrotated_arcs(self):
        behind, turned, subtrees = defaultdict(set), defaultdict(set), defaultdict(set)
        for root, leaf, tree, port in self.paths.below:
            subtrees[root, leaf, tree].add(port)
        for arc in self.paths.arcs:
            ends = self.relative(arc.parent, arc.root), self.relative(arc.child, arc.root)
            for port in subtrees[arc.root, arc.leaf, arc.tree]:
                behind[port].add(ends)
                turned[(port + 1) % self.paths.degree].add(tuple(map(self.turn, ends)))
        return sum(len(turned[port] - behind[port]) for port in range(self.paths.degree))

METRICS = {
    "longest_detour": longest_detour,
    "paths_per_inner_node": paths_per_inner_node,
    "trees_per_arc": lambda paths: most(((arc.root, arc.parent, arc.port), arc.tree) for arc in paths.arcs),
    "trees_per_link": lambda paths: most(((arc.root, *sorted(arc[6:])), arc.tree) for arc in paths.arcs),
    "same_type_per_step": lambda paths: most(((arc.root, arc.step, arc.port), arc.parent) for arc in paths.arcs),
    "segments_per_message": lambda paths: len({arc.segment for arc in paths.arcs}) // paths.run["messages"],
    "largest_subtree": lambda paths: max(subtree_sizes(paths)),
    "smallest_subtree": lambda paths: min(subtree_sizes(paths)),
    # Theorems 9 and 10 on the trees for scattering.
    "outside_own_substar": lambda paths: sum(
        own != {label.index(1) - 1} for label, own in StarPaths(paths).ports.items() if label[0] != 1),
    "off_displacement": lambda paths: sum(
        star.is_displaced(label, own) for star in [StarPaths(paths)] for label, own in star.ports.items()),
    "off_period": lambda paths: sum(len(own) * star.period(label) != len(label) - 1
                                    for star in [StarPaths(paths)] for label, own in star.ports.items()),
    "inner_home_nodes": lambda paths: sum(
        star.relative(rank, root)[0] == 1 for star in [StarPaths(paths)]
        for root, rank in {(arc.root, arc.parent) for arc in paths.arcs if arc.parent != arc.root}),
    "unrotated_arcs": lambda paths: StarPaths(paths).unrotated_arcs(),
}

def main(arguments):
    status = 0
    for path in arguments:
        try:
            paths = Paths(path)
            found = {name: METRICS[name](paths) for name in paths.run["structure"] if paths.arcs}
            stored = {name: paths.summary.get(name) for name in found}
        except Exception as error:  # an archive may hold anything
            print(f"{path}: unreadable: {type(error).__name__}: {error}"[:300])
            status = max(status, 2)
            continue
        for name, value in found.items():
            print(f"{path}: {name} is {value}{'' if stored[name] == value else f', not {stored[name]}'}")
        if not found:
            print(f"{path}: nothing is claimed about paths")
        status = 1 if found != stored else status
    return status

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
