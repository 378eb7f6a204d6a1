"""PyTorch looks through all of its operators twice for each program; they do not change."""
import functools
import importlib.util

if importlib.util.find_spec("torch") is not None:
    from torch._export import utils

    utils._materialize_cpp_cia_ops = functools.cache(utils._materialize_cpp_cia_ops)
