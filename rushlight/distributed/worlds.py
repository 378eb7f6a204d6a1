"""The groups of a process, or of a thread that acts as a process (``threads.py``)."""
from __future__ import annotations

import ctypes
import threading

from .._src.core.native import mine


class World:
    """The groups of a process.  ``default``: the one of all processes; ``count``: the number of groups made; ``names``:
    groups by name; ``names_given``: the number of groups made of the same ranks; ``owned``: the store that
    ``init_process_group`` opened; ``ring``, ``asked``, ``dumped``, ``dumping`` and ``watchdog``: the flight recorder's;
    ``rpc``: the agent of ``init_rpc``; ``savers``: processes that write checkpoints, by the ranks of their groups;
    ``stream``: the seed and position of the default random stream of its threads, or None: that of the process."""

    rpc = None

    def __init__(self, stream=None):
        self.stream = stream and (ctypes.c_int64 * 2)(*stream)
        self.default, self.groups, self.count, self.names, self.names_given, self.owned = None, [], 0, {}, {}, None
        self.ring, self.asked, self.dumped, self.watchdog = None, None, False, None
        self.dumping, self.savers = threading.Lock(), {}

    def end(self):
        """Stop the background services other than the groups."""
        if self.watchdog is not None:
            self.watchdog.end()
        for saver in self.savers.values():
            saver.end()

    def enter(self):
        """Make the calling thread belong to this world: it works for a thread that acts as a process."""
        OF_THREAD.world = self
        mine.stream = ctypes.addressof(self.stream) if self.stream else 0

    def add(self, group):
        self.groups.append(group)
        self.names[group.group_name] = group

    def rename(self, group, name: str):
        """Change the name of a group."""
        self.names.pop(group.group_name, None)
        group.group_name = name
        self.names[name] = group

    def leave(self, group):
        self.groups.remove(group)
        self.names.pop(group.group_name, None)


PROCESS = World()
OF_THREAD = threading.local()
ISOLATED = False  # True if threads act as processes


def here() -> World:
    """Return the world of the calling thread: the process's, or its own in threads that act as processes."""
    found = getattr(OF_THREAD, "world", None)
    if found is None:
        found = PROCESS
        if ISOLATED:
            found = OF_THREAD.world = World()
    return found


def isolate(enabled: bool):
    """Set if threads that start later act as processes, each with a world of its own; the calling one stays in the
    world it has."""
    global ISOLATED
    here().enter()
    ISOLATED = bool(enabled)


class Groups(type):
    """``group.WORLD`` is the group of now."""

    @property
    def WORLD(cls):
        return here().default

    @WORLD.setter
    def WORLD(cls, value):
        here().default = value


class GroupMember(metaclass=Groups):
    """The value that a process gets for a group to which it does not belong."""

    NON_GROUP_MEMBER = -100


class group(metaclass=Groups):
    """The groups that have names."""

    NON_GROUP_MEMBER = GroupMember.NON_GROUP_MEMBER
