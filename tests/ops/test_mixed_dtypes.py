"""Operands of several dtypes are promoted or converted by an operator's body, or refused before kernels are written."""
import itertools

import pytest

import rushlight
from rushlight._src.core.kinds import P
from rushlight._src.core.meta import Meta
from rushlight._src.transforms.trace import Trace

DTYPES = [getattr(rushlight, name) for name in ("float16", "bfloat16", "float32", "float64", "uint8", "int32", "int64",
                                                "bool", "complex64", "complex128")]
COMPUTED = {"float16": "float32", "bfloat16": "float32", "complex64": "float32", "complex128": "float64"}
PAIRS = {op.name: op for op in vars(P).values() if op.kind.name == "elementwise" and op.traits["arity"] == 2
         and not op.kind.passes}


@pytest.mark.parametrize("name", PAIRS)
def test_primitives_refuse_operands_that_are_computed_in_several_types(name):
    """Logical ones take any: each operand is compared with 0 by itself."""
    for first, second in itertools.product(DTYPES, repeat=2):
        alike = COMPUTED.get(first.name, first.name) == COMPUTED.get(second.name, second.name)
        with Trace() as trace:
            x, y = (trace.input(Meta.of((2,), dtype)) for dtype in (first, second))
            if alike or "logical" in name:
                assert tuple(PAIRS[name](x, y).shape) == (2,)
                continue
            with pytest.raises(RuntimeError, match="expected scalar type [A-Z]"):
                PAIRS[name](x, y)


def test_numbers_of_the_run_take_the_dtype_of_what_they_meet():
    x = rushlight.tensor([1.0, 2.0])
    assert [x.clamp(max=k / 4).tolist() for k in (5, 6, 7)] == [[1.0, 1.25], [1.0, 1.5], [1.0, 1.75]]
    assert [x.to(rushlight.int32).clamp(max=k).tolist() for k in (0, 1, 2)] == [[0, 0], [1, 1], [1, 2]]


F = rushlight.nn.functional
REFUSED = {
    "lerp": lambda x, y: rushlight.lerp(x, y, 0.5), "prelu": lambda x, y: F.prelu(x, y[:1]),
    "group_norm": lambda x, y: F.group_norm(x.view(1, 4), 2, y), "layer_norm": lambda x, y: F.layer_norm(x, (4,), y),
    "linear": lambda x, y: F.linear(x.view(1, 4), y.view(1, 4)), "dot": lambda x, y: rushlight.dot(x, y),
    "cdist": lambda x, y: rushlight.cdist(x[None], y[None]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_operators_that_do_not_promote_raise(name):
    for first, second in (("float32", "float64"), ("float64", "float32"), ("float64", "float16")):
        x, y = (rushlight.tensor([1.0, 2.0, 3.0, 4.0], dtype=getattr(rushlight, dtype)) for dtype in (first, second))
        with pytest.raises(RuntimeError) as caught:
            REFUSED[name](x, y)
        assert "operands differ" not in str(caught.value)
