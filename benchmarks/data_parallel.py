"""Training steps of a GPT by DistributedDataParallel in processes of one machine, beside PyTorch's with gloo in the
same run: milliseconds, and ratios below 1 where ours is faster.

    python -m benchmarks.data_parallel [--way eager] [--ranks 2] [--layers 6] [--heads 6] [--width 384] [--write]

Each rank is a process with a model of ours and one of PyTorch's; the two take turns, step for step, with one thread a
process.  A figure is the median over steps of what the slowest rank took, from a barrier to the end of the optimizer's
step.  ``--way``: "eager", "model" (both models compiled), or "mixed" (ours compiled, PyTorch's not).
"""
import datetime
import os
import statistics
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

from .collectives import free_port
from .models import load
from .results import keep, parser

LIMIT = datetime.timedelta(minutes=5)


def stepper(library, dist, options):
    """A function that takes one step, and the parameters that it trains."""
    library.manual_seed(0)
    model = load("gpt", library).GPT(65, options.context, options.layers, options.heads, options.width, 0.0)
    ids, targets = (library.randint(65, (options.batch, options.context)) for _ in range(2))
    parallel = library.nn.parallel.DistributedDataParallel(model)
    optimizer = library.optim.AdamW(model.parameters(), lr=1e-4)
    own = library.__name__ != "torch"
    run = library.compile(parallel) if options.way == "model" or options.way == "mixed" and own else parallel
    ids = ids.roll(dist.get_rank())

    def step():
        loss = run(ids, targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def member(rank, options, ports, results):
    import warnings
    warnings.simplefilter("ignore")
    import torch
    import torch.distributed as theirs

    import rushlight
    import rushlight.distributed as ours
    steps = []
    for library, dist, port in ((rushlight, ours, ports[0]), (torch, theirs, ports[1])):
        library.set_num_threads(1)
        dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=options.ranks,
                                timeout=LIMIT)
        steps.append((stepper(library, dist, options), dist))
    for step, _ in steps:
        step(), step()
    taken = [[], []]
    for _ in range(options.steps):
        for k, (step, dist) in enumerate(steps):
            dist.barrier()
            begun = time.perf_counter()
            step()
            taken[k].append(1e3 * (time.perf_counter() - begun))
    results.put((rank, *taken))
    for _, dist in steps:
        dist.barrier()
        dist.destroy_process_group()


def measured(options):
    """(our milliseconds a step, PyTorch's), one list each: those of the slowest rank."""
    from multiprocessing import get_context
    context = get_context("spawn")
    results, ports = context.SimpleQueue(), (free_port(), free_port())
    processes = [context.Process(target=member, args=(rank, options, ports, results)) for rank in range(options.ranks)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    if any(process.exitcode for process in processes):
        raise SystemExit("a rank has failed")
    found = [results.get()[1:] for _ in processes]
    return [[max(times) for times in zip(*(each[k] for each in found))] for k in range(2)]


def main():
    reader = parser(__doc__)
    reader.add_argument("--way", choices=["eager", "model", "mixed"], default="eager")
    reader.add_argument("--ranks", type=int, default=2)
    reader.add_argument("--steps", type=int, default=9)
    reader.add_argument("--layers", type=int, default=6)
    reader.add_argument("--heads", type=int, default=6)
    reader.add_argument("--width", type=int, default=384)
    reader.add_argument("--context", type=int, default=256)
    reader.add_argument("--batch", type=int, default=2, help="sequences of each rank")
    options = reader.parse_args()
    mine, its = map(statistics.median, measured(options))
    ratio = round(mine / its, 3)
    print(f"{options.ranks} ranks, {options.way}: {mine:.0f} ms a step, PyTorch {its:.0f} ms, ratio {ratio:.2f}")
    keep("data_parallel", {"milliseconds": [mine, its], "ratio": ratio}, options)


if __name__ == "__main__":
    main()
