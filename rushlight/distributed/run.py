"""Starts the processes of a program, on one host or several: ``python -m rushlight.distributed.run``, or
``rushlight-run``, with torchrun's arguments."""
from __future__ import annotations

import argparse
import os
import shutil
import sys
import uuid

from .elastic.multiprocessing.api import DefaultLogsSpecs, SignalException, Std
from .elastic.multiprocessing.errors import ChildFailedError
from .elastic.rendezvous.utils import parse_rendezvous_config
from .launcher.api import LaunchConfig, elastic_launch

def get_args_parser() -> argparse.ArgumentParser:
    """The command line; both ``--nproc-per-node`` and ``--nproc_per_node`` are read."""
    parser = argparse.ArgumentParser("rushlight-run", description=__doc__)

    def add(*names, **how):
        spelled = [n for name in names for n in ([name, "--" + name[2:].replace("-", "_")] if name.startswith("--")
                                                 and "-" in name[2:] else [name])]
        parser.add_argument(*spelled, **how)
    add("--nnodes", default="1:1", help="machines: a number, or least:most")
    add("--nproc-per-node", default="1", help="processes on each machine: a number, cpu or auto")
    add("--rdzv-backend", default="static", help="static (node ranks are given) or c10d (they are dealt out)")
    add("--rdzv-endpoint", default="", help="host[:port] where the machines meet")
    add("--rdzv-id", default="none", help="the name of the run")
    add("--rdzv-conf", default="", help="key=value,...: timeout, join_timeout, last_call_timeout (seconds)")
    add("--standalone", action="store_true", help="one machine that meets nobody")
    add("--max-restarts", type=int, default=0, help="how often all processes are started again after one has failed")
    add("--monitor-interval", type=float, default=0.1, help="seconds between looks at the processes")
    add("--start-method", default="spawn", choices=["spawn", "fork", "forkserver"],
        help="accepted; programs are always started anew")
    add("--role", default="default")
    add("-m", "--module", action="store_true", help="the program is a module")
    add("--no-python", action="store_true", help="the program is run as it is")
    add("--run-path", action="store_true", help="the program is run by runpy in a new interpreter")
    add("--log-dir", default=None, help="where logs and errors of ranks are kept")
    add("-r", "--redirects", default="0",
        help="streams that go to files: 0 none, 1 stdout, 2 stderr, 3 both, or 0:1,1:3 by local rank")
    add("-t", "--tee", default="0", help="streams that go to files and here")
    add("--local-ranks-filter", default="", help="local ranks whose output is shown")
    add("--node-rank", type=int, default=int(os.environ.get("GROUP_RANK", 0)))
    add("--master-addr", default="127.0.0.1")
    add("--master-port", type=int, default=29500)
    add("--local-addr", default=None)
    parser.add_argument("training_script")
    parser.add_argument("training_script_args", nargs=argparse.REMAINDER)
    return parser


def parse_args(args=None):
    return get_args_parser().parse_args(args)


def parse_min_max_nnodes(nnodes: str):
    """Return (minimum, maximum) of the number of hosts.  RuntimeError for another format."""
    parts = str(nnodes).split(":")
    if len(parts) not in (1, 2) or not all(part.isdigit() for part in parts):
        raise RuntimeError(f'nnodes={nnodes} is not in "MIN:MAX" format')
    return int(parts[0]), int(parts[-1])


def determine_local_world_size(nproc_per_node: str) -> int:
    """Return the number of processes on this host.  ValueError for other values than a number, cpu or auto."""
    if nproc_per_node.isdigit():
        return int(nproc_per_node)
    if nproc_per_node in ("cpu", "auto"):
        return os.cpu_count() or 1
    raise ValueError(f"Unsupported nproc_per_node value: {nproc_per_node}")


def config_from_args(args):
    """Return (configuration, entry point, its arguments) of a command line.  ValueError for incompatible options."""
    least, most = parse_min_max_nnodes(args.nnodes)
    conf, backend, endpoint, run_id = (parse_rendezvous_config(args.rdzv_conf), args.rdzv_backend, args.rdzv_endpoint,
                                       args.rdzv_id)
    if args.standalone or (most == 1 and not endpoint and backend != "static"):
        least = most = 1
        backend, endpoint = "c10d", "127.0.0.1:0"
        run_id = uuid.uuid4().hex if run_id == "none" else run_id
    elif backend == "static":
        endpoint = endpoint or f"{args.master_addr}:{args.master_port}"
        least, conf = most, {"rank": args.node_rank, **conf}
    elif not endpoint:
        raise ValueError("The rendezvous endpoint must be specified: --rdzv-endpoint host:port")
    shown = {int(rank) for rank in args.local_ranks_filter.split(",") if rank}
    logs = DefaultLogsSpecs(args.log_dir, Std.from_str(args.redirects), Std.from_str(args.tee), shown or None)
    config = LaunchConfig(least, most, determine_local_world_size(args.nproc_per_node), logs, run_id, args.role,
                          endpoint, backend, conf, int(conf.get("timeout", 600)), args.max_restarts,
                          args.monitor_interval, local_addr=args.local_addr)
    command = command_of(args)
    return config, command[0], command[1:]


def command_of(args) -> list:
    """Return the command line of one process, in which ``import torch`` imports Rushlight unless ``--no-python`` is
    given."""
    if args.no_python:
        if args.module:
            raise ValueError("Don't use both the '--no-python' flag and the '--module' flag at the same time.")
        return [args.training_script, *args.training_script_args]
    return [sys.executable, "-u", "-m", "rushlight", *(["-m"] if args.module else []), args.training_script,
            *args.training_script_args]


def run(args):
    """Starts the processes and waits for them.  ChildFailedError if processes fail more than ``max_restarts`` times."""
    config, entrypoint, arguments = config_from_args(args)
    elastic_launch(config, entrypoint)(*arguments)
    if args.log_dir is None:
        shutil.rmtree(config.logs_specs.root_log_dir, ignore_errors=True)  # of a run that failed the files stay


def main(args=None):
    """The command line program; if a process fails, it exits with 1 and names the rank that failed first."""
    try:
        run(parse_args(args))
    except ChildFailedError as error:
        print(error, file=sys.stderr)
        sys.exit(1)
    except SignalException as error:
        sys.exit(128 + error.sigval)


if __name__ == "__main__":
    main()
