"""Programs of public repositories, unmodified, under PyTorch and under Rushlight: what they train, print and cost.

    python -m benchmarks.programs.run --list
    python -m benchmarks.programs.run --judge PYTHON --ours PYTHON [--only mnist,gat] [--again differs] [--time]
    [--twice] python -m benchmarks.programs.run --table [--json FILE]

``--judge`` and ``--ours`` name interpreters with the programs' libraries: the first has PyTorch, the second Rushlight,
started as RUSHLIGHT_AS_TORCH=1 starts it.  No program is part of this project.  ``recipes/*.toml`` say where each is
had, at which commit, and what is run of it:

    source = "owner/name"        a repository on GitHub, with commit, and paths of what is needed of it
    folder = "mnist"             where it runs
    command = "main.py ..."      or "-m module ...", "-c code ..."; before = [...] are commands that come first
    data = ["mnist@.."]          what data.py makes, and where
    set = [[file, old, new]]     numbers in a file, such as steps, that have no argument
    needs = ["torchvision"]      packages
    compare = ["losses", "parameters", "text"]
    text = "loss"                which lines have numbers to compare; ignore = [...] is taken out of them
    ranks = 2                    processes, started by torch.distributed.run; or the program spawns its own
    devices = 2                  of such programs: GPUs that are pretended (``devices.py``), 0 for none
    draw = false                 the judge's random numbers are its own
    tolerance = 1e-3             relative; level = 0.1: further apart is "differs", between is "level"

The judge's random numbers come from Rushlight's stream (``streams.py``), so that all of a run can be compared; for its
time it runs once more without.  Results stay in ``--folder`` until ``--again`` asks for them.  ``--mirror FOLDER`` has
repositories as FOLDER/owner+name/repo; else they come from GitHub.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import pathlib
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import time
import tomllib

from benchmarks import results

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?(?![\w])")
QUIET = {
    "PYTHONHASHSEED": "0",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "RUSHLIGHT_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "MPLBACKEND": "Agg",
    "WANDB_MODE": "disabled",
    "CUDA_VISIBLE_DEVICES": "",
    "PYTHONUNBUFFERED": "1",
    "COLUMNS": "100",
}


def recipes(only=None):
    """Name -> recipe."""
    found = {}
    for path in sorted((HERE / "recipes").glob("*.toml")):
        if only is None or path.stem in only:
            found[path.stem] = {
                "folder": ".",
                "data": [],
                "set": [],
                "needs": [],
                "before": [],
                "compare": ["losses", "parameters"],
                "text": "",
                "ignore": [],
                "tolerance": 1e-3,
                "level": 0.0,
                "seconds": 300,
                "environment": {},
                **tomllib.loads(path.read_text()),
            }
    return found


def fetch(recipe, folder, mirror):
    """The repository at its commit, as a folder of files."""
    if "source" not in recipe:
        return None
    part = "-".join(recipe.get("paths", [])).replace("/", "-")
    place = folder / "sources" / f"{recipe['source'].replace('/', '+')}@{recipe['commit'][:12]}{part}"
    if place.exists():
        return place
    git = mirror and next(
        (
            p
            for p in (mirror / recipe["source"].replace("/", "+") / n for n in ("repo", "repo/.git"))
            if (p / "HEAD").exists()
        ),
        None,
    )
    if not git:
        git = folder / "git" / recipe["source"].replace("/", "+")
        if not git.exists():
            subprocess.run(["git", "clone", "--bare", f"https://github.com/{recipe['source']}", str(git)], check=True)
    part = place.with_name(place.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    archive = subprocess.run(
        ["git", f"--git-dir={git}", "archive", recipe["commit"], *recipe.get("paths", [])],
        check=True,
        capture_output=True,
    ).stdout
    subprocess.run(["tar", "x", "-C", str(part)], input=archive, check=True)
    part.rename(place)
    return place


def prepared(name, recipe, kind, folder, options):
    """A fresh folder for one run."""
    work = folder / "work" / name / kind
    shutil.rmtree(work, ignore_errors=True)
    source = fetch(recipe, folder, options.mirror)
    if source:
        shutil.copytree(source, work, symlinks=True)
    place = work / recipe["folder"]
    place.mkdir(parents=True, exist_ok=True)
    for file, old, new in recipe["set"]:
        text = (place / file).read_text()
        if old not in text:
            raise SystemExit(f"{name}: {file} has no {old!r}")
        (place / file).write_text(text.replace(old, new))
    for made in recipe["data"]:
        subprocess.run([sys.executable, str(HERE / "data.py"), made, str(place)], check=True)
    return place


def started(command, place, environment, seconds, output):
    """(exit status, processor seconds with children, wall seconds) of one process."""
    begun, before = time.time(), resource.getrusage(resource.RUSAGE_CHILDREN)
    with open(output, "w") as out:
        process = subprocess.Popen(
            command,
            cwd=place,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            status = "late"
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return status, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, time.time() - begun


def run(name, recipe, kind, folder, options):
    """What one run gave: status, processor seconds, record and text."""
    try:
        place = prepared(name, recipe, kind, folder, options)
    except (OSError, subprocess.CalledProcessError) as error:
        return {
            "status": "not prepared",
            "processor": 0,
            "wall": 0,
            "losses": [],
            "parameters": [],
            "text": f"{type(error).__name__}: {error}",
        }
    python = options.ours if kind == "ours" else options.judge
    environment = {
        **os.environ,
        **QUIET,
        **recipe["environment"],
        "RUSHLIGHT_CACHE": str(folder / "cache"),
        "RUSHLIGHT_AS_TORCH": "1" if kind == "ours" else "0",
    }
    environment["PYTHONPATH"] = os.pathsep.join(str((place / p).resolve()) for p in recipe.get("path", []))
    record, output = place / ".record.json", folder / "work" / name / f"{kind}.txt"
    given = ["--draw", str(ROOT)] if kind == "judge" and recipe.get("draw", True) else []
    given += ["--devices", str(recipe["devices"])] if "devices" in recipe else []
    launcher = []
    if "ranks" in recipe:
        launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={recipe['ranks']}"]
    for number, command in enumerate([*recipe["before"], recipe["command"]]):
        words = shlex.split(command)
        status, processor, wall = started(
            [python, *launcher, str(HERE / "process.py"), str(record), *given, *words],
            place,
            environment,
            recipe["seconds"],
            output,
        )
        if status:
            break
    found = {"losses": [], "parameters": []}
    for path in sorted(place.glob(".record.json*")):
        for key, value in json.loads(path.read_text()).items():
            found[key] += value
    return {
        "status": status,
        "processor": round(processor, 2),
        "wall": round(wall, 2),
        **found,
        "text": output.read_text(errors="replace")[-400_000:],
    }


def numbers(recipe, text):
    lines = [line for line in text.replace("\r", "\n").splitlines() if re.search(recipe["text"], line)]
    for unwanted in recipe["ignore"]:
        lines = [re.sub(unwanted, "", line) for line in lines]
    return [float(n) for line in lines for n in NUMBER.findall(line)]


def values(recipe, result):
    """The numbers to compare, by kind; a list of parameters is compared by its norm."""
    found = {}
    if "losses" in recipe["compare"]:
        found["losses"] = [(v, abs(v)) for v in result["losses"]]
    if "parameters" in recipe["compare"]:
        # optimizers may step in the order of a set: what they leave is compared by size
        several = len(result["parameters"]) > 1
        columns = ([(p[k], p["norm"]) for p in result["parameters"]] for k in ("count", "sum", "norm"))
        found["parameters"] = [pair for column in columns for pair in (sorted(column) if several else column)]
    if "text" in recipe["compare"]:
        found["text"] = [(v, abs(v)) for v in numbers(recipe, result["text"])]
    return found


def judged(recipe, theirs, ours):
    """("equal", "level" or "differs", the largest relative difference, what was compared)."""
    worst, compared = 0.0, {}
    mine, judge = values(recipe, ours), values(recipe, theirs)
    for kind, wanted in judge.items():
        seen = mine[kind]
        compared[kind] = len(wanted)
        if len(seen) != len(wanted):
            return "differs", math.inf, {**compared, kind: f"{len(seen)} of {len(wanted)}"}
        for (a, _), (b, size) in zip(seen, wanted):
            if a != b and not (math.isnan(a) and math.isnan(b)):
                gap = abs(a - b) / (size + recipe.get("unit", 1e-3))
                worst = max(worst, math.inf if math.isnan(gap) else gap)
    if not any(compared.values()):
        return "differs", math.inf, {"nothing": 0}
    return (
        "equal" if worst <= recipe["tolerance"] else "level" if worst <= recipe["level"] else "differs",
        worst,
        compared,
    )


def outcome(name, recipe, folder):
    """A line of the table from what is recorded, None where a run is missing."""
    runs = {kind: saved(folder, name, kind) for kind in ("judge", "plain", "ours")}
    if runs["judge"] is None or runs["ours"] is None:
        return None
    line = {"name": name, "source": recipe.get("source", ", ".join(recipe["needs"])), "ours": runs["ours"]["processor"]}
    if runs["plain"]:
        line.update(
            torch=runs["plain"]["processor"],
            ratio=round(runs["ours"]["processor"] / max(runs["plain"]["processor"], 1e-9), 2),
        )
    if runs["judge"]["status"]:
        return {**line, "state": "judge stops", "why": complaint(runs["judge"]["text"])}
    if runs["ours"]["status"]:
        return {**line, "state": "stops", "why": complaint(runs["ours"]["text"])}
    state, worst, compared = judged(recipe, runs["judge"], runs["ours"])
    return {
        **line,
        "state": state,
        "difference": float(f"{worst:.2g}") if math.isfinite(worst) else str(worst),
        "compared": compared,
    }


def complaint(text):
    lines = [line for line in text.splitlines() if line.strip()]
    return next(
        (line for line in reversed(lines) if re.match(r"[\w.]*(Error|Exception|Exit|Interrupt)\b", line)),
        lines[-1] if lines else "",
    )[:200]


def identity(recipe, kind):
    return hashlib.sha256(json.dumps([recipe, kind], sort_keys=True).encode()).hexdigest()[:16]


def saved(folder, name, kind):
    path = folder / "results" / f"{name}.{kind}.json"
    return json.loads(path.read_text()) if path.exists() else None


def show(line):
    print(
        f"{line['name']:34}{line['state']:12}{line.get('ratio', ''):>6}  {line.get('ours', ''):>7}  "
        f"{line.get('why') or str(line.get('difference')) + ' ' + json.dumps(line.get('compared'))}",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--judge")
    parser.add_argument("--ours")
    parser.add_argument("--only", type=lambda text: set(text.split(",")))
    parser.add_argument("--again", default="", help="states whose runs are repeated; all: every run of ours")
    parser.add_argument("--twice", action="store_true", help="ours runs twice: the second has kernels on disk")
    parser.add_argument(
        "--time", action="store_true", help="the judge runs once more, by itself, for its processor time"
    )
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path.home() / ".cache" / "rushlight-programs")
    parser.add_argument("--mirror", type=pathlib.Path)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    options.folder = options.folder.resolve()
    (options.folder / "results").mkdir(parents=True, exist_ok=True)
    lines = []
    for name, recipe in recipes(options.only).items():
        if options.list:
            print(f"{name:34}{recipe.get('source', ''):40}{recipe['command']}")
            continue
        known = outcome(name, recipe, options.folder)
        for kind in () if options.table else ("judge", "plain", "ours") if options.time else ("judge", "ours"):
            result = saved(options.folder, name, kind)
            stale = result is None or result["identity"] != identity(recipe, kind)
            wanted = known and (kind == "ours" and options.again == "all" or known["state"] in options.again.split(","))
            if stale or wanted:
                for _ in range(2 if kind == "ours" and options.twice else 1):
                    result = {"identity": identity(recipe, kind), **run(name, recipe, kind, options.folder, options)}
                (options.folder / "results" / f"{name}.{kind}.json").write_text(json.dumps(result))
        line = outcome(name, recipe, options.folder)
        if line:
            lines.append(line)
            show(line)
    if options.list:
        return
    states = [line["state"] for line in lines]
    ratios = [line["ratio"] for line in lines if line["state"] in ("equal", "level") and "ratio" in line]
    summary = {state: states.count(state) for state in sorted(set(states))}
    middle = round(math.exp(sum(map(math.log, ratios)) / len(ratios)), 3) if ratios else None
    print(f"{len(lines)} programs: {summary}; processor time over PyTorch's, geometric mean: {middle}")
    if options.json:
        options.json.write_text(
            json.dumps(
                {
                    "processor": results.processor(),
                    "date": time.strftime("%Y-%m-%d"),
                    "mean ratio": middle,
                    "states": summary,
                    "programs": lines,
                },
                indent=1,
            )
            + "\n"
        )


if __name__ == "__main__":
    main()
