"""Messages of calls: pickles with plain tensors stored separately, so that gradients can follow them.

A peer that connects proves itself by a secret from the store; messages of such a worker are unpickled.
"""
from __future__ import annotations

import io
import pickle
import struct
import traceback

from ..._src.core.native import Tensor
from ...nn.parameter import Parameter
from ...utils._pytree import tree_leaves

LENGTH = struct.Struct("<Q")


class Writer(pickle.Pickler):
    """Pickles an object; tensors, and parameters that are given as arguments themselves, are put into ``tensors``."""

    def __init__(self, file, given):
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.tensors, self.places = [], {}
        self.parameters = {id(x) for x in given if isinstance(x, Parameter)}

    def persistent_id(self, value):
        if type(value) is not Tensor and id(value) not in self.parameters:
            return None
        if id(value) not in self.places:
            self.places[id(value)] = len(self.tensors)
            self.tensors.append(value)
        return self.places[id(value)]


class MessageUnpickler(pickle.Unpickler):
    """Reads a pickle of ``Writer``, with the tensors that belong to it."""

    def __init__(self, file, tensors):
        super().__init__(file)
        self.tensors = tensors

    def persistent_load(self, number):
        return self.tensors[number]


def written(value, given=()):
    """Return (bytes, tensors stored separately) of an object."""
    file = io.BytesIO()
    writer = Writer(file, given)
    writer.dump(value)
    return file.getvalue(), writer.tensors


def packed(value, recorded=None) -> bytes:
    """Return an object as a message.  ``recorded(tensors)`` gets the tensors that require gradients, and returns the
    information on them for the other side."""
    data, tensors = written(value, tree_leaves(value))
    wants = [k for k, tensor in enumerate(tensors) if tensor.requires_grad]
    told = recorded([tensors[k] for k in wants]) if recorded is not None and wants else None
    return pickle.dumps((data, [tensor.detach() for tensor in tensors], wants if told is not None else [], told))


def unpacked(message: bytes, received=None):
    """Return the object of a message.  ``received(tensors, told)`` gets the tensors that require gradients."""
    data, tensors, wants, told = pickle.loads(message)
    if wants:
        for k in wants:
            tensors[k].requires_grad_()
        received([tensors[k] for k in wants], told)
    return MessageUnpickler(io.BytesIO(data), tensors).load()


class Failure:
    """An error of a call, as it is sent back to the caller."""

    def __init__(self, error: BaseException, where):
        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        self.message, self.kind = f"On {where}:\n{error!r}\n{text}", type(error)

    def __getstate__(self):
        try:
            pickle.dumps(self.kind)
        except Exception:  # noqa: BLE001 - a type of a function's own cannot be named elsewhere
            return {"message": self.message, "kind": RuntimeError}
        return self.__dict__

    def error(self) -> BaseException:
        """Return the error, of the same type if that takes one string, else RuntimeError."""
        try:
            return self.kind(self.message) if issubclass(self.kind, Exception) else RuntimeError(self.message)
        except Exception:  # noqa: BLE001 - a type that wants other arguments
            return RuntimeError(self.message)
