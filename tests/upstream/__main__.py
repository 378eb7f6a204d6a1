"""``python -m tests.upstream SOURCES [FILE...]``: which of PyTorch's own tests pass, held against torch itself.

    python -m tests.upstream SOURCES --fetch                     brings the sources (apt, Debian's source package)
    python -m tests.upstream SOURCES test_nn.py dynamo/*.py      runs samples of files and prints the table
    python -m tests.upstream SOURCES test_nn.py --sample 0       all tests of a file
    python -m tests.upstream SOURCES test_nn.py --again          only what failed when it ran last
    python -m tests.upstream SOURCES test_nn.py --only '*conv*'  only these, whether in the sample or not
    python -m tests.upstream SOURCES --table [--causes 20]       what is recorded; why what fails fails
    python -m tests.upstream SOURCES test_nn.py --show '*conv*'  the messages of failures

A test counts if torch passes it, and no rule of uncounted.txt names it.  torch's outcomes stay in SOURCES/judged, ours
in --out.  --judge names a Python that has torch.
"""
from __future__ import annotations

import argparse
import collections
import concurrent.futures
import contextlib
import fnmatch
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys

from .worker import sampled

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1]
CHUNK = 150  # seconds after which a process starts no further test


def fetch(sources: pathlib.Path):
    """Debian's source package of PyTorch; of it what the tests need."""
    folder = sources / "apt"
    lists = folder / "lists"  # of apt alone: an update removes what it does not know
    (lists / "partial").mkdir(parents=True, exist_ok=True)
    (folder / "sources.list").write_text("deb-src [trusted=yes] http://deb.debian.org/debian trixie main\n")
    options = [f"-oDir::State::Lists={lists}", f"-oDir::Etc::SourceList={folder / 'sources.list'}",
               "-oDir::Etc::SourceParts=/dev/null"]
    subprocess.run(["apt-get", *options, "update"], check=True)
    subprocess.run(["apt-get", *options, "source", "--download-only", "pytorch"], cwd=folder, check=True)
    archive, = folder.glob("pytorch_*.orig.tar.xz")
    subprocess.run(["tar", "-xf", archive, "-C", sources, "--strip-components=1", "--wildcards", "*/test",
                    "*/torch/testing", "*/version.txt", "*/tools"], check=True)
    for name in ("test_linalg.py", "test_matmul_cuda.py"):  # later testing libraries derive from what they are given
        path = sources / "test" / name
        path.write_text(path.read_text().replace("super(self.__class__, self)", "super()"))


def rules() -> list:
    """[(what a rule looks at, the pattern of it, the reason)]: "test" or "error"."""
    lines = (line.strip() for line in (HERE / "uncounted.txt").read_text().splitlines())
    found = [re.fullmatch(r"(test|error) (.*?) : (.*)", line) for line in lines if line and line[0] != "#"]
    return [(m[1], re.compile(fnmatch.translate(m[2]) if m[1] == "test" else m[2]), m[3]) for m in found]


def uncounted(name: str, row: dict, among: list) -> str | None:
    """The reason for which a test does not count, if there is one.  Errors are asked about only where a test fails."""
    for kind, pattern, why in among:
        if pattern.match(name) if kind == "test" else row["outcome"] != "passed" and pattern.search(cause(row)):
            return why
    return None


def cause(row: dict) -> str:
    """The line of a failure's text that tells the error."""
    if "text" not in row:
        return row["outcome"]
    told = [line[2:].strip() for line in row["text"].splitlines() if line.startswith("E ")]
    errors = [line for line in told if re.match(r"[\w.]*(Error|Exception|AbsentName|Failed|Break|Warning)\b", line)]
    return ((errors or told or row["text"].strip().splitlines()[-1:] or ["?"])[0])[:400]


class File:
    """A file of tests with what both sides made of it."""

    def __init__(self, name: str, sample: int, options):
        self.name, self.sample, self.options, key = name, sample or None, options, name.replace("/", "__")
        self.ours, self.judge = options.out / f"{key}.jsonl", options.sources / "judged" / f"{key}.jsonl"

    @staticmethod
    def lines(path: pathlib.Path) -> list:
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def rows(self, path: pathlib.Path) -> dict:
        """{test: its last row}; what began and did not end has the outcome "died"."""
        found = {}
        for row in self.lines(path):
            if "id" in row and ("outcome" in row or row["id"] not in found):
                found[row["id"]] = {"outcome": "died", **row}
        return found

    def process(self, side: str, **asked):
        """Processes one after the other, until each test that is asked for has run."""
        path, python = (self.ours, sys.executable) if side == "ours" else (self.judge, self.options.judge)
        path.parent.mkdir(parents=True, exist_ok=True)
        command = [python, "-m", "tests.upstream.worker", side, self.options.sources, self.name, path]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
        known = -1
        asked.update(seconds=CHUNK, limit=self.options.limit)
        while known < len(before := self.rows(path)):
            known = len(before)
            with path.with_suffix(f".{side}.log").open("w") as log, contextlib.suppress(subprocess.TimeoutExpired):
                subprocess.run(command, cwd=ROOT, env=environment, input=json.dumps(asked).encode(), stdout=log,
                               stderr=log, timeout=CHUNK + 6 * self.options.limit)  # hung beyond signals: "died"
            if self.lines(path) and "finished" in self.lines(path)[-1]:
                return
        print(f"{self.name}: {side} did not finish, see {path.with_suffix(f'.{side}.log')}", file=sys.stderr)

    def is_judged(self) -> bool:
        done = [row["finished"] for row in self.lines(self.judge) if "finished" in row]
        return any(sample is None or self.sample is not None and sample >= self.sample for sample in done)

    def run(self):
        """Both sides: torch where its outcomes are not known, and the project."""
        only, judged = self.options.only, self.options.judge
        if judged and only:
            self.process("judge", only=only)
        elif judged and not self.is_judged():
            self.process("judge", sample=self.sample)
        kept = [line for line in self.lines(self.ours) if "id" in line and not (
            fnmatch.fnmatch(line["id"], only) if only else line.get("outcome") != "passed")]
        if not only and not self.options.again:
            kept = []
        self.options.out.mkdir(parents=True, exist_ok=True)
        self.ours.write_text("".join(json.dumps(line) + "\n" for line in kept))
        ids = None if only else sorted(sampled(self.rows(self.judge), self.sample)) or None
        self.process("ours", only=only, ids=ids, sample=self.sample)

    def unloaded(self) -> str | None:
        """Why the file does not load here."""
        texts = [line["unloaded"] for line in self.lines(self.ours) if "unloaded" in line]
        return cause({"text": texts[-1]}) if texts else None

    def compared(self) -> dict:
        """{test: our row} of the sample's tests that torch passes; of all that ran, if torch was not asked."""
        judged, ours = self.rows(self.judge), self.rows(self.ours)
        absent = {"outcome": "not collected"}
        if not judged:
            return {name: row for name, row in ours.items() if row["outcome"] in ("passed", "failed", "died")}
        return {name: ours.get(name, absent) for name in sorted(sampled(judged, self.sample))
                if judged[name]["outcome"] == "passed"}


def listed(patterns: list, sources: pathlib.Path) -> dict:
    """{file: size of its sample} of those in files.txt, or of the given ones."""
    lines = (line.split() for line in (HERE / "files.txt").read_text().splitlines() if line[0] != "#")
    sizes = {name: int(size) for size, *names in lines for name in names}
    if not patterns:
        return sizes
    known = [path.relative_to(sources / "test").as_posix() for path in sorted((sources / "test").rglob("test_*.py"))]
    return {name: sizes.get(name, 150) for pattern in patterns for name in fnmatch.filter(known, pattern)}


def good(rows: dict) -> int:
    return sum(row["outcome"] == "passed" for row in rows.values())


def shares(name: str, tally: dict) -> str:
    """A row of the table."""
    every, counted = (f"{tally[part] / max(1, tally[whole]):.1%}" for part, whole in (
        ("passed", "all"), ("right", "counted")))
    return f"| {name} | {tally['all']} | {tally['passed']} | {every} | {tally['counted']} | {counted} |"


def table(files: list, causes: int, show: str | None):
    """Prints the shares by file, with all that torch passes and with what counts; and failures by cause or whole."""
    among, total = rules(), collections.Counter()
    print("| file | torch passes | passed | share | counted | share |\n| --- | --- | --- | --- | --- | --- |")
    for file in files:
        if not file.ours.exists():
            continue
        found = file.compared()
        counted = {name: row for name, row in found.items() if not uncounted(f"{file.name}::{name}", row, among)}
        tally = collections.Counter(all=len(found), passed=good(found), counted=len(counted), right=good(counted))
        total += tally
        print(shares(f"{file.name}, does not load: {why}" if (why := file.unloaded()) else file.name, tally))
        why, example = collections.Counter(), {}
        for name, row in counted.items() if causes else ():
            if row["outcome"] != "passed":
                text = re.sub(r"0x[0-9a-f]+|\d+", "0", cause(row))[:230]
                why[text] += 1
                example.setdefault(text, name)
        for text, count in why.most_common(causes):
            print(f"    {count:4} {text} | {example[text]}")
        for name, row in file.rows(file.ours).items() if show else ():
            if row["outcome"] != "passed" and fnmatch.fnmatch(name, show):
                print(f"## {file.name}::{name}: {row['outcome']}\n{row.get('text', '')}")
    print(shares("all", total))


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.upstream", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", type=pathlib.Path)
    parser.add_argument("files", nargs="*", help="patterns of files below SOURCES/test; all of files.txt without them")
    parser.add_argument("--out", type=pathlib.Path, help="where our outcomes stay (SOURCES/ours)")
    parser.add_argument("--judge", help="a Python that has torch (this one, if it has)")
    parser.add_argument("--sample", type=int, help="tests of each file; 0: all")
    parser.add_argument("--only", help="a pattern of tests' names")
    parser.add_argument("--causes", type=int, default=0, help="how many causes to print for each file")
    parser.add_argument("--show", help="a pattern of tests whose failures are printed")
    parser.add_argument("--limit", type=int, default=60, help="seconds of processor time for a test")
    parser.add_argument("--jobs", type=int, default=1, help="files at once")
    for flag in ("fetch", "table", "again"):
        parser.add_argument(f"--{flag}", action="store_true")
    options = parser.parse_intermixed_args()
    options.sources = options.sources.resolve()
    options.out = (options.out or options.sources / "ours").resolve()
    if options.judge is None and importlib.util.find_spec("torch"):
        options.judge = sys.executable
    if options.fetch:
        return fetch(options.sources)
    sizes = listed(options.files, options.sources)
    files = [File(name, size if options.sample is None else options.sample, options) for name, size in sizes.items()]
    if not options.table and not options.show:
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            list(pool.map(File.run, files))
    table(files, options.causes, options.show)


if __name__ == "__main__":
    main()
