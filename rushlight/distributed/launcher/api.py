"""The launcher of elastic jobs, and its configuration."""
from __future__ import annotations

import dataclasses
import os
import uuid

from ..elastic.agent.server.api import WorkerSpec
from ..elastic.agent.server.local_elastic_agent import LocalElasticAgent
from ..elastic.multiprocessing.api import DefaultLogsSpecs, LogsSpecs, SignalException
from ..elastic.multiprocessing.errors import ChildFailedError
from ..elastic.rendezvous import RendezvousParameters, get_rendezvous_handler
from ...numa.binding import NumaOptions, refuse_binding


@dataclasses.dataclass
class LaunchConfig:
    """``min_nodes`` to ``max_nodes`` hosts with ``nproc_per_node`` processes each, whose rendezvous is by
    ``rdzv_backend`` at ``rdzv_endpoint`` ("host:port") with the name ``run_id`` and settings ``rdzv_configs``."""

    min_nodes: int
    max_nodes: int
    nproc_per_node: int
    logs_specs: LogsSpecs | None = None
    run_id: str = ""
    role: str = "default_role"
    rdzv_endpoint: str = ""
    rdzv_backend: str = "etcd"
    rdzv_configs: dict = dataclasses.field(default_factory=dict)
    rdzv_timeout: int = -1
    max_restarts: int = 3
    monitor_interval: float = 0.1
    start_method: str = "spawn"
    log_line_prefix_template: str | None = None
    metrics_cfg: dict = dataclasses.field(default_factory=dict)
    local_addr: str | None = None
    event_log_handler: str = "null"
    numa_options: NumaOptions | None = None

    def __post_init__(self):
        if self.rdzv_timeout != -1:
            self.rdzv_configs["timeout"] = self.rdzv_timeout
        elif "timeout" not in self.rdzv_configs:
            self.rdzv_configs["timeout"] = 900
        self.run_id = self.run_id or uuid.uuid4().hex
        self.logs_specs = self.logs_specs or DefaultLogsSpecs()


class elastic_launch:
    """A function, or the path of a program, that runs in processes when this is called.

    Returns the function's results by rank, of this host.  ChildFailedError if processes fail more than
    ``max_restarts`` times.
    """

    def __init__(self, config: LaunchConfig, entrypoint):
        self._config, self._entrypoint = config, entrypoint

    def __call__(self, *args):
        return launch_agent(self._config, self._entrypoint, list(args))


def launch_agent(config: LaunchConfig, entrypoint, args: list) -> dict:
    """Runs an agent for a configuration.  NoDeviceError for one that binds processes to CPUs."""
    refuse_binding(config.numa_options)
    parameters = RendezvousParameters(config.rdzv_backend, config.rdzv_endpoint, config.run_id, config.min_nodes,
                                      config.max_nodes, config.local_addr, **config.rdzv_configs)
    handler = get_rendezvous_handler(parameters)
    spec = WorkerSpec(config.role, config.nproc_per_node, handler, entrypoint=entrypoint, args=tuple(args),
                      max_restarts=config.max_restarts, monitor_interval=config.monitor_interval,
                      local_addr=config.local_addr, event_log_handler=config.event_log_handler)
    agent, closes = LocalElasticAgent(spec, config.logs_specs, config.start_method,
                                      log_line_prefix_template=config.log_line_prefix_template), True
    try:
        result = agent.run()
    except SignalException:
        closes = False  # others continue, and hosts may come
        raise
    finally:
        if closes:
            handler.shutdown()
        store = getattr(handler, "store", None)
        if hasattr(store, "close"):
            store.close()
    if result.is_failed():
        raise ChildFailedError(name_of(entrypoint, args), result.failures)
    return result.return_values


def name_of(entrypoint, args) -> str:
    """Return the name of a program in reports of failures: a function's name, or that of a script's file."""
    if not isinstance(entrypoint, str):
        return entrypoint.__qualname__
    return next((str(a) for a in args if not str(a).startswith("-")), os.path.basename(entrypoint))
