"""Private names that libraries import, and what they do."""
import torch as judge

import rushlight as torch
from rushlight.nn.modules.pooling import _AvgPoolNd, _MaxUnpoolNd
from rushlight.utils import _pytree


def test_families_of_pooling_layers():
    assert isinstance(torch.nn.MaxUnpool2d(2), _MaxUnpoolNd) and isinstance(torch.nn.AvgPool1d(2),
                                                                            _AvgPoolNd) and not isinstance(
                                                                                torch.nn.MaxPool2d(2), _AvgPoolNd)


def test_convolution_as_captured_elsewhere():
    x, weight = torch.randn(1, 2, 5, 5), torch.randn(3, 2, 3, 3)
    found = torch.ops.aten._convolution(x, weight, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1, False, False, True,
                                        True)
    assert torch.equal(found, torch.conv2d(x, weight))


def test_written_arguments_of_schemas():
    from rushlight.library.schema import parse
    assert parse("f(Tensor A, Tensor! out) -> ()").mutated == parse("f(Tensor A, Tensor(a!) out) -> ()").mutated == (
        "out",)


def test_trees():
    from collections import namedtuple
    point = namedtuple("Point", "x y")(1, 2)
    children, context = _pytree._namedtuple_flatten(point)
    assert _pytree._namedtuple_unflatten(children, context) == point and _pytree._dict_unflatten(
        *_pytree._dict_flatten({"a": 1})) == {"a": 1}


def test_bases_of_jacobians():
    from rushlight.autograd.functional import _construct_standard_basis_for as ours
    theirs = judge.autograd.functional._construct_standard_basis_for
    found, wanted = (f((t.zeros(2), t.zeros(1, 3)), (2, 3)) for t, f in ((torch, ours), (judge, theirs)))
    assert [x.tolist() for x in found] == [x.tolist() for x in wanted]


def test_clipped_sigmoid():
    from rushlight.distributions.transforms import _clipped_sigmoid as ours
    x = [-200.0, -1.0, 0.0, 200.0]
    assert ours(torch.tensor(x)).tolist() == judge.distributions.transforms._clipped_sigmoid(judge.tensor(x)).tolist()


def test_what_loaders_and_privacy_libraries_import():
    from rushlight.distributed._tensor.experimental import implicit_replication
    from rushlight.distributed.tensor import experimental
    from rushlight.utils.data.datapipes.datapipe import (_IterDataPipeSerializationWrapper,
                                                         _MapDataPipeSerializationWrapper)
    assert implicit_replication is experimental.implicit_replication
    assert not isinstance([], (_IterDataPipeSerializationWrapper, _MapDataPipeSerializationWrapper))


def test_code_is_captured_as_often_as_it_takes():
    from rushlight._dynamo.utils import disable_cache_limit
    before = torch._dynamo.config.recompile_limit
    with disable_cache_limit():
        assert torch._dynamo.config.recompile_limit > 1 << 30
    assert torch._dynamo.config.recompile_limit == before


def test_kernels_of_attention_are_no_numbers():
    ours, theirs = (library.nn.attention.SDPBackend for library in (torch, judge))
    assert not isinstance(ours.MATH, int) and (ours.MATH == 0) == (theirs.MATH == 0)
    assert [int(kind) for kind in ours] == [int(kind) for kind in theirs.__members__.values()]
    assert [repr(kind) for kind in ours] == [repr(kind) for kind in theirs.__members__.values()]
