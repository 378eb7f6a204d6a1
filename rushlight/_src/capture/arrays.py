"""NumPy arrays under capture; fake_arrays.py maps NumPy's functions to operators."""
from __future__ import annotations


import numpy as np

from ..core.dtypes import FROM_NUMPY
from ..core.exchange import as_tensor, from_numpy, tensor
from ..core.native import Tensor
from ..core.settings import settings
from .errors import Break
from .parts import CALLED, Part
from .values import ArrayValue, Object, Sequence, Source, TensorValue

MAKERS = (np.array, np.asarray, np.ascontiguousarray, np.zeros, np.ones, np.empty, np.full, np.arange, np.linspace,
          np.eye, np.identity)
DISPATCHED = type(np.sum)  # functions that look up ``__array_function__`` of their arguments


class Arrays(Part, part="arrays"):
    """Capture component for arrays: each is a tensor that shares its memory."""

    needs = "classes", "framework", "guarding", "outside", "values"

    def wrap_array(self, value, source):
        """Return the Value of an array from outside; an opaque object if a tensor cannot share its memory."""
        from .fake_arrays import FakeArray, shared
        if not settings.trace_numpy or not shared(value):
            self.guarding.guard(f"type({{0}}) is {self.guarding.constant_name(type(value))}", source)
            return Object(value, source)
        self.guarding.guard(f"{self.guarding.constant_name(shared)}({{0}})", source)
        inner = from_numpy(value)
        self.outside.alive.append(inner)
        found = self.outside.wrap_tensor(inner, Source(None, f"{self.guarding.constant_name(from_numpy)}({source})"))
        array = FakeArray(found.fake)
        array.value = ArrayValue(array, source)
        return array.value

    def array_of_tensor(self, owner):
        """``tensor.numpy()``."""
        from .fake_arrays import FakeArray
        if owner.fake._rush_needs_grad or not owner.fake.dtype.in_numpy or self.classes.class_of(owner) is not Tensor:
            raise Break("RB015", "numpy()")
        return self.values.from_python(FakeArray(owner.fake))

    def tensor_of_array(self, value):
        """Return the tensor that shares an array's memory."""
        return self.values.from_python(value.array.fake)

    def holds_arrays(self, values) -> bool:
        """True if there is an array among values, or in lists and tuples among them."""
        return any(isinstance(v, ArrayValue) or isinstance(v, Sequence) and self.holds_arrays(v.items)
                   for v in map(self.values.force, values))

    def array_operation(self, function, again, a, b):
        """Evaluate an operator of an array; of a tensor and a NumPy scalar, which becomes a Python number, by
        ``again``."""
        if isinstance(a, TensorValue) or isinstance(b, TensorValue):
            return again(*(self.number_of_array(v) if isinstance(v, ArrayValue) else v for v in (a, b)))
        return self.framework.run_framework(function, [a, b], {})

    def number_of_array(self, value):
        """Return a NumPy scalar as a data-dependent number."""
        if not value.array.scalar:
            raise Break("RB004", "an operator of a tensor and an array")
        return self.framework.run_framework(type(value.array.fake).item, [self.tensor_of_array(value)], {})

    @CALLED.by(*MAKERS, told=True)
    def make_array(self, function, *arguments, **keywords):
        """Return an array made by the program: of known values, or of arrays, tensors and numbers."""
        from .fake_arrays import FakeArray, constant_array
        if not settings.trace_numpy:
            raise Break("RB001", f"{function.__name__}()")
        first = self.values.force(arguments[0]) if arguments else None
        if function in MAKERS[:3] and isinstance(first, (ArrayValue, TensorValue)):
            array = first if isinstance(first, ArrayValue) else self.array_of_tensor(first)
            if arguments[1:] or keywords:
                array = self.framework.run_framework(FakeArray.astype, [array, *arguments[1:]],
                                           {**keywords, "copy": self.values.from_python(function is np.array)})
            return self.framework.run_framework(np.copy, [array], {}) if function is np.array else array
        if function in MAKERS[:2] and self.holds_arrays(arguments):
            return self.framework.run_framework(np.stack, arguments, keywords)
        made = function(*map(self.values.known, arguments), **{k: self.values.known(v) for k, v in keywords.items()})
        if made.dtype not in FROM_NUMPY:
            raise Break("RB001", f"{function.__name__}() of {made.dtype}, which is not a tensor dtype")
        return self.values.from_python(constant_array(made, self.machine.recorder))

    def tensor_from_array(self, function, arguments, keywords):
        """``torch.from_numpy``, ``as_tensor`` and ``tensor`` of an array."""
        inner = self.tensor_of_array(self.values.force(arguments[0]))
        if function is tensor:
            inner = self.framework.run_framework(Tensor.clone, [inner], {})
        options = {k: v for k, v in zip(("dtype", "device"), arguments[1:])} | keywords
        return self.framework.run_framework(Tensor.to, [inner], options) if options else inner

    @CALLED.by(from_numpy, as_tensor, tensor, told=True)
    def from_array(self, function, data, *arguments, **keywords):
        if isinstance(self.values.force(data), ArrayValue):
            return self.tensor_from_array(function, [data, *arguments], keywords)
        if function is from_numpy:
            raise Break("RB001", "from_numpy() of an array that is not captured")
        return self.framework.tensor_of(function, [data, *arguments], keywords)
