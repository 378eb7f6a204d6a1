"""Measure the choices of plans for matrix multiplications, and record those that are clearly faster than what is
estimated: the table that planners read on CPUs of this kind.

    python -m benchmarks.tune [float32] [bfloat16] [int8] [--threads 1] [--write]

Each problem is searched as max-autotune does, then the choice is measured again beside the estimate; it is kept for its
class where that confirms it.  Without ``--write`` it is only printed.
"""

import argparse
import json

from rushlight._src.devices.cpu.llvm import pool
from rushlight._src.devices.cpu.templates import tune
from rushlight._src.devices.cpu.templates.contraction import NO_EPILOGUE
from rushlight._src.devices.cpu.templates.matmul import Matmul, Operands, _normalised, _plan

SECONDS, GAIN, BIG = 1.0, 0.95, 2e10  # for a problem; what a choice must reach; multiply-adds that are left alone
COLUMNS = [(768, 768), (3072, 768), (768, 3072), (2304, 768), (384, 384), (1536, 384), (384, 1536), (64, 384),
           (65, 384), (1000, 2048), (512, 512), (1024, 1024), (2048, 2048), (4096, 4096)]  # and depths
SUMMED = [(768, 768), (3072, 768), (768, 3072), (384, 384), (1536, 384), (384, 1536), (65, 384), (1000, 2048),
          (512, 512), (1024, 1024), (64, 64)]  # rows and columns of gradients
SIZES = [(rows, *own, layouts) for rows in (64, 128, 512, 2048) for own in COLUMNS for layouts in ("nt", "nn")]
SIZES += [(*own, depth, "tn") for own in SUMMED for depth in (8, 64, 512, 2048)]
SIZES += [(16, 4096, 4096, "nt"), (16, 4096, 4096, "nn"), (8, 1000, 2048, "nt"), (64, 64, 100000, "tn")]
BATCHES = [(count, *own, layouts) for count in (48, 96) for own in (
    (256, 256, 64), (256, 64, 256), (128, 128, 64), (128, 64, 128)) for layouts in ("nt", "nn", "tn")]


def problems(dtype):
    """The Matmuls that are measured."""
    for *batch, rows, columns, depth, layouts in (*SIZES, *BATCHES):
        a = (1, rows) if layouts[0] == "t" else (depth, 1)
        b = (1, depth) if layouts[1] == "t" else (columns, 1)
        strides = [(size, *own) if batch else own for size, own in (
            (rows * depth, a), (depth * columns, b), (rows * columns, (columns, 1)))]
        yield _normalised(Matmul(tuple(batch), rows, columns, depth, *strides, dtype,
                                 "int32" if dtype == "int8" else ""))


def searched(problem, threads):
    """(the class of a problem, what to pick, the ratio of times) where a choice is confirmed, else None."""
    plan, whole = _plan, (problem, NO_EPILOGUE, threads, None, None)
    operands = Operands(problem, NO_EPILOGUE)()
    with tune.Trial({}) as first:
        best = plan(*whole)
    chosen, better = tune.search(plan, whole, operands, first.seen, best)
    if not chosen:
        return None
    known, taken = tune.race((best, better), operands)
    return (tune.class_of(_plan, whole), chosen, taken / known) if taken < GAIN * known else None


def main():
    command = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    command.add_argument("dtypes", nargs="*", default=["float32", "bfloat16"])
    command.add_argument("--threads", type=int, default=1)
    command.add_argument("--write", action="store_true", help="puts what is found into the table")
    command.add_argument("--part", default="0/1", help="which problems: k/n, every n-th from the k-th on")
    options = command.parse_args()
    pool.set_num_threads(options.threads)
    tune.SECONDS = SECONDS
    first, step = map(int, options.part.split("/"))
    found = {}
    for dtype in options.dtypes:
        for problem in list(problems(dtype))[first::step]:
            if problem.rows * problem.columns * problem.depth > BIG:
                continue
            kept = searched(problem, options.threads)
            if kept is not None:
                name, chosen, ratio = kept
                found[name] = chosen
                print(f"{ratio:.2f} {name} {chosen}", flush=True)
    if options.write:
        lines = [line for line in tune.TABLE.read_text(encoding="utf-8").splitlines()
                 if tuple(line.split(" | ")[:2]) not in {(tune.processor_kind(), name) for name in found}]
        lines += [f"{tune.processor_kind()} | {name} | {json.dumps(chosen)}" for name, chosen in found.items()]
        tune.TABLE.write_text("".join(f"{line}\n" for line in sorted(lines)), encoding="utf-8")


if __name__ == "__main__":
    main()
