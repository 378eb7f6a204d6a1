"""What ``benchmarks/zoo.py`` builds: models of timm, transformers and torch-geometric, and plain programs, all small,
fed by numbers from NumPy.

Each suite has ``NAMES`` and ``build(torch, name)``, which gives a ``Made``.
"""
from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

SUITES = ("images", "language", "graphs", "programs", "libraries")


@dataclass
class Made:
    """A model and what it is fed.  ``given`` are NumPy arrays (or dicts of them) by name; ``compute(model, **given)``
    gives outputs, any tree of tensors; ``prompt`` is what generation begins with, for models that generate; ``plain``:
    outputs without a gradient are compared too."""

    model: object
    given: dict
    compute: Callable = field(default=lambda model, **given: model(**given))
    prompt: dict | None = None
    plain: bool = False


def suite(name: str):
    return importlib.import_module(f"{__name__}.{name}")


def suite_of(name: str) -> str:
    """The suite that has the model of that name; StopIteration if none has."""
    return next(each for each in SUITES if name in suite(each).NAMES)


def build(torch, name: str) -> Made:
    """The model of that name, from whichever suite has it."""
    return suite(suite_of(name)).build(torch, name)


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def whole(low, high, *shape, seed=1):
    return np.random.default_rng(seed).integers(low, high, shape)
