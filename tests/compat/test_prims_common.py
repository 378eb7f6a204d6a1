"""Questions about shapes, strides and dtypes: the answers, and the errors, are PyTorch's."""
import importlib
import itertools

import pytest
import torch as judge

import rushlight as torch

DTYPES = "bool int32 int64 uint8 float16 bfloat16 float32 float64 complex64 complex128".split()


def answer(lib, name, arguments, keywords):
    module = importlib.import_module(f"{lib.__name__}._prims_common")
    try:
        return plain(getattr(module, name)(*arguments(lib),
                                           **{k: getattr(getattr(module, v[0]), v[1]) if isinstance(v, tuple)
                                              and len(v) == 2 and isinstance(v[0], str) else v
                                              for k, v in keywords.items()}))
    except Exception as error:  # noqa: BLE001 - errors are answers, too
        return next(kind.__name__ for kind in type(error).__mro__ if kind.__module__ == "builtins")


def plain(value):
    """Values of either library as text, containers as they are."""
    return tuple(map(plain, value)) if isinstance(value, (tuple, list)) else str(value)


def case(name, arguments, **keywords):
    return pytest.param(name, arguments, keywords, id=name)


SHAPES = [(), (3,), (2, 3), (2, 3, 4), (2, 3, 4, 5), (1, 1), (0, 3), (2, 1, 4, 5, 6)]
CASES = [case(name, lambda t, s=s: (s,)) for s in SHAPES
         for name in ("make_contiguous_strides_for", "make_channels_last_strides_for",
                      "make_channels_last_2d_strides_for", "prod")]
CASES += [case("canonicalize_dim", lambda t, r=r, k=k: (r, k))
          for r, k in itertools.product((0, 1, 3), (-4, -1, 0, 2, 3))]
CASES += [case("infer_size", lambda t, s=s, n=n: (s, n))
          for s, n in itertools.product([(-1, 2), (4, 2), (-1, -1), (0, -1)], (0, 7, 8))]
CASES += [case(name, lambda t, d=d: (getattr(t, d),)) for d in DTYPES
          for name in ("is_integer_dtype", "is_float_dtype", "is_grad_dtype", "is_low_precision_dtype", "dtype_to_type",
                      "get_computation_dtype", "is_boolean_dtype", "is_complex_dtype")]
CASES += [case("get_higher_dtype", lambda t, a=a, b=b: (getattr(t, a), getattr(t, b)))
          for a, b in itertools.product(DTYPES, DTYPES[::2])
          if (a, b) != ("float64", "complex64")]  # where PyTorch's answer cannot hold both
CASES += [case("elementwise_dtypes", lambda t, d=d, n=n: (t.ones(2, dtype=getattr(t, d)), n),
               type_promotion_kind=("ELEMENTWISE_TYPE_PROMOTION_KIND", k))
          for d in DTYPES for n in (2, 2.5, None) for k in ("DEFAULT", "NO_OPMATH", "INT_TO_FLOAT", "ALWAYS_BOOL",
                                                            "COMPLEX_TO_FLOAT", "BOOL_TO_LONG")]
CASES += [case("reduction_dtypes",
               lambda t, d=d, k=k: (t.ones(2, dtype=getattr(t, d)),
                                    importlib.import_module(f"{t.__name__}._prims_common")
                                    .REDUCTION_OUTPUT_TYPE_KIND[k]))
          for d in DTYPES for k in ("SAME", "COMPLEX_TO_FLOAT", "KEEP_PROMOTED_TYPE", "ALWAYS_BOOL")]
CASES += [case(name, lambda t, v=v: (v(t),)) for name in ("suggest_memory_format", "compute_elementwise_output_strides",
                                                          "is_non_overlapping_and_dense_or_false",
                                                          "is_channels_last_contiguous")
          for v in (lambda t: t.ones(2, 3).t(), lambda t: t.ones(2, 3, 4, 5).to(memory_format=t.channels_last),
                    lambda t: t.ones(4, 6)[::2], lambda t: t.ones(1, 3).expand(2, 3))]
CASES += [case("set_correction", lambda t, a=a: a) for a in ((), (True,), (False,), (None, 2), (True, 1))]
CASES += [case("reduction_dims", lambda t, a=a: a) for a in (((2, 3), None), ((2, 3), (0, -1)), ((2, 3), (0, 0)))]
CASES += [case("infer_size_shapes", lambda t, a=a: a) for a in (((3,), (2, 1)), ((3,), (2,)))]
CASES += [case("compute_required_storage_length", lambda t, a=a: a)
          for a in (((2, 3), (3, 1), 1), ((0,), (1,), 4), ((2, 2), (5, 2), 0))]
CASES += [case("check_same_dtype", lambda t, d=d: (t.ones(1), t.ones(1, dtype=getattr(t, d)))) for d in DTYPES[5:7]]
CASES += [case("check_same_shape", lambda t, n=n: (t.ones(2), t.ones(n)), allow_cpu_scalar_tensors=True)
          for n in ((2,), (3,), ())]
CASES += [case("get_acc_type", lambda t, d=d, v=v: (getattr(t, d), t.device(v))) for d in DTYPES for v in ("cpu",)]
CASES += [case("extract_shape_from_varargs", lambda t, s=s: (s,)) for s in ((2, 3), ((2, 3),))]


@pytest.mark.parametrize("name,arguments,keywords", CASES)
def test_answers(name, arguments, keywords):
    assert answer(torch, name, arguments, keywords) == answer(judge, name, arguments, keywords)


def test_copies_keep_gaps():
    from rushlight._prims_common import clone_preserve_strides
    x = torch.arange(12.0).reshape(3, 4)[:, ::2]
    y = clone_preserve_strides(x)
    assert torch.equal(x, y) and y.stride() == x.stride() and y.data_ptr() != x.data_ptr()


def test_metadata_is_compared():
    from rushlight._prims import utils
    a = torch.ones(2, 3)
    utils.compare_tensor_meta(a, torch.zeros(2, 3), check_strides=True)
    for other in (torch.ones(3, 2), torch.ones(2, 3, dtype=torch.float64), torch.ones(2, 3, device="meta")):
        with pytest.raises(AssertionError):
            utils.compare_tensor_meta(a, other)
    for other in (torch.ones(7)[1:].view(2, 3), torch.ones(2, 3)._neg_view()):
        with pytest.raises(RuntimeError):
            utils.compare_tensor_meta(a, other, check_strides=True)
    with pytest.raises(RuntimeError):
        utils.compare_tensor_meta(a + 0j, (a + 0j).conj())


def test_references_are_the_operators():
    from rushlight._prims.context import TorchRefsMode
    from rushlight._refs import _conversions
    with TorchRefsMode(strict=True):
        assert torch.add(torch.ones(2), 1).tolist() == [2, 2]
    assert _conversions.cdouble(torch.ones(2)).dtype is torch.complex128
    assert _conversions.int(torch.ones(2)).dtype is torch.int32
