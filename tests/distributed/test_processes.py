"""Groups of several processes: started by spawn and by the launcher, and what is left when they end, well or not."""
import datetime
import os
import signal
import subprocess
import sys
import time

import pytest

import rushlight as torch
from rushlight import distributed as dist
from rushlight import multiprocessing

from .groups import reserved_port
from .leftovers import shared_memory, staying

LIMIT = datetime.timedelta(minutes=10)
PROGRAM = """
import sys
import rushlight as torch, rushlight.distributed as dist
from rushlight.distributed.elastic.multiprocessing.errors import record

@record
def main():
    import os
    dist.init_process_group("gloo")
    x = torch.ones(2)
    dist.all_reduce(x)
    print("rank", dist.get_rank(), x.tolist(), flush=True)
    if dist.get_rank() == 1 and int(os.environ["TORCHELASTIC_RESTART_COUNT"]) < int(sys.argv[1]):
        raise ValueError("this rank fails")
    dist.barrier()
    dist.destroy_process_group()

main()
"""


def joined(rank, path, method):
    address = {"file": f"file://{path}/store", "tcp": f"tcp://127.0.0.1:{path}"}[method]
    dist.init_process_group("gloo", init_method=address, rank=rank, world_size=2, timeout=LIMIT)


def exchange(rank, path, method):
    joined(rank, path, method)
    assert type(dist.group.WORLD.engine).__name__ == "ArenaEngine"
    x = torch.full((300_000,), rank + 1.0, dtype=torch.bfloat16)
    dist.all_reduce(x)
    assert bool((x == 3).all())
    y = torch.empty(2)
    work = dist.isend(torch.full((2,), float(rank)), 1 - rank)
    dist.recv(y, 1 - rank)
    work.wait()
    assert y.tolist() == [1.0 - rank] * 2
    store = dist.distributed_c10d._get_default_store()
    assert store.add("count", 1) in (1, 2)
    dist.barrier()
    assert store.get("count") == b"2"
    dist.barrier()  # rank 0 keeps the store
    dist.destroy_process_group()


@pytest.mark.parametrize("method", ["file", "tcp"])
def test_processes_exchange(method, tmp_path):
    before = shared_memory()
    with reserved_port() as port:
        multiprocessing.spawn(exchange, (tmp_path if method == "file" else port, method), 2)
    assert not staying(shared_memory, before)
    assert not (tmp_path / "store").exists()


def bereaved(rank, path, method):
    joined(rank, path, method)
    dist.all_reduce(torch.ones(1))
    if rank:
        os.kill(os.getpid(), signal.SIGKILL)
    begun = time.monotonic()
    for what in (lambda: dist.all_reduce(torch.ones(1)), lambda: dist.recv(torch.ones(1), 1),
                 lambda: dist.all_reduce(torch.ones(1), async_op=True).wait()):
        with pytest.raises(RuntimeError, match="Connection closed by peer: rank 1 of the group has ended"):
            what()
    assert time.monotonic() - begun < LIMIT.total_seconds() / 2  # long before the limit
    dist.destroy_process_group()
    sys.exit(7)


def test_a_rank_that_is_killed_is_noticed(tmp_path):
    context = multiprocessing.start_processes(bereaved, (tmp_path, "file"), 2, join=False)
    for process in context.processes:
        process.join(LIMIT.total_seconds())
    assert [process.exitcode for process in context.processes] == [7, -9]


def launched(*arguments, script):
    return subprocess.run([sys.executable, "-m", "rushlight.distributed.run", *arguments, str(script[0]), *script[1:]],
                          capture_output=True, text=True, timeout=LIMIT.total_seconds())


@pytest.mark.parametrize("arguments", [(), ("--run-path",), ("-m",), ("--max-restarts=1", "--start-method=fork")])
def test_launched_programs_find_rushlight_under_the_name_torch(tmp_path, monkeypatch, arguments):
    program = tmp_path / "seen_by_launched.py"
    program.write_text("import sys, torch\n\nif __name__ == '__main__':\n"
                       "    print('seen', torch.__file__.split('/')[-2], sys.argv[1:])\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(tmp_path)]))
    done = launched("--standalone", *arguments, script=(program.stem if "-m" in arguments else program, "--flag"))
    assert done.stdout.strip() == "seen rushlight ['--flag']", done.stderr


def test_the_launcher(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    again = launched("--standalone", "--nproc-per-node", "2", "--max-restarts", "1", "--log-dir",
                     str(tmp_path / "logs"), "-r", "3", script=(program, "1"))
    assert again.returncode == 0, again.stderr
    logs = sorted((tmp_path / "logs").rglob("stdout.log"))
    assert [log.read_text() for log in logs] == ["rank 0 [2.0, 2.0]\n", "rank 1 [2.0, 2.0]\n"] * 2
    failed = launched("--standalone", "--nproc_per_node=2", script=(program, "1"))
    assert failed.returncode == 1 and "ValueError: this rank fails" in failed.stderr.split("Root Cause")[
        1] and "rank      : 1 (local_rank: 1)" in failed.stderr.split("Root Cause")[1]


def test_two_machines_meet(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    with reserved_port() as port:
        command = [sys.executable, "-m", "rushlight.distributed.run", "--nnodes", "2", "--nproc-per-node", "1",
                   "--rdzv-backend", "c10d", "--rdzv-endpoint", f"localhost:{port}", "--rdzv-id", "x", str(program),
                   "0"]
        agents = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
        said = sorted(agent.communicate(timeout=LIMIT.total_seconds())[0] for agent in agents)
    assert [agent.returncode for agent in agents] == [0, 0] and said == ["rank 0 [2.0, 2.0]\n", "rank 1 [2.0, 2.0]\n"]
