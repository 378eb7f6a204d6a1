"""An agent that starts processes of its host."""
from __future__ import annotations

import os
import string

from ...multiprocessing import start_processes
from ...multiprocessing.api import LogsSpecs
from .api import RunResult, SimpleElasticAgent, WorkerGroup, WorkerSpec, WorkerState


class LocalElasticAgent(SimpleElasticAgent):
    """Starts functions by ``start_method``, and programs as new processes; ``logs_specs`` redirects their streams.
    ``log_line_prefix_template``: the prefix of lines that are shown, with ${role_name}, ${local_rank} and ${rank}."""

    def __init__(self, spec: WorkerSpec, logs_specs: LogsSpecs, start_method: str = "spawn",
                 exit_barrier_timeout: float = 300, log_line_prefix_template: str | None = None,
                 shutdown_timeout: float = 30):
        super().__init__(spec, exit_barrier_timeout, shutdown_timeout)
        self.logs_specs, self.start_method, self.template, self.context = logs_specs, start_method, \
            log_line_prefix_template, None

    def environment(self, group: WorkerGroup, worker) -> dict:
        """Return the environment variables that give a process its ranks."""
        spec = group.spec
        told = {"RANK": worker.global_rank, "LOCAL_RANK": worker.local_rank, "WORLD_SIZE": worker.world_size,
                "LOCAL_WORLD_SIZE": spec.local_world_size, "GROUP_RANK": group.group_rank,
                "GROUP_WORLD_SIZE": group.group_world_size, "ROLE_RANK": worker.role_rank,
                "ROLE_WORLD_SIZE": worker.role_world_size, "ROLE_NAME": spec.role, "MASTER_ADDR": group.master_addr,
                "MASTER_PORT": group.master_port, "TORCHELASTIC_RESTART_COUNT": self.restarts,
                "TORCHELASTIC_MAX_RESTARTS": spec.max_restarts,
                "TORCHELASTIC_RUN_ID": spec.rdzv_handler.get_run_id(), "TORCHELASTIC_ROUND": group.token,
                "TORCHELASTIC_USE_AGENT_STORE": spec.rdzv_handler.use_agent_store}
        if spec.local_world_size > 1 and "OMP_NUM_THREADS" not in os.environ:
            told["OMP_NUM_THREADS"] = 1  # processes share the CPUs
        return {name: str(value) for name, value in told.items()}

    def prefix(self, group: WorkerGroup, worker) -> str:
        if self.template is None:
            return f"[{group.spec.role}{worker.local_rank}]:"
        return string.Template(self.template).safe_substitute(
            role_name=group.spec.role, local_rank=worker.local_rank, rank=worker.global_rank)

    def _start_workers(self, worker_group: WorkerGroup) -> dict:
        spec, workers = worker_group.spec, worker_group.workers
        envs = {w.local_rank: self.environment(worker_group, w) for w in workers}
        self.context = start_processes(spec.role, spec.entrypoint, {w.local_rank: tuple(spec.args) for w in workers},
                                       envs, self.logs_specs,
                                       {w.local_rank: self.prefix(worker_group, w) for w in workers},
                                       self.start_method)
        return self.context.pids()

    def _stop_workers(self, worker_group: WorkerGroup):
        if self.context is not None:
            self.context.close(timeout=self.shutdown_timeout)

    def _monitor_workers(self, worker_group: WorkerGroup) -> RunResult:
        ranks = {w.local_rank: w.global_rank for w in worker_group.workers}
        found = self.context.poll()
        if found is None:
            return RunResult(WorkerState.HEALTHY)
        state = WorkerState.FAILED if found.is_failed() else WorkerState.SUCCEEDED
        return RunResult(state, {ranks[k]: v for k, v in found.return_values.items()},
                         {ranks[k]: f for k, f in found.failures.items()})
