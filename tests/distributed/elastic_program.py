"""Takes steps until it is told to stop, for ``test_elastic.py``: started by the launcher.

``elastic_program.py FOLDER`` goes on from the checkpoint that is there, notes (rank, world, first step) in
FOLDER/begun, counts steps by a sum over all ranks, and ends once FOLDER/stop is there.
"""
import sys
import time
from pathlib import Path

import rushlight as torch
import rushlight.distributed as dist

folder = Path(sys.argv[1])
dist.init_process_group("gloo")
rank, world, path = dist.get_rank(), dist.get_world_size(), folder / "checkpoint"
step = torch.load(path)["step"] if path.exists() else torch.zeros(())
with open(folder / "begun", "a") as file:
    print(rank, world, int(step), file=file, flush=True)
while True:
    news = torch.tensor([1.0, float((folder / "stop").exists())])
    dist.all_reduce(news)
    step += news[0] / world
    if rank == 0:
        torch.save({"step": step}, folder / "checkpoint.part")
        (folder / "checkpoint.part").replace(path)
    dist.barrier()
    if news[1]:
        break
    time.sleep(0.01)
dist.destroy_process_group()
