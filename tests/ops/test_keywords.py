"""Keywords that NumPy has for what PyTorch calls otherwise, and operators that compute with numbers alone."""
import functools

import numpy as np
import pytest

judge = pytest.importorskip("torch")
pytest.importorskip("expecttest")  # PyTorch's database wants it
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402

import rushlight as torch  # noqa: E402
from rushlight._src.core.op import OPS  # noqa: E402

from .database import function, ours  # noqa: E402

CALLS = {
    "sum": lambda t, x: t.sum(x, axis=1, keepdims=True), "all": lambda t, x: t.all(x, axis=-1, keepdims=True),
    "mean": lambda t, x: x.mean(axis=0), "cat": lambda t, x: t.cat([x, x], axis=1),
    "stack": lambda t, x: t.stack([x, x], axis=1), "cumsum": lambda t, x: t.cumsum(x, axis=0),
    "std": lambda t, x: x.std(axis=0, keepdims=True), "argmax": lambda t, x: x.argmax(axis=1),
    "unsqueeze": lambda t, x: t.unsqueeze(x, axis=0), "add": lambda t, x: t.add(x1=x, x2=2.5),
    "exp": lambda t, x: t.exp(x=x), "norm": lambda t, x: t.linalg.norm(x, axis=1),
    "chunk": lambda t, x: t.chunk(x, 2, axis=1)[0],
    "split": lambda t, x: t.split(tensor=x, split_size_or_sections=2, dim=1)[1],
    "tensor_split": lambda t, x: t.tensor_split(x, sections=2)[0],
    "baddbmm": lambda t, x: x.baddbmm(batch1=x.expand(2, 4, 4), batch2=x.expand(2, 4, 4), beta=0.5, alpha=2),
    "addmv": lambda t, x: t.addmv(x[0], mat=x, vec=x[1]),
    "det": lambda t, x: t.linalg.det(A=x), "cholesky": lambda t, x: t.linalg.cholesky(input=x @ x.T + 9 * t.eye(4))}


@pytest.mark.parametrize("name", CALLS)
def test_same_by_other_keywords(name):
    array = np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32)
    theirs, own = judge.from_numpy(array).requires_grad_(), torch.from_numpy(array).requires_grad_()
    for _ in range(2):  # the second call finds the plan of the first
        expected, found = CALLS[name](judge, theirs), CALLS[name](torch, own)
        np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=1e-5, atol=1e-5)
    if expected.requires_grad:
        expected.sum().backward()
        found.sum().backward()
        np.testing.assert_allclose(own.grad.numpy(), theirs.grad.numpy(), rtol=1e-4, atol=1e-4)


EXTREMES = {
    "axis": lambda t, x: t.max(x, axis=1), "axis, method": lambda t, x: x.min(axis=-1),
    "keepdims": lambda t, x: x.max(axis=0, keepdims=True), "keepdim": lambda t, x: t.min(x, axis=1, keepdim=True),
    "out": lambda t, x: t.max(x, axis=1, out=(t.empty(0), t.empty(0, dtype=t.int64))),
    "second tensor": lambda t, x: (t.max(x, x.T), t.min(x, x.T, out=t.empty(0)), t.max(x, other=x.T)),
    "none": lambda t, x: (t.max(x), x.min()), "twice": lambda t, x: x.max(dim=0, axis=1),
    "keepdim twice": lambda t, x: x.max(dim=0, keepdim=True, keepdims=True), "unknown": lambda t, x: x.max(bad=3),
    "unknown beside": lambda t, x: x.min(bad=3, axis=0), "keepdim alone": lambda t, x: x.max(keepdim=True),
    "several": lambda t, x: x.max(axis=(0, 1)), "both": lambda t, x: x.max(0, other=x), "number": lambda t, x:
    x.min(other=1), "too many": lambda t, x: x.max(0, True, True), "in place": lambda t, x:
    (x.clone().renorm_(2, axis=0, maxnorm=1), x.clone().unsqueeze_(axis=1)), "twice, sum": lambda t, x:
    t.sum(x, dim=0, axis=1), "tensor as dim": lambda t, x: x.max(dim=t.tensor(1)), "tensor as dim, by position":
    lambda t, x: (*x.min(t.tensor(1), True), *x.max(t.tensor(-1), keepdim=False)), "tensor": lambda t, x:
    (x.max(t.tensor(1)),), "tensor beside other": lambda t, x: x.max(t.tensor(1), other=x), "tensor as dim of int8":
    lambda t, x: x.max(keepdim=True, dim=t.tensor(-1, dtype=t.int8)), "floating tensor as dim": lambda t, x:
    x.max(dim=t.tensor(1.0)), "other, keepdim": lambda t, x: x.max(other=x, keepdim=False)}


@pytest.mark.parametrize("name", EXTREMES)
def test_overloads_by_keywords(name):
    """An overload is not chosen by the names that it knows: what it does not know is an error."""
    array = np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32)
    try:
        expected = EXTREMES[name](judge, judge.from_numpy(array.copy()))
    except TypeError:
        with pytest.raises(TypeError):
            EXTREMES[name](torch, torch.from_numpy(array.copy()))
        return
    found = EXTREMES[name](torch, torch.from_numpy(array.copy()))
    assert len(found) == len(expected)
    for a, b in zip(found, expected):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6)
        assert tuple(a.shape) == tuple(b.shape)


def by_name(package, name):
    return functools.reduce(getattr, name.split("."), package)


ALONG = sorted(name for name, op in OPS.items() if op.kind is None and op.signature is not None and "::" not in name
               and "dim" in op.signature.parameters and "gumbel" not in name)  # which draws


def test_a_tensor_stands_for_a_dimension():
    """Where PyTorch takes a tensor without dimensions as ``dim``, the call is that with its number."""
    array, compared = np.arange(12.0, dtype=np.float32).reshape(3, 4), []
    for name in ALONG:
        try:
            expected = by_name(judge, name)(judge.from_numpy(array.copy()), dim=judge.tensor(1))
        except (AttributeError, TypeError, RuntimeError):
            continue
        found = by_name(torch, name)(torch.from_numpy(array.copy()), dim=torch.tensor(1))
        pairs = zip(found, expected) if isinstance(expected, (tuple, list)) else [(found, expected)]
        for a, b in pairs:
            assert a.shape == b.shape, name
            np.testing.assert_allclose(a.resolve_conj().numpy(), b.resolve_conj().numpy(), atol=1e-4, err_msg=name)
        compared.append(name)
    assert {"max", "min", "sum", "squeeze", "linalg.norm", "fft.fftshift"} <= set(compared)


@pytest.mark.parametrize("name", ["max", "min", "argmax", "median", "sum"])
@pytest.mark.parametrize("dim", [1.0, True, False, [1.0]])
def test_only_an_integer_stands_for_a_dimension(name, dim):
    """Neither floats nor bools do, whether they are numbers or tensors, nor several elements."""
    with pytest.raises(TypeError):
        by_name(torch, name)(torch.ones(2, 3), dim=torch.tensor(dim))
    if not isinstance(dim, list):
        with pytest.raises(TypeError):
            by_name(torch, name)(torch.ones(2, 3), dim=dim)


def test_other_keywords_under_transforms():
    x = torch.arange(6.0).reshape(2, 3)
    assert torch.func.vmap(lambda row: torch.sum(row, axis=0))(x).tolist() == [3.0, 12.0]
    assert torch.func.vmap(lambda row: torch.max(row, axis=0)[1])(x).tolist() == [2, 2]
    assert torch.compile(lambda x: x.max(axis=0)[0], fullgraph=True)(x).tolist() == [3.0, 4.0, 5.0]
    assert torch.compile(lambda x: torch.sum(x, axis=1, keepdims=True), fullgraph=True)(x).tolist() == [[3.0], [12.0]]


def entries():
    """(entry of PyTorch's database, a sample of it), where it has one that our package can be given."""
    for info in op_db:
        dtypes = info.supported_dtypes("cpu")
        dtype = judge.float32 if judge.float32 in dtypes else next(iter(sorted(dtypes, key=str)), None)
        sample = next(iter(info.sample_inputs("cpu", dtype)), None) if dtype is not None else None
        if sample is not None:
            yield info, sample


@pytest.mark.filterwarnings("ignore")
def test_unknown_keywords_are_errors():
    """An operator reads each keyword that it takes: TypeError for one that it does not know."""
    silent, called = [], 0
    for info, sample in entries():
        try:
            given = ours([sample.input, *sample.args]), ours(dict(sample.kwargs))
        except (NotImplementedError, TypeError):  # of a dtype that does not come across
            continue
        operator = function(info.name)
        if operator is None:  # not there under this name
            continue
        called += 1
        try:
            operator(*given[0], nonsense=1, **given[1])
        except TypeError as error:
            if "nonsense" in str(error) or "keyword" in str(error) or "argument" in str(error):
                continue
            silent.append((info.name, str(error)))
        except Exception as error:  # noqa: BLE001 - of another kind than it should be
            silent.append((info.name, repr(error)))
        else:
            silent.append((info.name, "taken"))
    assert not silent and called > 600


@pytest.mark.parametrize("name", sorted(
    name for name, op in OPS.items() if op.signature is not None and op.kind is None and "::" not in name
    and not name.rpartition(".")[2].startswith("_")
    and any(p.kind is p.VAR_KEYWORD for p in op.signature.parameters.values())))
def test_operators_that_hand_keywords_on_take_no_others(name):
    of_tensors = next(iter(OPS[name].signature.parameters)) == "input"
    for first in [torch.ones(2, 3)] if of_tensors else [1, 5]:
        for rest in ((), (1.0,), (0.0, 1.0)):
            with pytest.raises(TypeError):
                OPS[name](first, *rest, nonsense=1)


ENDS = {
    "uniform": lambda x: x.uniform_(**{"from": 2.0, "to": 2.0}), "uniform, to": lambda x: x.uniform_(1.0, to=1.0),
    "uniform, positional": lambda x: x.uniform_(3.0, 3.0), "uniform, twice": lambda x: x.uniform_(0.0, **{"from": 0.0}),
    "random": lambda x: x.random_(1), "random, to": lambda x: x.random_(to=1), "random, both": lambda x:
    x.random_(4, to=5), "random, positional": lambda x: x.random_(6, 7), "random, keywords": lambda x:
    x.random_(**{"from": 8, "to": 9}), "random, three": lambda x: x.random_(1, 2, 3), "random, twice": lambda x:
    x.random_(1, 2, to=3)}


@pytest.mark.parametrize("name", ENDS)
def test_ends_of_random_numbers(name):
    found = []
    for package in (torch, judge):
        try:
            found.append(ENDS[name](package.zeros(3)).tolist())
        except TypeError:
            found.append(TypeError)
    assert found[0] == found[1]


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "floor_divide"])
@pytest.mark.parametrize("numbers", [(7, 2), (7.0, 2), (7, 2.5)])
def test_numbers_alone(name, numbers):
    expected, found = getattr(judge, name)(*numbers), getattr(torch, name)(*numbers)
    assert str(found.dtype) == str(expected.dtype) and found.item() == expected.item()


def test_number_first():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = torch.sub(5, x, alpha=2) + torch.div(4, x)
    y.sum().backward()
    assert y.tolist() == [7.0, 3.0] and x.grad.tolist() == [-6.0, -3.0]
    assert torch.div(7, 2, rounding_mode="trunc").item() == 3
    with pytest.raises(TypeError):
        torch.maximum(1, 2)


SIZED = {"zeros": lambda t, x: t.zeros(size=(2,)), "randn": lambda t, x: t.randn(size=(2, 1)),
         "view": lambda t, x: x.view(size=(2, 8)), "reshape": lambda t, x: x.reshape(shape=(2, 8)),
         "new_zeros": lambda t, x: x.new_zeros(size=(2,)),
         "new_full": lambda t, x: x.new_full(size=(2,), fill_value=3.0),
         "repeat": lambda t, x: x.repeat(repeats=(2, 1)),
         "expand": lambda t, x: x[:1].expand(size=(3, 4)), "permute": lambda t, x: x.permute(dims=(1, 0)),
         "swapaxes": lambda t, x: t.swapaxes(x, axis0=0, axis1=1),
         "arange": lambda t, x: t.arange(end=3), "randint": lambda t, x: t.randint(high=3, size=(2,)),
         "tile": lambda t, x: x.tile(dims=(2, 1))}


@pytest.mark.parametrize("name", SIZED)
def test_sizes_by_keyword(name):
    expected, found = SIZED[name](judge, judge.ones(4, 4)), SIZED[name](torch, torch.ones(4, 4))
    assert tuple(found.shape) == tuple(expected.shape) and str(found.dtype) == str(expected.dtype)


def test_sizes_by_keyword_in_compiled_code():
    assert torch.compile(lambda x: x.view(size=(2, 8)) + torch.zeros(size=(2, 8)),
                         fullgraph=True)(torch.ones(4, 4)).sum().item() == 16


def test_range_without_an_end():
    with pytest.raises(TypeError):
        torch.arange()


@pytest.mark.parametrize("name", ["var", "std", "var_mean", "std_mean"])
def test_a_bool_alone_is_no_dimension(name):
    """It says whether variances are unbiased; anywhere else among dimensions it is refused."""
    values = np.arange(6.0).reshape(2, 3)
    for flag in (True, False):
        found, wanted = (getattr(m, name)(m.tensor(values), flag) for m in (torch, judge))
        np.testing.assert_allclose(np.asarray(found), np.asarray(wanted))
    for args, kwargs in (((True, False), {}), (((True,),), {}), ((), {"dim": True}), ((True,), {"keepdim": True})):
        for m in (torch, judge):
            with pytest.raises(TypeError):
                getattr(m, name)(m.tensor(values), *args, **kwargs)


def test_truths_are_numbers_of_ranges():
    for library in (torch, judge):
        assert library.arange(True).tolist() == library.arange(False, True).tolist() == [0]
        assert library.arange(True, 4, True, dtype=library.float32).tolist() == [1.0, 2.0, 3.0]
