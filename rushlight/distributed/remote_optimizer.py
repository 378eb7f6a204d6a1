"""Optimizers for parameters that other workers keep."""
from __future__ import annotations

import threading

from . import autograd, rpc

GUARD = threading.Lock()  # one step at a time in a process


class LocalOptimizer:
    """An optimizer of one worker, over values of references."""

    def __init__(self, optimizer_class, references, *args, **kwargs):
        self.parameters = [reference.local_value() for reference in references]
        self.optimizer = optimizer_class(self.parameters, *args, **kwargs)

    def step(self, context_id: int):
        """A step with the gradients of a context."""
        gradients = {id(leaf): gradient for leaf, gradient in autograd.get_gradients(context_id).items()}
        with GUARD:
            before = [parameter.grad for parameter in self.parameters]
            for parameter in self.parameters:
                parameter.grad = gradients.get(id(parameter))
            try:
                self.optimizer.step()
            finally:
                for parameter, gradient in zip(self.parameters, before):
                    parameter.grad = gradient


class DistributedOptimizer:
    """An optimizer of ``optimizer_class`` in each worker that keeps some of the parameters.

    ``params_rref``: references to parameters; other arguments are the optimizer's.
    """

    def __init__(self, optimizer_class, params_rref, *args, **kwargs):
        owners: dict = {}
        for reference in params_rref:
            owners.setdefault(reference.owner(), []).append(reference)
        self.optimizers = [rpc.remote(owner, LocalOptimizer, (optimizer_class, references, *args), kwargs)
                           for owner, references in owners.items()]
        for made in self.optimizers:
            made._get_type()  # raises what it raised

    def step(self, context_id: int):
        """A step in all workers, with the gradients of a context of ``torch.distributed.autograd``."""
        waiting = [optimizer.rpc_async().step(context_id) for optimizer in self.optimizers]
        for future in waiting:
            future.wait()
