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
