"""What ``out=`` may be: its dtype and its shape, beside PyTorch."""
import warnings

import pytest
import torch

import rushlight as rl

SAME = ("abs", "ceil", "conj_physical", "floor", "frac", "hardshrink", "nan_to_num", "neg", "round", "sgn", "sign",
        "trunc", "tril", "triu", "amax", "amin", "msort")
WIDER = ("exp", "sin", "square", "sqrt", "cumsum", "erf")


def outcome(call):
    try:
        return call().dtype.itemsize
    except RuntimeError:
        return RuntimeError


@pytest.mark.parametrize("name", SAME + WIDER)
def test_dtypes_of_out(name):
    def with_out(framework, dtype):
        more = (0,) if name == "cumsum" else ()
        function = getattr(framework, name)
        return lambda: function(framework.full((2, 2), 0.5), *more, out=framework.empty(0, dtype=dtype))

    for dtype in ("float32", "float64", "complex64"):
        assert outcome(with_out(rl, getattr(rl, dtype))) == outcome(with_out(torch, getattr(torch, dtype))), dtype


@pytest.mark.parametrize("name", ["all", "any"])
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "float32"])
def test_truth_is_written_as_bools_or_bytes(name, dtype):
    found = [outcome(lambda f=f: getattr(f, name)(f.ones(3, 4), 1, out=f.empty(3, dtype=getattr(f, dtype))))
             for f in (rl, torch)]
    assert found[0] == found[1]


@pytest.mark.parametrize("name, args", [("linspace", (0, 3, 4)), ("logspace", (0, 3, 4)), ("arange", (4,)),
                                        ("range", (0, 3))])
def test_points_fill_what_is_given_in_order(name, args):
    """An output of as many elements keeps its shape; another one is made to fit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for shape in ((2, 2), (3,), (0,)):
            found = []
            for framework in (rl, torch):
                whole = framework.zeros(2, 3) if shape == (2, 2) else framework.zeros(shape)
                part = whole[:, 1:] if shape == (2, 2) else whole
                getattr(framework, name)(*args, out=part)
                found.append(whole.tolist())
            assert found[0] == pytest.approx(found[1]) if shape != (2, 2) else found[0] == found[1]


def test_places_of_elements_are_whole_numbers():
    for call in (lambda: rl.nonzero(rl.ones(3), out=rl.empty(0)),
                 lambda: rl.nonzero(rl.ones(3), as_tuple=True, out=rl.empty(0, dtype=rl.int64))):
        with pytest.raises(RuntimeError):
            call()


REFUSED = {
    "out of a lower category": lambda t: t.add(t.ones(2), 1.5, out=t.empty(2, dtype=t.int32)),
    "out of a complex result": lambda t: t.mul(t.ones(2, dtype=t.complex64), 2, out=t.empty(2)),
    "out of another dtype": lambda t: t.float_power(t.ones(2), 2, out=t.empty(2)),
    "out of one memory": lambda t: t.add(t.ones(2), 1, out=t.empty(1).expand(2)),
    "float_power_": lambda t: t.ones(2).float_power_(2),
    "float_power_ of complex numbers": lambda t: t.ones(2, dtype=t.complex64).float_power_(True),
}
NO_TENSOR = {
    "logical_and": lambda t, x: t.logical_and(x, True), "logical_and_": lambda t, x: x.logical_and_(2),
    "maximum": lambda t, x: t.maximum(x, 2.5), "hypot": lambda t, x: t.hypot(x, 2, out=t.empty(2)),
    "atan2": lambda t, x: t.atan2(x, 2.5), "lerp": lambda t, x: t.lerp(x, True, 0.5),
    "lerp_": lambda t, x: x.lerp_(2.0, 0.5), "ldexp": lambda t, x: t.ldexp(x, 1j),
}


@pytest.mark.parametrize("name", REFUSED)
def test_compiled_functions_refuse_what_is_written(name):
    call = REFUSED[name]
    for run in (lambda: call(torch), lambda: call(rl), rl.compile(lambda: call(rl))):
        with pytest.raises(RuntimeError):
            run()


@pytest.mark.parametrize("name", NO_TENSOR)
def test_compiled_functions_refuse_a_number_instead_of_a_tensor(name):
    call = NO_TENSOR[name]
    for t, run in ((torch, call), (rl, call), (rl, rl.compile(lambda t, x: call(rl, x)))):
        with pytest.raises(TypeError):
            run(t, t.ones(2))
