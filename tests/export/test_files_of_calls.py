"""Calls that PyTorch writes as an overload which their arguments choose: both libraries read each other's files, and
what they were decomposed to."""
import operator

import numpy as np
import pytest

import rushlight as rl

from .test_files_of_models import leaves, saved

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore")

X = np.random.default_rng(0).random((2, 3, 8, 8), np.float32)
GRID = np.random.default_rng(1).random((2, 4, 4, 2), np.float32) * 2 - 1
WHOLE = (X * 9).astype(np.int32)


def resizes() -> dict:
    found = {}
    for mode in ("nearest", "bilinear", "bicubic", "area", "nearest-exact"):
        corners = {"align_corners": True} if mode.startswith("bi") else {}
        for options in ({"size": (16, 16)}, {"size": (5, 7)}, {"scale_factor": 2}, {"scale_factor": (0.5, 1.5)},
                        {"size": 11, **corners}, {"scale_factor": 1.7, "recompute_scale_factor": True}):
            found[f"{mode} {options}"] = (lambda L, x, mode=mode, options=options: L.nn.functional.interpolate(
                x, mode=mode, **options), X)
    found["linear"] = (lambda L, x: L.nn.functional.interpolate(x[0], size=9, mode="linear"), X)
    found["trilinear"] = (lambda L, x: L.nn.functional.interpolate(x[None], scale_factor=2, mode="trilinear"), X)
    return found


def grids() -> dict:
    return {f"grid {mode} {padding}": (lambda L, x, g, mode=mode, padding=padding: L.nn.functional.grid_sample(
        x, g, mode, padding, align_corners=False), X, GRID)
        for mode in ("bilinear", "nearest", "bicubic") for padding in ("zeros", "border", "reflection")}


def distinct() -> dict:
    found = {}
    for inverse in (False, True):
        for counts in (False, True):
            for dim in (None, 1):
                found[f"unique {inverse} {counts} {dim}"] = (
                    lambda L, x, inverse=inverse, counts=counts, dim=dim: L.unique(
                        x[0, 0].round(), return_inverse=inverse, return_counts=counts, dim=dim), X)
    return found


def bits() -> dict:
    """Python's operators on integers, by a tensor and a number, in place and not."""
    names = ("and_", "or_", "xor", "lshift", "rshift", "iand", "ior", "ixor", "ilshift", "irshift")
    return {f"{name} {other}": (lambda L, x, name=name, other=other: getattr(operator, name)(
        x + 0, x % 3 if other == "tensor" else 2), WHOLE) for name in names for other in ("tensor", "number")}


def written(L, x):
    y = x.clone()
    y[:, 1] = 0
    y[0, [0, 2]] = 1
    y[y > 0.7] = 2
    y[L.tensor([0, 1]), :, L.tensor([1, 2])] += 1
    return y


SELECTED = {
    "mask": (lambda L, x: x[x > 0.5], X),
    "mask of rows": (lambda L, x: (x[x[:, 0, 0, 0] > 0.0], x[:, x[0, :, 0, 0] > 0.3]), X),
    "positions": (lambda L, x: (x.nonzero(as_tuple=True), L.where(x > 0.5), x.nonzero(),
                                x[0, 0, 0].nonzero(as_tuple=True)), X),
    "written": (written, X)}
CALLS = {**resizes(), **grids(), **distinct(), **bits(), **SELECTED}
QUICK = ("bilinear {'size': (5, 7)}", "grid nearest border", "unique False True None", "and_ tensor", "mask",
         "positions", "written", "linear")


@pytest.mark.parametrize("name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.long)
                                  for name in CALLS])
def test_calls_come_back(name):
    call, *given = CALLS[name]
    for source, target in ((torch, rl), (rl, torch)):
        class Calling(source.nn.Module):
            def forward(self, *args):
                return call(source, *args)

        wanted = leaves(call(source, *map(source.from_numpy, given)), source)
        whole = source.export.export(Calling(), tuple(map(source.from_numpy, given)))
        for program in (whole, whole.run_decompositions()):
            found = leaves(target.export.load(saved(program, source)).module()(*map(target.from_numpy, given)), target)
            for one, other in zip(found, wanted, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
