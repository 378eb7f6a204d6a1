"""The examples for clusters: ranks by the variables of each starter, and commands that the launcher reads."""
import importlib.util
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from rushlight import multiprocessing
from rushlight.distributed import run
from rushlight.distributed.elastic.rendezvous.utils import parse_rendezvous_endpoint

FOLDER = Path(__file__).parents[2] / "examples" / "cluster"


def example(name):
    spec = importlib.util.spec_from_file_location(f"cluster_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


STARTERS = {
    "slurm": ({"SLURM_PROCID": "5", "SLURM_NTASKS": "8", "SLURM_LOCALID": "1", "SLURM_JOB_ID": "123456",
               "SLURM_JOB_NODELIST": "node[03-05,9],m1"}, ("5", "8", "1", "node03", "23456")),
    "openmpi": ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "0",
                 "MASTER_ADDR": "a", "MASTER_PORT": "1"}, ("1", "2", "0", "a", "1")),
    "mpich": ({"PMI_RANK": "3", "PMI_SIZE": "4", "MPI_LOCALRANKID": "3"}, ("3", "4", "3", "127.0.0.1", "29500")),
    "launcher": ({"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "MASTER_ADDR": "h", "MASTER_PORT": "2",
                  "SLURM_PROCID": "0"}, ("1", "2", "1", "h", "2"))}


@pytest.mark.parametrize("starter", STARTERS)
def test_ranks_by_the_variables_of_each_starter(starter):
    given, expected = STARTERS[starter]
    assert tuple(example("ranks").settings(given).values()) == expected


def test_hosts_and_missing_variables():
    ranks = example("ranks")
    assert [ranks.first_host(text) for text in ("a", "a,b[1-2]", "n[1,3]", "n[001-010]x")] == ["a", "a", "n1", "n001"]
    with pytest.raises(KeyError, match="SLURM_PROCID"):
        ranks.settings({})


def test_commands_are_read_by_the_launcher():
    slurm = re.search(r"srun rushlight-run (.*)", (FOLDER / "slurm.sh").read_text().replace("\\\n", " ")).group(1)
    names = {"SLURM_JOB_NUM_NODES": "2", "SLURM_JOB_ID": "7", "first": "node1", "@": "train.py"}
    for name, value in names.items():
        slurm = slurm.replace(f"${name}", value)
    pods = " ".join(re.findall(r'"([^"]*)"', re.search(r"args: \[(.*?)\]", (FOLDER / "kubernetes.yaml").read_text(),
                                                       re.DOTALL).group(1)))
    for command, host in ((slurm, "node1"), (pods, "rushlight-0.rushlight")):
        args = run.parse_args(shlex.split(command))
        config, _, _ = run.config_from_args(args)
        assert (config.rdzv_backend, config.min_nodes, config.max_nodes) == ("c10d", 2, 2)
        assert parse_rendezvous_endpoint(config.rdzv_endpoint, 0) == (host, 29400)
        assert args.nproc_per_node == "4" and args.max_restarts == 3 and args.training_script.endswith("train.py")
    assert subprocess.run(["bash", "-n", FOLDER / "slurm.sh"]).returncode == 0


def joined(rank, port):
    assert example("ray_tasks").member(rank, 2, "127.0.0.1", port) == 1.0


def test_members_of_ray_meet():
    _, port = example("ray_tasks").place()
    multiprocessing.spawn(joined, (port,), 2)
