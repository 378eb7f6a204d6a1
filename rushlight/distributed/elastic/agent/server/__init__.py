"""Agents and their specifications."""
from .api import ElasticAgent, RunResult, SimpleElasticAgent, Worker, WorkerGroup, WorkerSpec, WorkerState  # noqa: F401
from .local_elastic_agent import LocalElasticAgent  # noqa: F401
