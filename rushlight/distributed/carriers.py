"""Selection of a group's communication engine by the device of a tensor."""
from __future__ import annotations

from .._src.core.devices import device, provided
from .backends import HOST, STREAMED, Backend, available, streamed
from .engine import Engine
from .stores import PrefixStore


class Carriers:
    """Mixed into ``ProcessGroup``.  ``devices``: backends by kind of device; ``boards``: engines by device."""

    def name_for(self, kind: str) -> Backend | None:
        """Return the backend for a device type; None if there is none.  If no device type was named, the host's backend
        serves all: tensors are copied to the host's memory."""
        return self.devices.get(kind) or (None if self.backend_text is None or ":" in self.backend_text
                                          else self.devices.get(HOST))

    def streams_for(self, where) -> bool:
        """True if collectives on a device run on its streams."""
        return self.name_for(where.type) in STREAMED

    def engine_of(self, tensor, *others) -> Engine:
        """Return the engine for a tensor and others on its device.  RuntimeError if the group has none for it."""
        where = tensor._rush_meta.device
        for other in others:
            if other._rush_meta.device is not where and other._rush_meta.device != where:
                raise RuntimeError(f"tensors of one collective must be on one device, but there are {where} and "
                                   f"{other._rush_meta.device}")
        if where.provider.on_host:
            if self.on_host:
                return self.engine
        else:
            name = self.name_for(where.type)
            if name in STREAMED:
                return self.engine_at(where)
            if name is not None:
                return self.engine
        other = Backend.default_device_backend_map.get(where.type)
        missing = other in STREAMED and not available(other)
        raise RuntimeError(f"No backend type associated with device type {where.type}" + (
            f": {other} carries it, whose library was not found (pip install rushlight[{other}])" if missing else ""))

    def engine_at(self, where) -> Engine:
        """The engine of this rank's device."""
        found = self.boards.get(where)
        if found is None:
            with self.guard:
                found = self.boards.get(where)
                if found is None:
                    found = self.made_for(where, PrefixStore(f"{where.type} {len(self.boards)}", self._store))
                    self.hold(where, found)
        return found

    def made_for(self, where, store) -> Engine:
        make = streamed(self.devices[where.type])
        return make(where, store, self._rank, self._size, self.timeout.total_seconds(), self.device_options)

    def hold(self, where, engine: Engine):
        engine.ranks, engine.name = self.ranks, self.group_name
        self.boards[where] = engine

    @property
    def streamed_kind(self) -> str | None:
        """The device type whose collectives run on streams; None if there is none."""
        return next((kind for kind, name in self.devices.items() if name in STREAMED and kind != HOST), None)

    def own_device(self):
        """Return the device to use without a tensor: the bound one, or one already in use, else the thread's current
        one; if the program has not chosen any, one for each rank."""
        if self.bound_device_id is not None:
            return self.bound_device_id
        if self.boards:
            return next(iter(self.boards))
        kind = self.streamed_kind
        provider = provided(kind)
        index = provider.current() or self.ranks[self._rank] % max(provider.count(), 1)
        return device(kind, index)

    def own_engine(self, index: int | None = None) -> Engine | None:
        """Return the engine of a device (None: of ``own_device()``); None if no backend runs on streams."""
        kind = self.streamed_kind
        if kind is None:
            return None
        return self.engine_at(self.own_device() if index is None else device(kind, index))

    def bind(self, where):
        """The device of this rank is known: all ranks make their communicator now."""
        where = where if hasattr(where, "provider") else device(where)
        if where.index is None:
            raise ValueError(f"device_id {where} has no index")
        self.bound_device_id = where
        if self.name_for(where.type) in STREAMED and self._size > 1:
            self.engine_at(where).connect()

    def split_from(self, engine, color: int):
        """Make this group's communicator from that of a larger group, whose ranks all split it now."""
        where = self.bound_device_id
        store = PrefixStore(f"{where.type} {len(self.boards)}", self._store)
        self.hold(where, engine.split(color, self._rank, store, self._size, self.timeout.total_seconds(),
                                      self.device_options))
