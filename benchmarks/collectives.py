"""Collectives between processes of one machine, beside PyTorch's gloo in the same run: microseconds, and ratios below 1
where ours is faster.

    python -m benchmarks.collectives [--ranks 2 4] [--write]

Each rank is a process that belongs to a group of ours and to one of gloo; the two take turns, call for call, with one
thread a process. Before a turn is timed the same call is made eight times, on both sides: the other's buffers lie in
the caches, and 16 MB of four ranks come back only within that many calls. A figure is the least of several rounds, of
the slowest rank.
"""
import datetime
import os
import socket
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

from .results import keep, parser

SIZES = {"64 B": (64, 200), "1 MB": (1 << 20, 20), "16 MB": (1 << 24, 4)}
ROUNDS = 5
WARM = 8  # calls before a turn is timed: the other's have swept the caches


def calls(library, dist, nbytes, ranks):
    """Each collective on tensors of float32: ``nbytes`` are those of the whole that a rank has."""
    whole, part = library.ones(nbytes // 4), library.ones(nbytes // 4 // ranks)
    out, small, everything = library.empty(nbytes // 4), library.empty(nbytes // 4 // ranks), library.empty(nbytes // 4
                                                                                                            * ranks)
    del part
    return {"all_reduce": lambda: dist.all_reduce(whole),
            "all_gather": lambda: dist.all_gather_into_tensor(everything, whole),
            "reduce_scatter": lambda: dist.reduce_scatter_tensor(small, whole),
            "all_to_all": lambda: dist.all_to_all_single(out, whole),
            "broadcast": lambda: dist.broadcast(whole, 0), "barrier": lambda: dist.barrier()}


def seconds(call, dist, count):
    dist.barrier()
    begun = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - begun) / count


def member(rank, ranks, ports, results):
    import warnings
    warnings.simplefilter("ignore")
    import torch
    import torch.distributed as theirs

    import rushlight
    import rushlight.distributed as ours
    limit = datetime.timedelta(seconds=120)
    for library, dist, port in ((torch, theirs, ports[0]), (rushlight, ours, ports[1])):
        library.set_num_threads(1)
        dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks,
                                timeout=limit)
    for size, (nbytes, count) in SIZES.items():
        mine, its = calls(rushlight, ours, nbytes, ranks), calls(torch, theirs, nbytes, ranks)
        for name in mine:
            if name == "barrier" and size != "64 B":
                continue
            taken = [[], []]
            for call in (mine[name], its[name]):
                call()
            for _ in range(ROUNDS):
                for k, (call, dist) in enumerate(((mine[name], ours), (its[name], theirs))):
                    seconds(call, dist, WARM)
                    taken[k].append(seconds(call, dist, count))
            results.put((name, size, rank, min(taken[0]), min(taken[1])))
    for dist in (theirs, ours):
        dist.barrier()
        dist.destroy_process_group()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def measured(ranks):
    """{(collective, size): (our seconds, PyTorch's)}, of the slowest rank."""
    from multiprocessing import get_context
    context = get_context("spawn")
    results, ports = context.SimpleQueue(), (free_port(), free_port())
    processes = [context.Process(target=member, args=(rank, ranks, ports, results)) for rank in range(ranks)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    found = {}
    while not results.empty():
        name, size, _, mine, its = results.get()
        before = found.get((name, size), (0.0, 0.0))
        found[name, size] = max(before[0], mine), max(before[1], its)
    return found


def main():
    reader = parser(__doc__)
    reader.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    args = reader.parse_args()
    ratios = {}
    for ranks in args.ranks:
        for (name, size), (mine, its) in measured(ranks).items():
            ratios[f"{name} {size} {ranks} ranks"] = round(mine / its, 3)
            print(f"{ranks} ranks {name:15} {size:6} {mine * 1e6:9.0f} us  gloo {its * 1e6:9.0f} us  ratio "
                  f"{mine / its:.2f}", flush=True)
    keep("collectives", ratios, args)


if __name__ == "__main__":
    main()
