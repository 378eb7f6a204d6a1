"""Memory of the host, carried by way of a device: objects and bytes, in groups that have GPUs alone."""
from __future__ import annotations

import contextlib

from ..engine import Engine, Region
from .flights import Job


class HostThrough(Engine):
    """An engine for host memory over one for device memory: data to send are copied to the device, and received data
    are copied back."""

    def __init__(self, find, rank: int, size: int, timeout: float):
        self.find, self.rank, self.size, self.timeout = find, rank, size, timeout

    @contextlib.contextmanager
    def there(self, given: list, taken: list):
        """Yield (the engine, device regions of the inputs, those of the outputs, which are copied back)."""
        engine, held = self.find(), {}
        provider, index, kept = engine.provider, engine.index, []

        def place(region):
            key = region.address, region.nbytes
            if key not in held:
                storage = provider.storage(index, region.nbytes)
                kept.append(storage)
                held[key] = Region(storage.address, region.nbytes, region.name, region.itemsize)
            return held[key]

        sent = [place(region) for region in given]
        for region, copy in zip(given, sent):
            if region.nbytes:
                provider.upload(index, copy.address, region.address, region.nbytes, False)
        yield engine, sent, [place(region) for region in taken]
        for region in taken:
            if region.nbytes:
                provider.download(index, region.address, place(region).address, region.nbytes, False)

    def carried(self, name: str, given: list, taken: list, call, engine=None):
        with self.there(given, taken) as (found, sent, got):
            carrier = engine(found) if engine is not None else found
            carrier.issue([Job(lambda: call(carrier, sent, got), (), [], None, name)], True).wait()

    def all_reduce(self, memory, kind, scale):
        self.carried("all_reduce", [memory], [memory], lambda e, _, got: e.all_reduce(got[0], kind, 1.0))

    def broadcast(self, memory, root):
        self.carried("broadcast", [memory], [memory], lambda e, _, got: e.broadcast(got[0], root))

    def all_gather(self, targets, memory):
        self.carried("all_gather", [memory], targets, lambda e, sent, got: e.all_gather(got, sent[0]))

    def gather_whole(self, target, memory):
        self.carried("all_gather", [memory], [target], lambda e, sent, got: e.gather_whole(got[0], sent[0]))

    def reduce_scatter_whole(self, target, source, kind, scale):
        self.carried("reduce_scatter", [source], [target],
                     lambda e, sent, got: e.reduce_scatter_whole(got[0], sent[0], kind, 1.0))

    def gather(self, targets, memory, root):
        self.carried("gather", [memory], targets or [],
                     lambda e, sent, got: e.gather(got if targets is not None else None, sent[0], root))

    def scatter(self, target, sources, root):
        self.carried("scatter", sources or [], [target],
                     lambda e, sent, got: e.scatter(got[0], sent if sources is not None else None, root))

    def reduce_scatter(self, target, sources, kind, scale):
        self.carried("reduce_scatter", sources, [target],
                     lambda e, sent, got: e.reduce_scatter(got[0], sent, kind, 1.0))

    def all_to_all(self, targets, sources):
        self.carried("all_to_all", sources, targets, lambda e, sent, got: e.all_to_all(got, sent))

    def barrier(self):
        self.carried("barrier", [], [], lambda e, _, got: e.barrier())

    def send(self, memory, peer, tag):
        self.carried("send", [memory], [], lambda e, sent, _: e.send(sent[0], 1, tag),
                     lambda e: e.pair(self.rank, peer, tag))

    def receive(self, memory, peer, tag):
        if peer is None:
            raise RuntimeError("NCCL does not receive from any source: name the rank that sends")
        self.carried("recv", [], [memory], lambda e, _, got: e.receive(got[0], 0, tag),
                     lambda e: e.pair(peer, self.rank, tag))
        return peer

    def close(self):
        pass

    abort = close
