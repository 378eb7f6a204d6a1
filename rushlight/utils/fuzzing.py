"""Tensors of random sizes, dtypes and strides for measurements: what ``torch.utils.benchmark`` calls fuzzers."""
from __future__ import annotations

import functools
import itertools
import math

import numpy as np

from .._src import flat as torch

TRIES = 1000  # draws of one set of parameters until one meets all constraints


def prod(values, base=1):
    """The product of numbers.

    >>> prod([2, 3], base=2)
    12
    """
    return functools.reduce(lambda a, b: a * int(b), values, base)


def dtype_size(dtype) -> int:
    """Bytes of an element."""
    return dtype.itemsize


class ParameterAlias:
    """A choice of a distribution: the value of another parameter."""

    def __init__(self, alias_to):
        self.alias_to = alias_to

    def __repr__(self):
        return f"ParameterAlias[alias_to: {self.alias_to}]"


class FuzzedParameter:
    """A number or choice that is drawn: "uniform" or "loguniform" from ``minval`` to ``maxval``, or one of the keys of
    a dict with their probabilities, which sum up to 1, else AssertionError.  ValueError for other distributions.
    Without ``strict`` bounds of numbers that are drawn by their logarithm may be off by rounding.

    >>> FuzzedParameter("k", 3, 3, "uniform").sample(np.random.RandomState(0))
    3
    """

    def __init__(self, name, minval=None, maxval=None, distribution=None, strict=False):
        self._name, self._minval, self._maxval = name, minval, maxval
        self._distribution, self.strict = distribution, strict
        if isinstance(distribution, dict):
            if not math.isclose(sum(distribution.values()), 1.0, rel_tol=1e-5):
                raise AssertionError(f"{name}: probabilities add up to {sum(distribution.values())}, not 1")
        elif distribution not in ("uniform", "loguniform"):
            raise ValueError(f"{name}: the distribution is 'uniform', 'loguniform' or a dict, not {distribution!r}")
        elif minval is None or maxval is None:
            raise ValueError(f"{name}: a range needs minval and maxval")

    @property
    def name(self):
        return self._name

    def sample(self, state):
        """A draw from a ``numpy.random.RandomState``."""
        if isinstance(self._distribution, dict):
            choices = list(self._distribution)
            return choices[int(state.choice(len(choices), p=list(self._distribution.values())))]
        if self._distribution == "uniform":
            whole = isinstance(self._minval, int) and isinstance(self._maxval, int)
            return int(state.randint(self._minval, self._maxval + 1)) if whole else state.uniform(self._minval,
                                                                                                  self._maxval)
        found = 2 ** state.uniform(math.log2(self._minval), math.log2(self._maxval))
        found = min(max(found, self._minval), self._maxval) if self.strict else found
        return int(found) if isinstance(self._minval, int) and isinstance(self._maxval, int) else found


def flattened(values) -> list:
    return list(itertools.chain.from_iterable(v if isinstance(v, (list, tuple)) else [v] for v in values))


class FuzzedTensor:
    """A tensor whose sizes are numbers or names of parameters.  It is strided by ``steps``; with a probability of 1 -
    ``probability_contiguous`` its dimensions are permuted in memory."""

    def __init__(self, name, size, steps=None, probability_contiguous=0.5, min_elements=None, max_elements=None,
                 max_allocation_bytes=None, dim_parameter=None, roll_parameter=None, dtype=torch.float32, cuda=False,
                 tensor_constructor=None):
        self._name, self._size, self._steps, self._dtype = name, size, steps, dtype
        self._probability_contiguous, self._cuda = probability_contiguous, cuda
        self._min_elements, self._max_elements = min_elements, max_elements
        self._max_allocation_bytes, self._dim_parameter = max_allocation_bytes, dim_parameter
        self._roll, self._tensor_constructor = roll_parameter, tensor_constructor

    @property
    def name(self):
        return self._name

    @staticmethod
    def default_tensor_constructor(size, dtype, **kwargs):
        """Normal numbers, or integers in [0, 127)."""
        if dtype.is_floating_point or dtype.is_complex:
            return torch.rand(size=size, dtype=dtype, device="cpu")
        return torch.randint(1, 127, size=size, dtype=dtype, device="cpu")

    def sizes(self, parameters):
        """(size, steps, size of what is allocated) for drawn parameters."""
        dim = parameters[self._dim_parameter] if self._dim_parameter else len(self._size)

        def values(given):
            return tuple(int(parameters.get(v, v)) for v in given)[:dim]

        size = values(self._size)
        steps = values(self._steps or ()) + (1,) * (dim - len(self._steps or ()))
        return size, steps, tuple(n * s for n, s in zip(size, steps))

    def satisfies_constraints(self, params) -> bool:
        size, _, whole = self.sizes(params)
        count = prod(size)
        return ((self._max_allocation_bytes is None or prod(whole, dtype_size(self._dtype))
                 <= self._max_allocation_bytes)
                and (self._min_elements is None or count >= self._min_elements)
                and (self._max_elements is None or count <= self._max_elements))

    def _make_tensor(self, parameters, state):
        size, steps, whole = self.sizes(parameters)
        constructor = self._tensor_constructor or self.default_tensor_constructor
        order = np.arange(len(size))
        if len(size) > 1 and state.rand() >= self._probability_contiguous:
            while (np.diff(order) == 1).all():
                order = state.permutation(len(size))
        made = constructor(size=tuple(whole[k] for k in order), dtype=self._dtype, **parameters)
        made = made.permute(tuple(np.argsort(order).tolist()))[tuple(slice(None, None, s) for s in steps)]
        made = made.cuda() if self._cuda else made
        if self._roll is not None:
            made = made.roll(parameters[self._roll])
        return made, {"numel": int(made.numel()), "order": order, "steps": steps,
                      "is_contiguous": made.is_contiguous(), "dtype": str(self._dtype)}


class FuzzedSparseTensor(FuzzedTensor):
    """A sparse tensor with ``nnz`` elements, or by a ``density``, in ``sparse_dim`` dimensions."""

    def __init__(self, name, size, min_elements=None, max_elements=None, dim_parameter=None, sparse_dim=None, nnz=None,
                 density=None, coalesced=None, dtype=torch.float32, cuda=False):
        super().__init__(name, size, min_elements=min_elements, max_elements=max_elements, dim_parameter=dim_parameter,
                         dtype=dtype, cuda=cuda)
        self._density, self._coalesced, self._sparse_dim, self._nnz = density, coalesced, sparse_dim, nnz

    @staticmethod
    def sparse_tensor_constructor(size, dtype, sparse_dim, nnz, is_coalesced):
        """``nnz`` elements at random positions; one that is not coalesced has half of its positions twice."""
        nnz = max(1, int(nnz))
        count = nnz if is_coalesced else (nnz + 1) // 2
        places = torch.rand(sparse_dim, count) * torch.tensor(size[:sparse_dim], dtype=torch.float32).reshape(-1, 1)
        places = places.to(torch.int64)
        places = places if is_coalesced else torch.cat([places, places], 1)[:, :nnz]
        values = FuzzedTensor.default_tensor_constructor((places.shape[1], *size[sparse_dim:]), dtype)
        made = torch.sparse_coo_tensor(places, values, size)
        return made.coalesce() if is_coalesced else made

    def _make_tensor(self, parameters, state):
        size, _, _ = self.sizes(parameters)
        depth = int(parameters[self._sparse_dim])
        nnz = int(parameters[self._nnz]) if self._nnz else math.ceil(prod(size[:depth]) * parameters[self._density])
        coalesced = bool(parameters[self._coalesced])
        made = self.sparse_tensor_constructor(size, self._dtype, depth, nnz, coalesced)
        made = made.cuda() if self._cuda else made
        return made, {"numel": int(made.numel()), "shape": made.size(), "is_coalesced": made.is_coalesced(),
                      "density": nnz / max(1, prod(size[:depth])), "sparsity": 1 - nnz / max(1, prod(size[:depth])),
                      "sparse_dim": made.sparse_dim(), "dense_dim": made.dense_dim(), "is_hybrid":
                      made.dense_dim() > 0, "dtype": str(self._dtype)}


class Fuzzer:
    """Draws parameters until they and the tensors meet all ``constraints`` (functions of the parameters' names), and
    makes the tensors.  ValueError for two of one name; RuntimeError where no draw fits.

    >>> fuzzer = Fuzzer([FuzzedParameter("n", 4, 4, "uniform")], [FuzzedTensor("x", ("n",))], seed=1)
    >>> [(tensors["x"].shape, found["n"]) for tensors, _, found in fuzzer.take(1)]
    [(torch.Size([4]), 4)]
    """

    def __init__(self, parameters, tensors, constraints=None, seed=None):
        self._seed = int(np.random.RandomState().randint(0, 2 ** 32 - 1, dtype=np.int64)) if seed is None else seed
        self._parameters, self._tensors = flattened(parameters), flattened(tensors)
        self._constraints = constraints or ()
        names = [p.name for p in (*self._parameters, *self._tensors)]
        if twice := {n for n in names if names.count(n) > 1}:
            raise ValueError(f"Duplicate names: {', '.join(sorted(twice))}")
        self._rejections = self._total_generated = 0

    def take(self, n):
        """n times: ({name: tensor}, {name: what it is like}, {name: parameter})."""
        state = np.random.RandomState(self._seed)
        torch.manual_seed(state.randint(low=0, high=2 ** 63, dtype=np.int64))
        for _ in range(n):
            parameters = self._generate(state)
            tensors, facts = {}, {}
            for tensor in self._tensors:
                tensors[tensor.name], facts[tensor.name] = tensor._make_tensor(parameters, state)
            yield tensors, facts, parameters

    @property
    def rejection_rate(self) -> float:
        """The share of draws that were not used."""
        return self._rejections / self._total_generated if self._total_generated else 0.0

    def _generate(self, state) -> dict:
        for _ in range(TRIES):
            drawn = {p.name: p.sample(state) for p in self._parameters}
            self._total_generated += 1
            found = {name: drawn[v.alias_to] if isinstance(v, ParameterAlias) else v for name, v in drawn.items()}
            if all(c(**found) for c in self._constraints) and all(t.satisfies_constraints(found)
                                                                  for t in self._tensors):
                return found
            self._rejections += 1
        raise RuntimeError("no draw of the parameters meets all constraints")
