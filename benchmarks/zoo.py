"""Models of timm, transformers and torch-geometric, and plain programs, unmodified: outputs, gradients, an optimizer
step, saving and loading beside PyTorch's.

    python -m benchmarks.zoo --judge PYTHON --ours PYTHON [--suite images] [--models resnet18,Llama] [--generate]
                             [--compiled] [--again failed]

``--judge`` and ``--ours`` name the interpreters (the first has torch; both need the libraries).  Under PyTorch each
model is computed once: results stay in ``--folder``, and so do ours, one JSON line a model, until ``--again`` asks for
what ``failed`` or for ``all``.  ``--compiled``: outputs and gradients of ``torch.compile(model)``, and in how many
graphs it is captured.  ``--generate``: words of language models too.  ``--double``: in float64, those that differ in
float32: where rounding is magnified, only float64 tells it from a mistake.  Prints a line a model, then the failures by
cause; ``--table`` prints what is recorded.
"""
from __future__ import annotations

import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import threading

HERE = pathlib.Path(__file__).resolve().parent
if sys.path and os.path.abspath(sys.path[0]) == str(HERE):
    sys.path[0] = str(HERE.parent)  # other benchmarks beside this one have names that libraries import
from benchmarks.zoos import SUITES, suite  # noqa: E402

THREADS = {"OMP_NUM_THREADS": "1", "RUSHLIGHT_NUM_THREADS": "1"}  # on a busy machine threads wait for each other
BATCH = 8  # models that share a process, and so its start


class Record:
    """Lines of results by model, kept in a file."""

    def __init__(self, path):
        self.path = path
        self.lines = {}
        if path.exists():
            for line in path.read_text().splitlines():
                found = json.loads(line)
                self.lines[found["name"]] = found

    def add(self, line):
        self.lines[line["name"]] = line
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")


def batch(command, path, names, seconds, record, show):
    """Runs models in one process; returns those that it did not reach, because one took the process with it."""
    environment = {**os.environ, "PYTHONPATH": path, "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1",
                   **THREADS}
    process = subprocess.Popen([*command, "--models", ",".join(names)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, env=environment)
    complaints = collections.deque(maxlen=40)
    threading.Thread(target=lambda: complaints.extend(process.stderr), daemon=True).start()
    current, left = None, list(names)
    watch = threading.Timer(seconds * 1.5 + 60, process.kill)
    watch.start()
    for line in process.stdout:
        if not line.startswith('{"'):
            continue
        found = json.loads(line)
        watch.cancel()
        watch = threading.Timer(seconds * 1.5 + 60, process.kill)
        watch.start()
        if "started" in found:
            current = found["started"]
            continue
        record.add(found)
        show(found)
        left.remove(found["name"])
        current = None
    code = process.wait()
    watch.cancel()
    if left:
        lost = current or left[0]
        left.remove(lost)
        record.add({"name": lost, "ok": False, "error": f"the process ended with {code}: {''.join(complaints)[-300:]}"})
        show(record.lines[lost])
    return left


def cause(line):
    """Why a model failed, shortened; numbers and names of its own left out, so that models with one cause share it."""
    if line.get("error"):
        return re.sub(r"\s+", " ", line["error"])[:170]
    return re.sub(r" \S+: .*", "", line["wrong"][0])[:100] if line.get("wrong") else ""


def show(line):
    more = f"{line['graphs']} graphs " if "graphs" in line else ""
    text = f"equal {more}{line.get('seconds', '')}" if line["ok"] else f"{more}{line.get('error') or line['wrong'][0]}"
    print(f"{line['name']:36} {text[:200]}", flush=True)


def work(options, who, names, python, path, record):
    """What is not yet recorded is run, a batch a process."""
    command = [python, *(["-m", "rushlight"] if who == "ours" else []), str(HERE / "zoos" / "worker.py"), "--worker",
               who, "--folder", str(options.folder),
               "--seconds", str(options.seconds),
               *[f"--{flag}" for flag in ("compiled", "double", "generate") if getattr(options, flag)]]
    while names:
        now, names = names[:BATCH], names[BATCH:]
        names = batch(command, path, now, options.seconds, record, show if who == "ours" else lambda line: None) + names


def settled(record, double):
    """The lines of a record, where float64 decides over models that differ in float32."""
    return {n: {**line, "ok": True, "double": True} if line.get("wrong") and double.lines.get(n, {}).get("ok")
            else line for n, line in record.lines.items()}


def table(names, judged, captured, results, options):
    """How many models agree, by suite, and the causes of the rest."""
    for each in SUITES:
        own = [n for n in names if n in suite(each).NAMES and n in results]
        lines = [results[n] for n in own]
        if own:
            single = [n for n in own if captured.lines.get(n, {}).get("graphs") == 1]
            more = (f"; one graph {sum(line.get('graphs') == 1 for line in lines)}, of {len(single)} that PyTorch "
                    "captures in one "
                    f"{sum(results[n].get('graphs') == 1 and results[n]['ok'] for n in single)} are one and equal") if options.compiled else ""
            print(f"{each}: {sum(line['ok'] for line in lines)} of {len(own)} equal "
                  f"({sum('double' in line for line in lines)} in float64 only){more}")
    causes = collections.defaultdict(list)
    for n in names:
        for where, lines in (("PyTorch: ", judged.lines), ("", results)):
            if n in lines and not lines[n]["ok"]:
                causes[where + cause(lines[n])].append(n)
        if options.compiled and results.get(n, {}).get("breaks"):
            causes["break: " + results[n]["breaks"][0]].append(n)
    for text, failed in sorted(causes.items(), key=lambda item: -len(item[1])):
        print(f"{len(failed):3}  {text}\n     {' '.join(failed)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--judge", default=sys.executable)
    parser.add_argument("--ours", default=sys.executable)
    parser.add_argument("--judge-path", default="", help="PYTHONPATH of the first")
    parser.add_argument("--ours-path", default=str(HERE.parent))
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path.home() / ".cache" / "rushlight-zoo")
    parser.add_argument("--models", default="")
    parser.add_argument("--suite", choices=[*SUITES, "all"], default="all")
    for flag in ("compiled", "double", "generate", "table"):
        parser.add_argument(f"--{flag}", action="store_true")
    parser.add_argument("--only", choices=["judge", "ours"], help="one side alone")
    parser.add_argument("--again", choices=["failed", "all"], help="compute ours anew")
    parser.add_argument("--seconds", type=int, default=150, help="limit of a model")
    options = parser.parse_args()
    every = [n for each in SUITES if options.suite in (each, "all") for n in suite(each).NAMES]
    names = options.models.split(",") if options.models else every
    single, wide = options.folder / "results", options.folder / "results-double"
    options.folder = wide if options.double else single
    options.folder.mkdir(parents=True, exist_ok=True)
    judged, captured = Record(options.folder / "judge.jsonl"), Record(options.folder / "judge-compiled.jsonl")
    own = "ours-compiled.jsonl" if options.compiled else "ours.jsonl"
    record = Record(options.folder / own)
    if options.double and not options.models:
        differing = Record(single / own).lines
        names = [n for n in names if differing.get(n, {}).get("wrong")]
    if not options.table:
        if options.only != "ours":
            wanted = captured if options.compiled else judged
            work(options, "judge", [n for n in names if n not in wanted.lines or options.models], options.judge,
                 options.judge_path, wanted)
        todo = [n for n in names if judged.lines.get(n, {}).get("ok")
                and (n not in record.lines or options.again == "all" or options.models
                      or options.again == "failed" and not record.lines[n]["ok"])]
        if options.only != "judge":
            work(options, "ours", todo, options.ours, options.ours_path, record)
    table(names, judged, captured, settled(record, Record(wide / own)), options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
