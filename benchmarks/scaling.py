"""Steps of data parallel training on 2 to 8 processes of this machine, beside what ``rushlight.tools.links`` and times
measured apart predict of them.

    python -m benchmarks.scaling [--ranks 2 4 8] [--write]

Measured apart, with as many processes at a time as later: a step without exchanges, after which the processes wait for
one another as a sum has them do, and sums of 64 KB and 4 MB that no cache holds, since a step has used the caches; a
link's latency and bandwidth follow.  The step is then that of the computation and of a sum of all gradients.
"""
import copy
import datetime
import itertools
import os
import statistics
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

from .collectives import free_port
from .results import keep, parser

WIDTH, LAYERS, ROWS, ROUNDS = 512, 6, 128, 15
SMALL, LARGE, COLD = 1 << 16, 1 << 22, 1 << 25


def seconds(call, dist, count):
    dist.barrier()
    begun = time.perf_counter()
    for _ in range(count):
        call()
    dist.barrier()
    return (time.perf_counter() - begun) / count


def member(rank, ranks, port, results):
    import rushlight as torch
    import rushlight.distributed as dist
    from rushlight.distributed.hooks import noop_hook
    from rushlight.nn.parallel import DistributedDataParallel
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks,
                            timeout=datetime.timedelta(seconds=120))
    torch.manual_seed(0)
    model = torch.nn.Sequential(*[layer for _ in range(LAYERS)
                                  for layer in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU())])
    nbytes = sum(p.numel() * 4 for p in model.parameters())
    together, x = DistributedDataParallel(model), torch.randn(ROWS, WIDTH)
    apart = DistributedDataParallel(copy.deepcopy(model))
    apart.register_comm_hook(None, noop_hook)

    def step(module):
        for parameter in module.parameters():
            parameter.grad = None
        module(x).sum().backward()

    small = itertools.cycle([torch.ones(SMALL // 4) for _ in range(COLD // SMALL)])
    large = itertools.cycle([torch.ones(LARGE // 4) for _ in range(COLD // LARGE)])
    calls = {"alone": lambda: (step(apart), dist.barrier()), "small": lambda: dist.all_reduce(next(small)),
             "large": lambda: dist.all_reduce(next(large)),
             "step": lambda: step(together)}
    taken = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(ROUNDS):
        for name, call in calls.items():
            taken[name].append(seconds(call, dist, 5))
    if rank == 0:
        results.put((nbytes, {name: statistics.median(times) for name, times in taken.items()}))
    dist.barrier()
    dist.destroy_process_group()


def measured(ranks):
    """(bytes of all gradients, {what: seconds})."""
    from multiprocessing import get_context
    context = get_context("spawn")
    results, port = context.SimpleQueue(), free_port()
    processes = [context.Process(target=member, args=(rank, ranks, port, results)) for rank in range(ranks)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    return results.get()


def link_of(small: float, large: float, ranks: int):
    """The link on which sums of ``SMALL`` and ``LARGE`` bytes around a ring take so long."""
    from rushlight.tools.links import Link
    share = 2 * (ranks - 1) / ranks
    bandwidth = share * (LARGE - SMALL) / max(large - small, 1e-9)
    return Link(max(small - share * SMALL / bandwidth, 0.0) / (2 * (ranks - 1)), bandwidth)


def main():
    reader = parser(__doc__)
    reader.add_argument("--ranks", type=int, nargs="+", default=[2, 4, 8])
    args, ratios = reader.parse_args(), {}
    for ranks in args.ranks:
        nbytes, found = measured(ranks)
        link = link_of(found["small"], found["large"], ranks)
        predicted = found["alone"] + link.ring(2, nbytes, ranks)
        ratios[f"data parallel {ranks} ranks"] = round(predicted / found["step"], 3)
        print(f"{ranks} ranks: step {found['step'] * 1e3:.2f} ms, predicted {predicted * 1e3:.2f} ms "
              f"(alone {found['alone'] * 1e3:.2f}), ratio {predicted / found['step']:.2f}; a link of "
              f"{link.latency * 1e6:.0f} us and {link.bandwidth / 1e9:.2f} GB/s", flush=True)
    keep("scaling", ratios, args)


if __name__ == "__main__":
    main()
