"""Writes into views of a decomposed program reach what they are views of, whichever overload makes the view."""
import inspect

import pytest

import rushlight as rl
from rushlight._src.core.op import OPS
from rushlight._src.core.shape_env import ShapeEnv
from rushlight.export.decomposing import Decomposer, Held
from rushlight.library.conventions import FORMS, OPENED
from rushlight.library.overloads import lines, overloads

pytestmark = pytest.mark.filterwarnings("ignore")
REAL = {
    "bytes": lambda b: b.view(rl.int32), "half_bytes": lambda b: b.view(rl.int16), "turned_bytes": lambda b: b.t().view(
        rl.int32), "wider": lambda b: b.view(rl.float64), "negative": rl._neg_view, "diagonal": rl.linalg.diagonal,
    "part": lambda b: b[1, ::2], "transposed": lambda b: b.T[0], "flat": lambda b: b.flatten(),
    "narrow": lambda b: b.narrow(1, 1, 2), "split": lambda b: b.split(3, 1)[1], "detached": lambda b: b.detach(),
    "complex": lambda b: rl.view_as_complex(b.view(2, 2, 2)), "adjoint": lambda b: b.adjoint()}
COMPLEX = {"real": lambda b: b.real, "imag": lambda b: b.imag, "view_as_real": rl.view_as_real,
           "conj": lambda b: b.conj(), "mH": lambda b: b.mH[1], "adjoint": lambda b: b.adjoint(),
           "real_of_conj_copy": lambda b: b.conj()[1]}
COPIES = {"reshape": lambda b: b.t().reshape(-1), "contiguous": lambda b: b.t().contiguous(),
          "to": lambda b: b.to(rl.float64)}


def module_of(call):
    class Module(rl.nn.Module):
        def forward(self, *given):
            return call(*given)

    return Module()


def agree(call, *given):
    """Whether a program does what the call does, as it is exported and as it is decomposed."""
    def fresh():
        return tuple(x.clone() for x in given)

    wanted = call(*fresh())
    program = rl.export.export(module_of(call), fresh())
    for found in (program.module()(*fresh()), program.run_decompositions().module()(*fresh())):
        rl.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize("name", [*REAL, *COPIES])
def test_a_write_into_a_view_of_numbers(name):
    def call(x):
        base = x * 1
        seen = {**REAL, **COPIES}[name](base)
        seen.mul_(2)
        return base + 0, seen + 0

    agree(call, rl.arange(1.0, 9.0).reshape(2, 4))


@pytest.mark.parametrize("name", COMPLEX)
def test_a_write_into_a_view_of_complex_numbers(name):
    def call(x):
        base = rl.complex(x, x * 3)
        seen = COMPLEX[name](base)
        seen.add_(2)
        base.mul_(3)
        return rl.view_as_real(base) + 0, seen.real + 0

    agree(call, rl.arange(1.0, 9.0).reshape(2, 4))


VIEWS = [f"{name}.{label}" for name in lines() for label, one in overloads(name).items()
         if not one.is_mutable and any(r.alias_info for r in one.returns)]
GIVEN = {"as_strided": ([2], [1]), "broadcast_to": ([2, 2, 2],), "dsplit.int": (2,), "dsplit.array": ([1],),
         "expand": ([2, 2, 2],), "hsplit.int": (1,), "hsplit.array": ([1],), "movedim.int": (0, 1),
         "movedim.intlist": ([0], [1]), "moveaxis.int": (0, 1), "moveaxis.intlist": ([0], [1]), "narrow": (0, 0, 1),
         "permute": ([1, 0],), "reshape": ([4],), "select": (0, 1), "split": (1,), "split.sizes": ([1, 1],),
         "split_with_sizes": ([1, 1],), "squeeze.dim": (0,), "squeeze.dims": ([0],), "swapaxes": (0, 1),
         "swapdims": (0, 1), "tensor_split.sections": (2,), "tensor_split.indices": ([1],), "transpose": (0, 1),
         "unflatten": (0, [2, 1]), "unfold": (0, 2, 1), "unsqueeze": (0,), "view": ([4],), "chunk": (2,),
         "vsplit.int": (2,), "vsplit.array": ([1],), "view.dtype": (rl.int32,)}
OTHERS = ("expand_as", "reshape_as", "view_as", "to.other")  # what takes another tensor


@pytest.mark.parametrize("full", VIEWS)
def test_what_shares_memory_knows_its_base(full):
    """Every overload whose schema says that its result shares memory gives a view of its argument, or refuses."""
    name, _, label = full.partition(".")
    packet = getattr(rl.ops.aten, name, None)
    if packet is None or not hasattr(packet, label):
        pytest.skip("an operator that is not there")
    dtype = rl.complex64 if name in ("real", "imag", "conj", "_conj", "view_as_real", "mH", "adjoint") else rl.float32
    shape = (2, 2, 2) if name == "dsplit" else (2, 2)
    base = rl.empty(shape, dtype=dtype)
    writer = Decomposer(rl.export.default_decompositions())
    writer.shape_env = ShapeEnv()
    held = writer.lifted(base)
    given = GIVEN.get(full, GIVEN.get(name, ()))
    if full in OTHERS or name in OTHERS:
        given = (writer.lifted(rl.empty(shape)),)
    with writer.shape_env, writer:
        try:
            found = writer.overload(getattr(packet, label), (held, *given), {})
        except (NotImplementedError, AttributeError, RuntimeError, TypeError) as error:
            pytest.skip(f"refused: {error}")
    for one in found if isinstance(found, (tuple, list)) else (found,):
        assert isinstance(one, Held)
        assert one is held or one.base is held, "a write into it would be lost"


def test_forms_name_parameters_that_exist():
    for name, form in {**FORMS, **OPENED}.items():
        if name not in OPS or OPS[name].signature is None:
            continue
        known = OPS[name].signature.parameters
        if inspect.Parameter.VAR_KEYWORD in [p.kind for p in known.values()]:
            continue
        made = {"others"} if name == "tensordot" else set()  # what `back` joins to `dims`
        assert {*form.given.values(), *form.dropped, *form.same} - made <= set(known), name


def test_a_mask_selects_what_is_written():
    def call(x):
        base = x * 1
        base[base > 2] = 0
        return base

    agree(call, rl.arange(6.0).reshape(2, 3))


@pytest.mark.parametrize("given", [((2, 3), 1), ((0, 2), 1, 0), ((2, 0), 1), ((3, 2), (1, -5), (0, 1))])
def test_roll(given):
    shape, *rest = given
    agree(lambda x: (rl.roll(x, *rest), rl.roll(x.t(), 1)), rl.arange(1.0 * shape[0] * shape[1]).reshape(shape))
