"""Neural networks."""
from . import functional, init
from .parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter
from . import modules, utils
from .modules import *  # noqa: F401,F403
from .modules import Module

for _name, _value in vars(modules).items():
    if isinstance(_value, type) and issubclass(_value, Module):
        globals()[_name] = _value


def __getattr__(name):
    """Rooms that few programs enter are imported when they are first asked for."""
    from importlib import import_module
    from importlib.util import find_spec

    if name in ("DataParallel", "data_parallel"):
        return getattr(import_module(".parallel", __name__), name)
    if not name.startswith("__") and find_spec(f"{__name__}.{name}"):
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
