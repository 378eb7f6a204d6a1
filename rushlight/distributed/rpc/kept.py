"""Values that a worker keeps for references of any worker, by name."""
from __future__ import annotations

from ...futures import Future
from .workers import Agent, current


class Kept:
    """A value that an owner keeps: a Future of it, and how many references of other workers there are."""

    def __init__(self):
        self.future, self.count = Future(), 0


def new_name(agent: Agent) -> tuple:
    return agent.info.id, next(agent.numbers)


def keep(agent: Agent, name) -> Future:
    """Return the Future of the value that has a name here."""
    with agent.guard:
        return agent.owned.setdefault(name, Kept()).future


def count_at(agent: Agent, name, by: int):
    with agent.guard:
        kept = agent.owned.setdefault(name, Kept())
        kept.count += by
        if not kept.count:
            del agent.owned[name]


def counted(name, by: int):
    """Counts references to a value of this worker."""
    count_at(current(), name, by)


def value_at(name):
    """Return the value that has a name in this worker, once it is there."""
    return keep(current(), name).wait()


def called_at(name, method: str, args, kwargs):
    return getattr(value_at(name), method)(*args, **kwargs)


def type_at(name):
    return type(value_at(name))
