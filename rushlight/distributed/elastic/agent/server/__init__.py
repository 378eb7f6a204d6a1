"""Agents and what they are told."""
from .api import ElasticAgent, RunResult, SimpleElasticAgent, Worker, WorkerGroup, WorkerSpec, WorkerState  # noqa: F401
from .local_elastic_agent import LocalElasticAgent  # noqa: F401
