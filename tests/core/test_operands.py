"""What parameters take follows from their names: compared with PyTorch's schemas, and with what it raises."""
import collections

import numpy as np
import pytest

import rushlight as rl
from rushlight._src.core.op import OPS
from rushlight._src.core.operands import FLAG, FLOAT, INT, INTS, PLACES, TENSOR, TEXT, parameters

torch = pytest.importorskip("torch")
TYPES = {"Tensor": TENSOR, "List[int]": INTS, "int": INT, "bool": FLAG, "float": FLOAT, "str": TEXT}
PREFIXES = {"linalg.": "linalg_", "special.": "special_", "fft.": "fft_", "nn.functional.": ""}


def schemas():
    """{name: {parameter: types it has in PyTorch's overloads}}, but for those by names of dimensions."""
    found = collections.defaultdict(lambda: collections.defaultdict(set))
    for schema in torch._C._jit_get_all_schemas():
        if schema.name.startswith("aten::") and "Dimname" not in schema.overload_name and "Dimname" not in str(schema):
            for argument in schema.arguments:
                found[schema.name[6:]][argument.name].add(str(argument.type).replace("Optional[", "").removesuffix("]")
                                                          if str(argument.type).startswith("Optional")
                                                          else str(argument.type))
    return found


def test_kinds_are_those_of_the_schemas():
    theirs, compared, wrong = schemas(), 0, []
    for name, op in OPS.items():
        prefix = next((p for p in PREFIXES if name.startswith(p)), "")
        types = theirs.get(PREFIXES.get(prefix, "") + name.removeprefix(prefix))
        if op.signature is None or name.startswith("prims.") or types is None:
            continue
        for parameter, (kind, _) in parameters(op)[0].items():
            wanted = {TYPES.get(t) for t in types.get(parameter, ())}
            compared += bool(wanted)
            if wanted and kind not in wanted and not (kind == PLACES and wanted <= {INT, INTS}):
                wrong.append((name, parameter, kind, wanted))
            if wanted and (wanted - {kind, None}) and kind != PLACES or None in wanted:
                wrong.append((name, parameter, kind, types[parameter]))
    assert not wrong, wrong
    assert compared > 400


ARGUMENTS = {"a bool": True, "a float": 1.0, "nothing": None, "a text": "a", "a complex number": 1j,
             "a list of bools": [True], "a list of floats": [1.0], "beyond 64 bits": 1 << 63,
             "several beyond 64 bits": [1 << 63], "NumPy's float": np.float64(1.0), "NumPy's int": np.int64(1),
             "a truth of NumPy": np.bool_(True), "a tensor": "tensor", "a list": [1]}
CALLS = {
    "mode": lambda t, x, v: t.mode(x, v), "keepdim": lambda t, x, v: t.mode(x, 0, v),
    "unsqueeze": lambda t, x, v: x.unsqueeze(v), "roll": lambda t, x, v: t.roll(x, v),
    "tile": lambda t, x, v: x.tile(v),
    "pad": lambda t, x, v: t.nn.functional.pad(x, v), "chunk": lambda t, x, v: x.chunk(v),
    "sum": lambda t, x, v: x.sum(0, v), "mm": lambda t, x, v: t.mm(x, v), "topk": lambda t, x, v: x.topk(v),
    "momentum": lambda t, x, v: t.nn.functional.batch_norm(x, None, None, training=True, momentum=v),
    "gelu": lambda t, x, v: t.nn.functional.gelu(x, approximate=v), "abs": lambda t, x, v: t.abs(v),
    "diagonal": lambda t, x, v: x.diagonal(v), "expand": lambda t, x, v: x[:1, :1].expand(v, 3),
    "flatten": lambda t, x, v: x.flatten(v), "sort": lambda t, x, v: t.sort(x, 0, v), "tril": lambda t, x, v: x.tril(v),
}


@pytest.mark.parametrize("call", CALLS)
def test_what_is_given_for_a_parameter(call):
    for name, value in ARGUMENTS.items():
        if call in ("abs", "mm") and name == "a tensor" or (call, name) in {("momentum", "nothing"),
                                                                            ("momentum", "a tensor"),
                                                                            ("momentum", "beyond 64 bits"),
                                                                            ("roll", "a bool"),
                                                                            ("keepdim", "a truth of NumPy"),
                                                                            ("sum", "a truth of NumPy"),
                                                                            ("sort", "a truth of NumPy")}:
            continue
        kinds = []
        for t in (torch, rl):
            try:
                CALLS[call](t, t.ones(2, 2), t.ones(1, 1, 1) if name == "a tensor" else value)
            except (TypeError, ValueError, OverflowError) as error:
                kinds.append(TypeError if isinstance(error, TypeError) and "beyond" not in name else ValueError)
            except (RuntimeError, IndexError):
                kinds.append(None)
            else:
                kinds.append(None)
        assert kinds[0] is kinds[1], (name, kinds)
