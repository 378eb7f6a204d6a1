"""Sharded operators: PyTorch's database of operators, each entry under placements of its tensors over meshes of 2 and
2 x 2, against the plain call.

``python -m tests.fuzz.sharding [--names A,B] [--cases N] [--show]`` prints how many entries agree in all cases, forward
and backward.
"""
from __future__ import annotations

import argparse
import datetime
import itertools
import random
import sys
import warnings

import numpy as np
import torch
from torch.testing._internal.common_methods_invocations import op_db

import rushlight as rl
from rushlight._src.core.settings import settings
from rushlight.distributed import threads
from rushlight.distributed.tensor import (DTensor, Partial, Replicate, Shard, distribute_tensor, init_device_mesh,
                                          transfer)
from tests.ops.database import elements, filled, function, ours, tensors, title

GRIDS = (2,), (2, 2)
PATIENCE = datetime.timedelta(minutes=5)  # bounds a hang
DTYPES = torch.float64, torch.int64, torch.bool, torch.complex128
# contents are whatever was there
UNDEFINED = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}


# entries whose samples are not the arguments of the function that users call
CALLS = {"svd_lowrank": lambda a, b, **how: rl.svd_lowrank(a @ b.mT, **how),
         "pca_lowrank": lambda a, b, **how: rl.pca_lowrank(a @ b.mT, **how),
         **{name: (lambda x, name=name: getattr(x, name)) for name in ("T", "H", "mT", "mH")}}
WITHOUT_GRADIENT = {"nextafter"}  # whose gradient PyTorch has raise


def written(name):
    """The method of this name that writes, on a copy."""
    method = getattr(rl.Tensor, f"{name}_", None)
    return method and (lambda x, *args, **kwargs: method(x.clone(), *args, **kwargs))


class Case:
    """An entry's call on one sample."""

    def __init__(self, info):
        self.info, self.sample = info, None
        self.call = CALLS.get(info.name) or function(info.name) or written(info.name)
        dtype = next((d for d in DTYPES if d in info.dtypes), None)
        if self.call is None or dtype is None:
            return
        torch.manual_seed(0)
        found = [s for s in itertools.islice(info.sample_inputs("cpu", dtype, requires_grad=info.supports_autograd
                                                                and dtype.is_floating_point), 40)]
        fitting = [s for s in found if 0 < elements((s.input, s.args, s.kwargs)) <= 400] or found[:1]
        for chosen in sorted(fitting, key=lambda s: abs(elements((s.input, s.args, s.kwargs)) - 60)):
            try:
                self.sample = ours([chosen.input, *chosen.args]), ours(chosen.kwargs)
                return
            except NotImplementedError:
                continue

    def places(self):
        """(path, tensor) of the tensors that may be split."""
        return [(path, x) for path, x in tensors(self.sample) if x.dim()]

    def run(self, given):
        """The results on other tensors, and the gradients of those that want one."""
        args, kwargs = filled(self.sample, given)
        judged = self.info.name.startswith(("masked.", "cholesky_inverse"))
        call = self.call if judged else lambda *a, **k: self.info.gradcheck_wrapper(self.call, *a, **k)
        result = call(*args, **kwargs)
        outputs = [y for _, y in tensors(result)] if isinstance(result, (rl.Tensor, list, tuple)) else [result]
        wanted = [x for x in given.values() if x.requires_grad]
        live = [y for y in outputs if isinstance(y, rl.Tensor) and y.requires_grad]
        gradients = []
        if wanted and live and self.info.name not in WITHOUT_GRADIENT:
            cotangents = [weights(y) for y in live]
            gradients = rl.autograd.grad(live, wanted, cotangents, allow_unused=True)
        return [*outputs, *gradients]


def weights(y):
    """Cotangents that are the same for DTensors and plain tensors."""
    values = rl.from_numpy(np.random.default_rng(0).standard_normal(tuple(y.shape))).to(y.dtype)
    return distribute_tensor(values, y.device_mesh, [Replicate()] * y.device_mesh.ndim,
                             src_data_rank=None) if isinstance(y, DTensor) else values


def options(x):
    """Return the placements of a tensor along one mesh dimension."""
    found = [Replicate(), *(Shard(d) for d in range(x.dim()))]
    return [*found, Partial()] if x.is_floating_point() else found


def placements_of(places, grid, count, seed):
    """Placements of all tensors, ``count`` times: each kind for one tensor, then mixtures."""
    rng = random.Random(seed)
    alone = [{path: (option,) * len(grid) if len(grid) == 1 else (option, rng.choice(options(x)))}
             for path, x in places for option in options(x)]
    rng.shuffle(alone)
    mixed = [{path: tuple(rng.choice(options(x)) for _ in grid) for path, x in places} for _ in range(count)]
    whole = (Replicate(),) * len(grid)
    chosen = (alone[:count // 2] + mixed)[:count]
    return [{path: one.get(path, whole) for path, _ in places} for one in chosen]


def laid(x, mesh, placements):
    """A tensor as a DTensor; its terms are shares of it."""
    local = x.detach()
    for k, placement in enumerate(placements):
        if placement.is_partial():
            local = local * (0.25, 0.75)[mesh.get_coordinate()[k]]
    local_placements = [Replicate() if p.is_partial() else p for p in placements]
    made = distribute_tensor(local, mesh, local_placements, src_data_rank=None)
    if any(p.is_partial() for p in placements):
        made = DTensor.from_local(made.to_local(), mesh, placements, shape=x.shape, stride=x.stride())
    return made.requires_grad_(x.requires_grad)


def values(x):
    """The elements of a plain tensor as an array."""
    x = x.detach().to_dense() if x.layout is not rl.strided else x.detach()
    wide = {rl.bfloat16: rl.float32, rl.float16: rl.float32, rl.complex32: rl.complex64}.get(x.dtype, x.dtype)
    return x.to(wide).resolve_conj().resolve_neg().numpy()


def differs(got, wanted) -> str | None:
    """How results differ, if they do."""
    if len(got) != len(wanted):
        return f"{len(got)} results, not {len(wanted)}"
    for k, (a, b) in enumerate(zip(got, wanted)):
        if not isinstance(b, rl.Tensor):
            if not (a is b or a == b):
                return f"result {k} is {a!r}, not {b!r}"
            continue
        a = a.full_tensor() if isinstance(a, DTensor) else a
        if tuple(a.shape) != tuple(b.shape) or a.dtype is not b.dtype:
            return f"result {k} is {a.dtype}{list(a.shape)}, not {b.dtype}{list(b.shape)}"
        x, y = (values(v) for v in (a, b))
        if not np.allclose(x, y, rtol=1e-6, atol=1e-8, equal_nan=True):
            return f"result {k} differs by {np.abs(np.asarray(x, complex) - y).max():.3g}"
    return None


def check(rank, case, grid, table, wanted):
    """What is wrong under each placement, in one process."""
    mesh, found = init_device_mesh("cpu", grid), []
    for chosen in table:
        rl.distributed.barrier()
        if rank == 0:
            rl.manual_seed(7)
        rl.distributed.barrier()
        problem = None
        try:
            given = {path: laid(x, mesh, chosen[path]) for path, x in case.places()}
            problem = differs(case.run(given), wanted)
        except (RuntimeError, NotImplementedError, TypeError, ValueError, IndexError, AttributeError, AssertionError,
                KeyError) as error:
            problem = f"{type(error).__name__}: {str(error)[:300]}"
            if "--trace" in sys.argv and rank == 0:
                import traceback
                traceback.print_exc()
        found.append(problem)
    return found


def examined(info, cases: int) -> str | None:
    """What is wrong with an entry: None where nothing is; "no sample" where it has no counterpart."""
    case = Case(info)
    if case.sample is None:
        return "no sample"
    rl.manual_seed(7)
    try:
        wanted = case.run({path: x.detach().clone().requires_grad_(x.requires_grad) for path, x in case.places()})
    except Exception as error:
        return f"plain: {type(error).__name__}: {error}"
    if info.name in UNDEFINED or not case.places():  # without a tensor there is nothing to split
        return None
    for grid in GRIDS:
        table = placements_of(case.places(), grid, cases, info.name)
        for found in threads.run(int(np.prod(grid)), check, case, grid, table, wanted, timeout=PATIENCE):
            for chosen, problem in zip(table, found):
                if problem:
                    return f"{grid} {list(chosen.values())}: {problem}"
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--names", default="")
    parser.add_argument("--cases", type=int, default=8)
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--trace", action="store_true")
    parser.add_argument("--part", default="0/1", help="k/n: every n-th entry from the k-th on")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    with settings.set(kernels=False, store=False):  # what is tested are rules, not kernels
        report(options)


def report(options):
    names, good, missing = set(filter(None, options.names.split(","))), 0, []
    entries = [info for info in op_db if not names or info.name in names or title(info) in names]
    first, step = map(int, options.part.split("/"))
    entries = entries[first::step]
    for k, info in enumerate(entries):
        if options.show and k % 20 == 19:
            print(f"{good} of {k} so far, before {title(info)}", flush=True)
        try:
            problem = examined(info, options.cases)
        except Exception as error:
            problem = f"{type(error).__name__}: {str(error)[:300]}"
        good += problem is None
        if problem is not None:
            missing.append(title(info))
            if options.show:
                print(f"{title(info)}: {problem}", flush=True)
    whole = {k: v for k, v in transfer.COUNTS.items() if k.startswith("whole")}
    print(f"{good} of {len(entries)} entries agree; {len(whole)} operators ran on whole tensors: "
          f"{', '.join(sorted(k.split()[-1] for k in whole))}")
    print("missing:", ", ".join(missing))


if __name__ == "__main__":
    main()
