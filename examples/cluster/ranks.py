"""Joins a group from processes that a cluster's own starter made: Slurm's ``srun``, ``mpiexec``, or a launcher.

    srun --ntasks 8 python examples/cluster/ranks.py
"""
import os

import rushlight as torch
import rushlight.distributed as dist

NAMES = (("RANK", "WORLD_SIZE", "LOCAL_RANK"),  # rushlight-run
         ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
         ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
         ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"))


def first_host(text: str) -> str:
    """The first machine of Slurm's list: ``n[03-05,9],m1`` is n03."""
    head, bracket, rest = text.partition("[")
    if not bracket or "," in head:
        return text.partition(",")[0]
    return head + rest.partition("]")[0].split(",")[0].split("-")[0]


def settings(environment) -> dict:
    """RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT by the variables that the starter has set.  KeyError
    where there are none."""
    for rank, size, local in NAMES:
        if rank in environment:
            break
    else:
        raise KeyError(f"none of {', '.join(rank for rank, _, _ in NAMES)} is in the environment")
    host = environment.get("MASTER_ADDR") or first_host(environment.get("SLURM_JOB_NODELIST", "127.0.0.1"))
    port = environment.get("MASTER_PORT") or str(20000 + int(environment.get("SLURM_JOB_ID", 9500)) % 10000)
    return {"RANK": environment[rank], "WORLD_SIZE": environment[size], "LOCAL_RANK": environment.get(local, "0"),
            "MASTER_ADDR": host, "MASTER_PORT": port}


def main():
    os.environ.update(settings(os.environ))
    dist.init_process_group("gloo")
    x = torch.tensor([float(dist.get_rank())])
    dist.all_reduce(x)
    print(f"rank {dist.get_rank()} of {dist.get_world_size()}: the ranks add up to {x.item():.0f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
