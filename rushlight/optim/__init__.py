"""Optimizers and learning rate schedules."""
from . import lr_scheduler  # noqa: F401
from .algorithms import (ASGD, SGD, Adadelta, Adafactor, Adagrad, Adam, Adamax, AdamW, Muon, NAdam, RAdam, RMSprop,
                         Rprop, SparseAdam)  # noqa: F401
from .lbfgs import LBFGS  # noqa: F401
from .optimizer import Optimizer  # noqa: F401
