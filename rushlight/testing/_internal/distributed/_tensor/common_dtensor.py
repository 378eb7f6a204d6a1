"""Test cases over device meshes, samples of placements, and small models to shard."""
from __future__ import annotations

import functools
import itertools

from ..... import distributed as dist
from ..... import manual_seed
from .....distributed.device_mesh import DeviceMesh, init_device_mesh
from .....distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from .....utils._pytree import tree_flatten, tree_unflatten
from ...common_distributed import (MultiProcContinuousTest, MultiProcessTestCase, MultiThreadedTestCase,
                                              run_subtests, skip_if_lt_x_gpu)
from ....._src.core.native import Tensor
from .models import MLPModule, MLPStacked, ModelArgs, RMSNormPython, Transformer  # noqa: F401

DEVICE_TYPE, PG_BACKEND, NUM_DEVICES = "cpu", "gloo", 4


def skip_unless_torch_gpu(method):
    """Skips a test where there is no GPU for each rank."""
    return skip_if_lt_x_gpu(NUM_DEVICES)(method)


class DTensorTestMixin:
    """Requirements of ``DTensor`` tests: a device mesh, and comparisons with plain calls."""

    is_local_tensor_enabled = False

    @property
    def device_type(self) -> str:
        return DEVICE_TYPE

    def build_device_mesh(self) -> DeviceMesh:
        """The row of all ranks."""
        return init_device_mesh(self.device_type, (self.world_size,))

    def init_manual_seed_for_rank(self):
        manual_seed(self.rank)

    def _test_op_on_dtensor(self, op_call, *args, **kwargs):
        """Compares a call on DTensors with the same call on what they hold."""
        values, spec = tree_flatten((args, kwargs))
        plain_args, plain_kwargs = tree_unflatten(
            [v.full_tensor().detach().clone() if isinstance(v, DTensor) else v for v in values], spec)
        expected = tree_flatten(op_call(*plain_args, **plain_kwargs))[0]
        found = [v.full_tensor() for v in tree_flatten(op_call(*args, **kwargs))[0]]
        self.assertEqual(expected, found)

    def _test_op(self, mesh: DeviceMesh, op_call, *args, **kwargs):
        """Compares a plain call with that on DTensors, under all placements of the arguments."""
        expected = op_call(*args, **kwargs)
        for given, named in DTensorConverter(mesh, args, kwargs):
            self.assertEqual(op_call(*given, **named).full_tensor(), expected)

    def run_subtests(self, *args, **kwargs):
        return run_subtests(self, *args, **kwargs)


class DTensorTestBase(DTensorTestMixin, MultiProcessTestCase):
    """Tests of ``DTensor`` in four processes; ``with_comms`` forms their group."""

    @property
    def world_size(self) -> int:
        return NUM_DEVICES

    @property
    def backend(self) -> str:
        return dist.get_default_backend_for_device(self.device_type)

    def setUp(self):
        super().setUp()
        self._spawn_processes()

    def init_pg(self, eager_init: bool = False, backend: str | None = None):
        """Forms the group of all processes."""
        dist.init_process_group(backend or self.backend, world_size=self.world_size, rank=self.rank,
                                init_method=f"file://{self.file_name}")

    def destroy_pg(self, device_id=None):
        """Ends the group once all have come here."""
        dist.barrier()
        dist.destroy_process_group()


class DTensorContinuousTestBase(DTensorTestMixin, MultiProcContinuousTest):
    """Tests of ``DTensor`` in processes that are one group for all tests of the class."""

    @classmethod
    def backend_str(cls) -> str:
        return PG_BACKEND


class DTensorOpTestBase(DTensorTestMixin, MultiThreadedTestCase):
    """Tests of ``DTensor`` in four threads."""

    @property
    def world_size(self) -> int:
        return NUM_DEVICES

    def setUp(self):
        super().setUp()
        self._spawn_threads()


def with_comms(eager_init=False, backend: str | None = None):
    """Decorates a test that runs in a group of all processes; used with or without arguments.  In cases whose group is
    there already (without ``init_pg``) the test runs as it is."""
    if not callable(eager_init):
        return functools.partial(within_group, eager_init=eager_init, backend=backend)
    return within_group(eager_init)


def within_group(function, eager_init: bool = False, backend: str | None = None):
    @functools.wraps(function)
    def run(self, *args, **kwargs):
        if not hasattr(self, "init_pg"):
            return function(self, *args, **kwargs)
        self.init_pg(eager_init, backend)
        function(self, *args, **kwargs)
        self.destroy_pg()
    return run


class DTensorConverter:
    """Iterates over (args, kwargs) in which the tensors are DTensors on a 1-D mesh, in all combinations of their
    placements: replicated, or sharded along any dimension that is long enough."""

    def __init__(self, mesh: DeviceMesh, args, kwargs):
        self.mesh, self.args, self.kwargs = mesh, args, kwargs
        self.flat, self.spec = tree_flatten((args, kwargs))
        self.hit = self.miss = 0
        self.choices = [self.gen_sharding_choices_for_arg(value) if isinstance(value, Tensor) else [None]
                        for value in self.flat]
        self.combinations = itertools.product(*self.choices)

    def successful(self) -> bool:
        """Whether all tensors of the last arguments could be split."""
        return self.hit > 0 and self.miss == 0

    def is_supported_tensor(self, t) -> bool:
        return isinstance(t, Tensor) and not t.is_sparse and not t.is_quantized and not t.is_meta

    def gen_sharding_choices_for_arg(self, arg) -> list:
        size = self.mesh.size()
        return [Replicate(), *(Shard(dim) for dim, length in enumerate(arg.shape)
                               if length > 1 and length % size == 0)]

    def __iter__(self):
        return self

    def __next__(self):
        values = [value if placement is None else self.to_dist_tensor(value, self.mesh, [placement])
                  for value, placement in zip(self.flat, next(self.combinations))]
        return tree_unflatten(values, self.spec)

    def to_dist_tensor(self, t, mesh: DeviceMesh, placements: list):
        """The tensor with placements; a plain one where it cannot be split."""
        if not self.is_supported_tensor(t):
            self.miss += 1
            return t
        self.hit += 1
        found = distribute_tensor(t.detach(), mesh, placements)
        return type(t)(found) if type(t) is not Tensor else found.requires_grad_(t.requires_grad)
