"""Whole models compiled, beside the same uncompiled and beside torch's eager mode and torch.compile.

    python -m benchmarks.compile                                        all models, about an hour: torch.compile is slow to start
    python -m benchmarks.compile --models vit,t5-train --parts steps    step times alone
    python -m benchmarks.compile --models nanogpt,bert-train,vit-train --parts steps --autocast
    python -m benchmarks.compile --json new.json --reuse old.json       torch's start and memory as measured before on this machine

Step times are taken in turns in one process, with equal weights and inputs.  Start is from the start of a fresh process
to the end of its first step, with empty and then with filled caches; byte code is there in both, as an installer leaves
it.  Memory is what a step holds at its height beyond what is held between steps.  With one thread step times are
processor times, which a busy machine disturbs least.
"""
import argparse
import compileall
import ctypes
import json
import math
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

from .results import processor
from .stepping import CASES, SYSTEMS, Stepper

ROOT = pathlib.Path(__file__).resolve().parents[1]
PARTS = ("steps", "start", "memory")
PR_SET_CHILD_SUBREAPER = 36
# so that freed memory leaves the process
GIVE_BACK = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}


def caches(folder):
    """Environment that keeps what is compiled in a folder."""
    return {"RUSHLIGHT_CACHE": f"{folder}/rushlight", "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor"}


def adopt():
    """Makes this process the parent of those that its children leave behind, as torch.compile's workers are: what they
    took is counted."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER) failed")


def wait_for_all():
    """Waits until this process has no children."""
    while True:
        try:
            os.wait()
        except ChildProcessError:
            return


def fresh(case, system, threads, environment, *flags):
    """What a process of its own reports, and the processor seconds of it and of all that it started."""
    command = [sys.executable, "-m", "benchmarks.stepping", case, system, "--threads", str(threads), *flags]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([*command, "--began", str(time.monotonic())], capture_output=True, text=True, cwd=ROOT,
                          env={**os.environ, **environment})
    wait_for_all()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"{case} on {system} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1]) | {"cpu": after.ru_utime + after.ru_stime - before.ru_utime
                                                       - before.ru_stime}


def measure_start(case, system, threads, folder):
    """Seconds to the end of the first step, and processor seconds of it and of the processes it started: with empty
    caches, then with what that left."""
    found = {}
    for state in ("cold", "warm"):
        one = fresh(case, system, threads, caches(folder))
        found.update({state: one["start"], f"{state} cpu": one["cpu"]})
    return found


def measure_memory(case, system, threads, folder):
    return {"memory": fresh(case, system, threads, {**caches(folder), **GIVE_BACK}, "--memory")["memory"]}


def measure_steps(case, systems, threads, rounds, autocast):
    """Milliseconds of a step on each system in turn, {system: {"step": median, "least": ...}}; results that differ are
    an error."""
    clock = time.process_time if threads == 1 else time.perf_counter
    steppers = {system: Stepper(case, system, threads, autocast) for system in systems}
    first = next(iter(steppers.values())).model
    weights = {name: value.detach().numpy().copy() for name, value in first.state_dict().items()}
    results, times = {}, {system: [] for system in systems}
    for system, stepper in steppers.items():
        stepper.model.load_state_dict({name: stepper.library.tensor(value) for name, value in weights.items()})
        results[system] = stepper.step()
        stepper.step()
    check(case, results, autocast)
    for _ in range(rounds):
        for system, stepper in steppers.items():
            stepper.step()  # brings its memory back into the caches that the others have used
            began = clock()
            stepper.step()
            times[system].append(1e3 * (clock() - began))
    return {system: {"step": statistics.median(values), "least": min(values)} for system, values in times.items()}


def check(case, results, autocast):
    """All systems compute the same; random numbers and the rounding of 16-bit floats differ between libraries,
    so losses agree nearly."""
    expected = next(iter(results.values()))
    for system, result in results.items():
        if not math.isclose(result, expected, rel_tol=0.05 if CASES[case].random or autocast else 2e-3, abs_tol=0.5):
            raise SystemExit(f"{case}: {system} computes {result}, but {next(iter(results))} {expected}")


# --- the report -------------------------------------------------------------------------------------------------------
def ratio(row, a, b, what="step"):
    """How many times as much system ``a`` takes as ``b``; None where one was not measured."""
    if what in row.get(a, {}) and what in row.get(b, {}) and row[b][what]:
        return row[a][what] / row[b][what]
    return None


COLUMNS = (  # heading, system, what, digits
    ("torch ms", "torch", "step", 1), ("t.compile ms", "torch.compile", "step", 1),
    ("eager ms", "rushlight", "step", 1), ("compiled ms", "rushlight.compile", "step", 1),
    ("t.compile cold s", "torch.compile", "cold", 1), ("cold s", "rushlight.compile", "cold", 2),
    ("t.compile warm s", "torch.compile", "warm", 1), ("warm s", "rushlight.compile", "warm", 2),
    ("t.compile cold cpu s", "torch.compile", "cold cpu", 1), ("cold cpu s", "rushlight.compile", "cold cpu", 1),
    ("t.compile warm cpu s", "torch.compile", "warm cpu", 1), ("warm cpu s", "rushlight.compile", "warm cpu", 1),
    ("torch MB", "torch", "memory", 0), ("t.compile MB", "torch.compile", "memory", 0),
    ("eager MB", "rushlight", "memory", 0), ("MB", "rushlight.compile", "memory", 0))
RATIOS = (  # heading, system, beside, what
    ("/ torch", "rushlight.compile", "torch", "step"), ("/ t.compile", "rushlight.compile", "torch.compile", "step"),
    ("cold", "rushlight.compile", "torch.compile", "cold"), ("warm", "rushlight.compile", "torch.compile", "warm"),
    ("cold cpu", "rushlight.compile", "torch.compile", "cold cpu"),
    ("warm cpu", "rushlight.compile", "torch.compile", "warm cpu"),
    ("memory", "rushlight.compile", "torch.compile", "memory"))


def table(rows):
    """Markdown: a row for each model, and the geometric means of the ratios."""
    columns = [c for c in COLUMNS if any(c[2] in row.get(c[1], {}) for row in rows.values())]
    ratios = [r for r in RATIOS if any(ratio(row, *r[1:]) for row in rows.values())]
    lines = [["model", *(c[0] for c in columns), *(r[0] for r in ratios)], ["---"] * (1 + len(columns) + len(ratios))]
    for case, row in rows.items():
        cells = [f"{row[s][what]:.{digits}f}" if what in row.get(s, {}) else "" for _, s, what, digits in columns]
        found = [ratio(row, *r[1:]) for r in ratios]
        lines.append([case, *cells, *(f"{x:.2f}" if x else "" for x in found)])
    means = [statistics.geometric_mean([x for row in rows.values() if (x := ratio(row, *r[1:]))]) for r in ratios]
    lines.append(["geometric mean", *[""] * len(columns), *(f"{m:.2f}" for m in means)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def known(path):
    """Rows measured before, on this machine only."""
    if not path:
        return {}
    before = json.loads(pathlib.Path(path).read_text())
    if before["processor"] != processor():
        raise SystemExit(
            f"{path} was measured on {before['processor']}, this is {processor()}: measure again without --reuse")
    return before["rows"]


def measure(case, options, before, folder):
    """Everything asked for about one model."""
    row = {system: {} for system in options.systems}
    for system in options.systems:
        for part, what, run in (("start", "cold", measure_start), ("memory", "memory", measure_memory)):
            if part not in options.parts:
                continue
            reused = {k: v for k, v in before.get(system, {}).items() if k not in ("step", "least")}
            if system.startswith("torch") and what in reused:
                row[system].update(reused)
            else:
                row[system].update(run(case, system, options.threads, folder))
    if "steps" in options.parts:
        command = [sys.executable, "-m", "benchmarks.compile", "--only-steps", case, "--systems",
                   ",".join(options.systems), "--threads", str(options.threads), "--rounds", str(options.rounds),
                   *(["--autocast"] if options.autocast else [])]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env={**os.environ, **caches(folder)})
        if done.returncode:
            raise SystemExit(f"{case}: {done.stderr[-3000:]}")
        for system, found in json.loads(done.stdout.splitlines()[-1]).items():
            row[system].update(found)
    return row


def names(text):
    return text.split(",")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=names, default=list(CASES), help=f"of {','.join(CASES)}")
    parser.add_argument("--systems", type=names, default=list(SYSTEMS), help=f"of {','.join(SYSTEMS)}")
    parser.add_argument("--parts", type=names, default=list(PARTS), help=f"of {','.join(PARTS)}")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5, help="steps timed on each system")
    parser.add_argument("--autocast", action="store_true", help="steps (only) under autocast to bfloat16")
    parser.add_argument("--json", help="file for the figures; those of models measured before stay")
    parser.add_argument("--reuse", help="a file of figures from this machine: torch's start and memory come from it")
    parser.add_argument(
        "--caches", help="folder that keeps compiled code for later runs, when start isn't measured (default: a "
                         "temporary one)")
    parser.add_argument("--only-steps", metavar="MODEL", help="the step times of one model, here and now, as JSON")
    options = parser.parse_args()
    if options.only_steps:
        print(json.dumps(measure_steps(options.only_steps, options.systems, options.threads, options.rounds,
                                       options.autocast)))
        return
    if "start" in options.parts:
        for part in ("rushlight", "benchmarks"):
            compileall.compile_dir(ROOT / part, quiet=1)
    adopt()
    before, rows = known(options.reuse), {}
    for case in options.models:
        with tempfile.TemporaryDirectory() as folder:
            kept = options.caches if options.caches and "start" not in options.parts else folder
            rows[case] = measure(case, options, before.get(case, {}), kept)
        print(table({case: rows[case]}).splitlines()[2] if len(rows) > 1 else "\n".join(table(rows).splitlines()[:3]),
              flush=True)
        if options.json:
            path = pathlib.Path(options.json)
            older = known(path) if path.exists() else {}
            merged = {**older, case: {s: {**older.get(case, {}).get(s, {}), **rows[case].get(s, {})} for s in SYSTEMS}}
            path.write_text(json.dumps({"processor": processor(), "threads": options.threads, "rows": merged},
                                       indent=1))
    print("\n" + table(rows))


if __name__ == "__main__":
    main()
