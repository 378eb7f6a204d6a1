"""Results that share memory with arguments: for the entries of PyTorch's database that make views the same ones, at the
same place, with and without recording.

``python -m tests.ops.test_sharing`` looks at all entries, which takes a minute: most results are of their own.
Programs run by the NumPy reference implementation: tested is which memory a result has, not its values.
"""
import itertools

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")  # PyTorch's database wants it

from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402

import rushlight as rl  # noqa: E402

from .database import by_meaning, elements, function, ours, title  # noqa: E402, F401
from .test_database import NOT_HERE, RANDOM  # noqa: E402

MOST, LOOKED_AT = 200, 6  # elements of a sample; samples of an entry, spread over all that it has
OTHERWISE = {  # where a result shares memory in one of the two only
    "as_strided.partial_views": "its sample is a part of more memory, which a copy of it is not",
    "linalg.lstsq.grad_oriented": "PyTorch's database calls a function that returns two of the four results",
    "masked.prod": "PyTorch returns a 0-d input itself, where no other masked reduction does",
}


def given(info, dtype):
    """Some samples of an entry: (positional arguments, keywords) as PyTorch's."""
    torch.manual_seed(0)
    try:
        found = list(itertools.islice(info.sample_inputs("cpu", dtype), 60))
    except Exception:  # noqa: BLE001 - an entry without samples of this dtype
        return []
    found = [s for s in found if elements((s.input, s.args, s.kwargs)) <= MOST]
    step = max(1, len(found) // LOOKED_AT)
    return [([s.input, *s.args], s.kwargs) for s in found[::step]]


def tensors(package, value):
    if isinstance(value, package.Tensor):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [t for v in inner for t in tensors(package, v)]


def places(package, arguments, results):
    """For each result: which argument it shows, how far behind its first element, its strides; None for results of
    their own."""
    found = []
    for result in tensors(package, results):
        if not result.numel() or result.layout is not package.strided:
            found.append("empty")
            continue
        shown = next((k for k, a in enumerate(arguments) if a.layout is package.strided and a.numel()
                      and a.untyped_storage().data_ptr() == result.untyped_storage().data_ptr()), None)
        strides = tuple(s for s, n in zip(result.stride(), result.shape) if n > 1)
        found.append(None if shown is None else (shown, result.data_ptr() - arguments[shown].data_ptr(), strides,
                                                 result is arguments[shown]))
    return found


def called(package, call, args, kwargs, mode):
    arguments = tensors(package, [args, kwargs])
    with mode(package):
        results = call(*args, **kwargs)
    return places(package, arguments, results)


MODES = {"recorded": lambda p: p.enable_grad(), "unrecorded": lambda p: p.no_grad(),
         "inference": lambda p: p.inference_mode()}


def looked_at(info, dtype):
    """(positional arguments, keywords, what of PyTorch's results shares memory): of entries whose results never do, one
    sample."""
    found = []
    for args, kwargs in given(info, dtype):
        try:
            found.append((args, kwargs, called(torch, info.op, args, kwargs, MODES["recorded"])))
        except Exception:  # noqa: BLE001 - PyTorch refuses its own sample
            continue
    return found if any(isinstance(place, tuple) for _, _, places in found for place in places) else found[:1]


def neutral(value, number, dtype):
    """A value with its integers replaced by one number, dtypes by ``dtype``; tensors and all else stay."""
    if isinstance(value, torch.dtype):
        return dtype
    if type(value) is int:
        return number
    if type(value) in (list, tuple, dict):
        parts = [neutral(v, number, dtype) for v in (value.values() if type(value) is dict else value)]
        return dict(zip(value, parts)) if type(value) is dict else type(value)(parts)
    return value


def neutral_samples(info, dtype):
    """Samples with arguments that ask for nothing: each argument but the input in turn, and all of them, with 0, 1 or
    no elements; inputs as they are and with one element along each dimension."""
    found = {}
    for args, kwargs in given(info, dtype)[::3]:
        names = [*range(1, len(args)), *kwargs]
        choices = [[name] for name in names] + [names]
        for chosen, number in itertools.product(choices, (0, 1)):
            more = [neutral(v, number, dtype) if k in chosen else v for k, v in enumerate(args)]
            named = {k: neutral(v, number, dtype) if k in chosen else v for k, v in kwargs.items()}
            inputs = [more[0]]
            if isinstance(more[0], torch.Tensor) and more[0].layout is torch.strided and more[0].dim():
                inputs.append(more[0].detach()[(slice(0, 1),) * more[0].dim()].clone())
            for first in inputs:
                found.setdefault(repr([first, more[1:], named]), ([first, *more[1:]], named))
    return list(found.values())


def neutral_checks(info, dtype):
    """The samples of ``neutral_samples`` that PyTorch accepts, with the memory that its results share."""
    found = []
    for args, kwargs in neutral_samples(info, dtype):
        try:
            found.append((args, kwargs, called(torch, info.op, args, kwargs, MODES["recorded"])))
        except Exception:  # noqa: BLE001 - PyTorch refuses such arguments
            continue
    return found


def is_accepted(info, args, kwargs):
    """Whether we accept these arguments: refusals are tested elsewhere."""
    try:
        function(info.name)(*args, **kwargs)
    except (RuntimeError, ValueError, IndexError):
        return False
    return True


def check(info, dtype, samples=looked_at):
    for args, kwargs, expected in samples(info, dtype):
        try:
            mine, named = ours(args), ours(kwargs)
        except NotImplementedError:
            continue
        if [t.stride() for t in tensors(torch, [args, kwargs])] != [t.stride() for t in tensors(rl, [mine, named])]:
            continue  # a copy of the sample lies otherwise
        if samples is neutral_checks and not is_accepted(info, mine, named):
            continue
        for mode in MODES if any(isinstance(place, tuple) for place in expected) else ["recorded"]:
            assert called(rl, function(info.name), mine, named, MODES[mode]) == expected, (args, kwargs, mode)


ENTRIES = [info for info in op_db if function(info.name) is not None and title(info) not in NOT_HERE
           and info.name not in RANDOM]
VIEWS = set("""broadcast_to broadcast_tensors chunk unsafe_chunk view_as_real view_as_complex expand expand_as diagonal real imag meshgrid narrow permute split unsafe_split
    split_with_sizes select tensor_split hsplit vsplit dsplit ravel reshape reshape_as view view_as atleast_1d atleast_2d atleast_3d flatten unflatten __getitem__ unbind unfold
    movedim squeeze unsqueeze transpose t linalg.diagonal resolve_conj contiguous to cartesian_prod sum_to_size positive conj adjoint H mH mT resolve_neg linalg.vecdot""".split())


@pytest.mark.parametrize("info", [info for info in ENTRIES if info.name in VIEWS], ids=title)
def test_results_that_share_memory(info):
    for dtype in (torch.float32, torch.complex64):
        if dtype in info.supported_dtypes("cpu") and title(info) not in OTHERWISE:
            check(info, dtype)


@pytest.mark.parametrize("info", [info for info in ENTRIES if torch.float32 in info.supported_dtypes("cpu")], ids=title)
def test_neutral_arguments_share_memory_alike(info):
    """Repeat counts of 1, pads and rolls of 0, dimensions of one element, casts to the same dtype: a copy stays one."""
    if title(info) not in OTHERWISE:
        check(info, torch.float32, neutral_checks)


if __name__ == "__main__":
    from rushlight._src.core.settings import settings
    with settings.set(kernels=False, store=False):
        for entry in ENTRIES:
            try:
                test_results_that_share_memory(entry)
            except AssertionError as parted:
                print(title(entry), parted)


def test_positions_and_values_lie_apart_from_what_is_written():
    import pytest
    import rushlight as rl
    x, at = rl.rand(6), rl.tensor([2, 1, 0])
    for wrong in (lambda: x.put_(at[0], x[0]), lambda: x.put_(at, x[:3]), lambda: at.put_(at, at.clone()),
                  lambda: at.put_(at.clone(), at), lambda: rl.rand(1).expand(6).put_(at, rl.rand(3)),
                  lambda: x.index_put_((at,), x[0]), lambda: x.index_put_((at,), x[:3]),
                  lambda: at.index_put_((at,), at.clone()), lambda: at.index_put_((at.clone(),), at)):
        with pytest.raises(RuntimeError, match="unsupported operation"):
            wrong()
    assert rl.zeros(6).put_(at, rl.ones(3)).sum() == 3
    with pytest.raises(RuntimeError):
        del x.data
    with pytest.raises(RuntimeError):
        del x.requires_grad
