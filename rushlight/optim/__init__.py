"""Optimizers and learning rate schedules."""
from . import lr_scheduler
from .algorithms import ASGD, SGD, Adadelta, Adafactor, Adagrad, Adam, Adamax, AdamW, Muon, NAdam, RAdam, RMSprop, Rprop, SparseAdam
from .lbfgs import LBFGS
from .optimizer import Optimizer

__all__ = ["ASGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "LBFGS", "Muon", "NAdam", "Optimizer", "RAdam", "RMSprop", "Rprop", "SGD", "SparseAdam",
           "lr_scheduler"]


def __getattr__(name):
    """Rooms that few programs enter are imported when they are first asked for."""
    from importlib import import_module

    if name == "swa_utils":
        return import_module(".swa_utils", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
