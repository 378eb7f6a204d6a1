"""Neural networks."""
from .._src.core.later import later
from . import functional, init
from .parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter
from . import modules, utils
from .modules import *  # noqa: F401,F403
from .modules import Module

for _name, _value in vars(modules).items():
    if isinstance(_value, type) and issubclass(_value, Module):
        globals()[_name] = _value


__getattr__ = later(__name__, {"parallel": ("DataParallel", "data_parallel")})


def factory_kwargs(kwargs):
    """Return the factory arguments in ``kwargs``: device, dtype and memory_format, and those of a dict
    ``factory_kwargs`` among them.  TypeError for other names, or for a duplicate.

    >>> factory_kwargs({"device": "cpu", "factory_kwargs": {"dtype": "float32"}})
    {'dtype': 'float32', 'device': 'cpu'}
    """
    names, rest = ("device", "dtype", "memory_format"), dict(kwargs or {})
    found = dict(rest.pop("factory_kwargs", {}))
    wrong = (rest.keys() | found.keys()) - set(names)
    if wrong:
        raise TypeError(f"unexpected kwargs {wrong}")
    for name, value in rest.items():
        if name in found:
            raise TypeError(f"{name} specified twice, in **kwargs and in factory_kwargs")
        found[name] = value
    return found
