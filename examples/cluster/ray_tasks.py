"""A group of Ray tasks (``pip install ray``): the first says where they meet, the others come there.

    python examples/cluster/ray_tasks.py 4
"""
import os
import socket
import sys


def place() -> tuple:
    """(address, free port) of the machine that this runs on."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        return socket.gethostbyname(socket.gethostname()), probe.getsockname()[1]


def member(rank: int, size: int, host: str, port: int) -> float:
    """One process: what all ranks add up to."""
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(size), LOCAL_RANK="0", MASTER_ADDR=host, MASTER_PORT=str(port))
    import rushlight as torch
    import rushlight.distributed as dist
    dist.init_process_group("gloo")
    x = torch.tensor([float(rank)])
    dist.all_reduce(x)
    dist.destroy_process_group()
    return x.item()


def main(size: int):
    import ray
    ray.init()
    spread = ray.util.placement_group([{"CPU": 1}] * size, strategy="SPREAD")
    ray.get(spread.ready())

    def at(function, bundle):
        strategy = ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy(spread, bundle)
        return ray.remote(function).options(num_cpus=1, scheduling_strategy=strategy)
    host, port = ray.get(at(place, 0).remote())  # rank 0 runs on that machine, too
    print(ray.get([at(member, rank).remote(rank, size, host, port) for rank in range(size)]))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
