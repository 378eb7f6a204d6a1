"""Events of a run."""
from __future__ import annotations

import dataclasses
import enum
import json
from enum import Enum


class EventSource(str, Enum):
    """The source of an event."""

    AGENT, WORKER = "AGENT", "WORKER"


class NodeState(str, Enum):
    """The state of a host in a rendezvous."""

    INIT, RUNNING, SUCCEEDED, FAILED = "INIT", "RUNNING", "SUCCEEDED", "FAILED"


class Noted:
    """A record that is written as JSON."""

    def serialize(self) -> str:
        return json.dumps({k: v.value if isinstance(v, enum.Enum) else v for k, v in dataclasses.asdict(self).items()})

    @classmethod
    def deserialize(cls, data):
        """Return the record from a string, or the record itself."""
        return data if isinstance(data, cls) else cls.made(json.loads(data))

    def __str__(self):
        return self.serialize()


@dataclasses.dataclass
class Event(Noted):
    """An event: its time (milliseconds), and further data."""

    name: str
    source: EventSource
    timestamp: int = 0
    metadata: dict = dataclasses.field(default_factory=dict)

    @classmethod
    def made(cls, found: dict):
        return cls(**{**found, "source": EventSource[found["source"]]})


@dataclasses.dataclass
class RdzvEvent(Noted):
    """An event of a rendezvous of hosts."""

    name: str
    run_id: str
    message: str
    hostname: str
    pid: int
    node_state: NodeState
    master_endpoint: str = ""
    rank: int | None = None
    local_id: int | None = None
    error_trace: str = ""

    @classmethod
    def made(cls, found: dict):
        return cls(**{**found, "node_state": NodeState[found["node_state"]]})
