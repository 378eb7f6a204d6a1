"""Modules that hold modules or parameters."""
from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Iterable, Mapping

from ..._src.core.advice import deprecated
from ..._src.core.native import Tensor
from ..parameter import Parameter
from .module import Module


class _Row(Module):
    """Modules in a row, by integer or slice."""

    def _rush_key(self, index):
        """The name of the module at an index; IndexError outside."""
        size, index = len(self), operator.index(index)
        if not -size <= index < size:
            raise IndexError(f"index {index} is out of range")
        return list(self._modules)[index % size]

    def _rush_enter(self, modules):
        """Modules named by their places."""
        self._modules = OrderedDict((str(place), module) for place, module in enumerate(modules))

    def __setitem__(self, index, module):
        setattr(self, self._rush_key(index), module)

    def __delitem__(self, index):
        for key in (list(self._modules)[index] if isinstance(index, slice) else [self._rush_key(index)]):
            delattr(self, key)
        self._rush_enter(self)

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules.values())

    def __iadd__(self, modules):
        return self.extend(modules)

    def append(self, module):
        """Adds a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def pop(self, key):
        """Removes and returns the module at an index."""
        found = self[key]
        del self[key]
        return found


class Sequential(_Row):
    """Modules applied one after the other.

    >>> torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU())(torch.ones(2, 3)).shape
    torch.Size([2, 4])
    """

    def __init__(self, *args):
        super().__init__()
        entries = args[0].items() if len(args) == 1 and isinstance(args[0], OrderedDict) else ((str(k), m)
                                                                                               for k, m in enumerate(
                                                                                                       args))
        for name, module in entries:
            self.add_module(name, module)

    def __getitem__(self, index):
        if isinstance(index, slice):
            return type(self)(OrderedDict(list(self._modules.items())[index]))
        return self._modules[self._rush_key(index)]

    def __add__(self, other):
        if not isinstance(other, Sequential):
            raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")
        return Sequential(*self, *other)

    def __mul__(self, times):
        if not isinstance(times, int) or times <= 0:
            raise (TypeError if not isinstance(times, int)
                   else ValueError)("a Sequential is repeated a positive whole number of times")
        return Sequential(*(m for _ in range(times) for m in self))

    __rmul__ = __mul__

    def insert(self, index, module):
        """Puts a module before an index."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        size = len(self)
        if not -size <= index <= size:
            raise IndexError(f"Index out of range: {index}")
        modules = list(self)
        modules.insert(index, module)
        self._rush_enter(modules)
        return self

    def extend(self, sequential):
        """Adds modules at the end."""
        for module in list(sequential):
            self.append(module)
        return self

    def forward(self, input):
        for module in self:
            input = module(input)
        return input


def runs(modules):
    """Equal neighbours as (first, last, text)."""
    out = []
    for k, module in enumerate(modules):
        text = repr(module)
        if out and out[-1][2] == text:
            out[-1][1] = k
        else:
            out.append([k, k, text])
    return out


class ModuleList(_Row):
    """A list of modules.

    >>> len(torch.nn.ModuleList([torch.nn.Linear(2, 2), torch.nn.ReLU()]))
    2
    """

    def __init__(self, modules=None):
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def __getitem__(self, index):
        if isinstance(index, slice):
            return type(self)(list(self._modules.values())[index])
        return self._modules[self._rush_key(index)]

    def __add__(self, other):
        return ModuleList([*self, *other])

    def __dir__(self):
        return [k for k in super().__dir__() if not k.isdigit()]

    def extend(self, modules):
        """Adds modules at the end."""
        if not isinstance(modules, Iterable):
            raise TypeError(f"ModuleList.extend should be called with an iterable, but got {type(modules).__name__}")
        for module in modules:
            self.append(module)
        return self

    def insert(self, index, module):
        """Puts a module before an index."""
        modules = list(self)
        modules.insert(index, module)
        self._rush_enter(modules)

    def __repr__(self):
        if not len(self):
            return self._get_name() + "()"
        lines = [f"({a}): {text}" if a == b else f"({a}-{b}): {b - a + 1} x {text}" for a, b, text in runs(self)]
        return self._get_name() + "(\n  " + "\n  ".join(line.replace("\n", "\n  ") for line in lines) + "\n)"


class Container(Module):
    """Modules by keywords; deprecated: any Module holds others."""

    def __init__(self, **kwargs):
        deprecated("nn.Container", "a subclass of nn.Module", FutureWarning)
        super().__init__()
        for name, module in kwargs.items():
            self.add_module(name, module)


class ModuleDict(Module):
    """A dictionary of modules.

    >>> list(torch.nn.ModuleDict({"a": torch.nn.ReLU(), "b": torch.nn.Tanh()}))
    ['a', 'b']
    """

    def __init__(self, modules=None):
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key):
        return self._modules[key]

    def __setitem__(self, key, module):
        self.add_module(key, module)

    def __delitem__(self, key):
        del self._modules[key]

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules)

    def __contains__(self, key):
        return key in self._modules

    def clear(self):
        self._modules.clear()

    def pop(self, key):
        found = self[key]
        del self[key]
        return found

    def keys(self):
        return self._modules.keys()

    def items(self):
        return self._modules.items()

    def values(self):
        return self._modules.values()

    def update(self, modules):
        """Adds all modules of a mapping or of (name, module) pairs."""
        if not isinstance(modules, Iterable):
            raise TypeError(
                "ModuleDict.update should be called with an iterable of key/value pairs, but got "
                f"{type(modules).__name__}")
        for key, module in (modules.items() if isinstance(modules, (Mapping, ModuleDict)) else modules):
            self[key] = module


def described(value):
    if isinstance(value, Tensor):
        return (f"{'Parameter' if isinstance(value, Parameter) else 'Tensor'} containing: "
                f"[{value.type() if not isinstance(value, Parameter) else 'torch.float32'} of size "
                f"{'x'.join(map(str, value.shape))}]")
    return f"Object of type: {type(value).__name__}"


class ParameterList(Module):
    """A list of parameters.

    >>> len(torch.nn.ParameterList([torch.ones(2), torch.ones(3)]))
    2
    """

    def __init__(self, values=None):
        super().__init__()
        self._size = 0
        if values is not None:
            self += values

    def _rush_key(self, index):
        index = operator.index(index)
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} is out of range")
        return str(index % len(self))

    def __getitem__(self, index):
        if isinstance(index, slice):
            return type(self)([self[k] for k in range(len(self))[index]])
        return getattr(self, self._rush_key(index))

    def __setitem__(self, index, value):
        if isinstance(value, Tensor) and not isinstance(value, Parameter):
            value = Parameter(value)
        setattr(self, self._rush_key(index), value)

    def __len__(self):
        return self._size

    def __iter__(self):
        return iter(self[k] for k in range(len(self)))

    def __iadd__(self, values):
        return self.extend(values)

    def append(self, value):
        """Adds a parameter at the end; tensors become parameters."""
        self._size += 1
        self[self._size - 1] = value
        return self

    def extend(self, values):
        """Adds parameters at the end."""
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(f"ParameterList.extend should be called with an iterable, but got {type(values).__name__}")
        for value in values:
            self.append(value)
        return self

    def extra_repr(self):
        return "\n".join(f"  ({k}): {kind_of(p)} containing: [{p.dtype} of size {'x'.join(map(str, p.shape))}]"
                         if isinstance(p, Tensor)
                         else f"  ({k}): Object of type: {type(p).__name__}" for k, p in enumerate(self))


def kind_of(value):
    return "Parameter" if isinstance(value, Parameter) else "Tensor"


class ParameterDict(Module):
    """A dictionary of parameters."""

    def __init__(self, parameters=None):
        super().__init__()
        self._keys = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key):
        if key not in self._keys:
            raise KeyError(key)
        return getattr(self, str(key))

    def __setitem__(self, key, value):
        self._keys[key] = None
        if isinstance(value, Tensor) and not isinstance(value, Parameter):
            value = Parameter(value)
        setattr(self, str(key), value)

    def __delitem__(self, key):
        del self._keys[key]
        delattr(self, str(key))

    def __len__(self):
        return len(self._keys)

    def __iter__(self):
        return iter(self._keys)

    def __contains__(self, key):
        return key in self._keys

    def __reversed__(self):
        return reversed(list(self._keys))

    def keys(self):
        return self._keys.keys()

    def items(self):
        return ((k, self[k]) for k in self._keys)

    def values(self):
        return (self[k] for k in self._keys)

    def get(self, key, default=None):
        return self[key] if key in self else default

    def setdefault(self, key, default=None):
        if key not in self:
            self[key] = default
        return self[key]

    def pop(self, key):
        value = self[key]
        del self[key]
        return value

    def popitem(self):
        """Removes the latest pair and returns it."""
        key = next(reversed(self._keys))
        return key, self.pop(key)

    def fromkeys(self, keys, default=None):
        """A new dictionary with one value under each of the keys."""
        return ParameterDict((k, default) for k in keys)

    def copy(self):
        return ParameterDict(OrderedDict(self.items()))

    def clear(self):
        for key in list(self._keys):
            del self[key]

    def update(self, parameters):
        """Adds all parameters of a mapping or of (name, parameter) pairs."""
        for key, value in (parameters.items() if isinstance(parameters, (Mapping, ParameterDict)) else parameters):
            self[key] = value

    def extra_repr(self):
        return "\n".join(f"  ({k}): {kind_of(p)} containing: [{p.dtype} of size {'x'.join(map(str, p.shape))}]"
                         if isinstance(p, Tensor)
                         else f"  ({k}): Object of type: {type(p).__name__}" for k, p in self.items())
