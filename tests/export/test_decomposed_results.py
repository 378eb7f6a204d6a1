"""What decomposed programs give: the dtypes of the operators themselves, and the values of calls that write."""
import pytest

import rushlight as rl
from tests.export.test_decomposed_views import agree

pytestmark = pytest.mark.filterwarnings("ignore")
WHOLE = {
    "dot": lambda x: rl.dot(x, x), "mv": lambda x: rl.mv(x.reshape(1, 3), x), "matmul": lambda x: x @ x,
    "vecdot": lambda x: rl.linalg.vecdot(x, x), "all": lambda x: (x.all(), x.all(0), rl.all(x.reshape(1, 3), (0, 1))),
    "any": lambda x: (x.any(), x.any(0)), "trace": lambda x: rl.trace(x.reshape(1, 3)),
    "sums": lambda x: (x.sum(), x.prod(), x.cumsum(0), rl.sum(x, 0, dtype=rl.int32)),
    "tensordot": lambda x: rl.tensordot(x, x, 1), "inner": lambda x: (rl.inner(x, x), rl.outer(x, x)),
    "einsum": lambda x: rl.einsum("i,i->", x, x), "addr": lambda x: rl.addr(rl.ones(3, 3), x, x, beta=0),
    "entr": lambda x: rl.special.entr(x),
    "rsub": lambda x: (rl.rsub(x, 2, alpha=2), rl.rsub(x, x, alpha=3)), "floor": lambda x: rl.floor_divide(x, 2)}


@pytest.mark.parametrize("dtype", [rl.int32, rl.uint8, rl.int64])
@pytest.mark.parametrize("name", WHOLE)
def test_whole_numbers_keep_their_dtype(name, dtype):
    agree(WHOLE[name], rl.tensor([1, 0, 2], dtype=dtype))


PLUS = {"addr": ((3,), (3,)), "addmm": ((3, 3), (3, 3)), "addmv": ((3, 3), (3,)), "addbmm": ((2, 3, 3), (2, 3, 3)),
        "baddbmm": ((1, 3, 3), (1, 3, 3))}


@pytest.mark.parametrize("name", PLUS)
def test_nothing_of_the_input_counts_where_beta_is_0(name):
    a, b = map(rl.ones, PLUS[name])
    nan = rl.full((3,) if name == "addmv" else (1, 3, 3) if name == "baddbmm" else (3, 3), float("nan"))
    call = getattr(rl, name)
    assert not call(nan, a, b, beta=0).isnan().any() and not call(nan, a, b, beta=0.0, alpha=2).isnan().any()
    assert call(nan, a, b, beta=2).isnan().all()
    rl.testing.assert_close(call(nan.nan_to_num(3.0), a, b, beta=2), call(nan.nan_to_num(6.0), a, b))
    agree(lambda *given: call(*given, beta=0), nan, a, b)


WRITES = {
    "zero_": lambda b: b.zero_(), "pow_": lambda b: b.pow_(b), "floor_divide_": lambda b: b.floor_divide_(b + 1),
    "float_power_": lambda b: b.double().float_power_(b), "ldexp_": lambda b: b.ldexp_(b), "relu_": lambda b: b.relu_(),
    "clamp_": lambda b: b.clamp_(0, 1), "masked_fill_": lambda b: b.masked_fill_(b > 2, 7.0),
    "index_fill_": lambda b: b.index_fill_(0, rl.tensor([0]), 9.0),
    "addr_": lambda b: b.addr_(rl.ones(2), b[0].clone(), beta=0),
    "zero_of_a_part": lambda b: b[0].zero_(), "threshold": lambda b: rl.nn.functional.threshold(b, 1, 7),
    "threshold_": lambda b: rl.nn.functional.threshold_(b, 1, 7), "elu": lambda b: rl.nn.functional.elu(b - 3, 2.0),
    "celu": lambda b: rl.nn.functional.celu(b - 3, 2.0), "hardtanh": lambda b: rl.nn.functional.hardtanh(b, 1.0, 2.0),
    "leaky_relu": lambda b: rl.nn.functional.leaky_relu(b - 3, 0.5), "hardtanh_": lambda b: rl.nn.functional.hardtanh_(
        b, 1.0, 2.0)}


@pytest.mark.parametrize("name", WRITES)
def test_calls_that_write(name):
    def call(x):
        base = x * 1
        return WRITES[name](base) + 0, base

    agree(call, rl.arange(6.0).reshape(2, 3))


def test_inner_functions_have_one_body():
    aten, x = rl.ops.aten, rl.randn(1, 2, 4, 4)
    from rushlight._src.core.op import OPS
    flash = "_scaled_dot_product_flash_attention_for_cpu"
    for scale in (0.0, 0.3, None):
        shown = (x @ x.mT) * (0.5 if scale is None else scale)
        for call in (getattr(aten, flash).default, OPS[flash]):
            rl.testing.assert_close(call(x, x, x, scale=scale)[1], shown.logsumexp(-1))
            assert call(x.double(), x.double(), x.double())[1].dtype is rl.float64
            with pytest.raises(RuntimeError, match="mask"):
                call(x, x, x, attn_mask=rl.ones(4, 4, dtype=rl.bool))
    for name in ("_softmax", "_log_softmax"):
        for call in (getattr(aten, name).default, OPS[name]):
            assert call(x.half(), -1, True).dtype is rl.float32 and call(x.half(), -1, False).dtype is rl.float16


class Choice(rl.nn.Module):
    def forward(self, x):
        return rl.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))


@pytest.mark.parametrize("case", ["written", "dtype"])
def test_branches_that_write_or_differ_are_refused(case):
    program, aten = rl.export.export(Choice(), (rl.ones(3),)), rl.ops.aten

    def writes(x):
        return aten.add_.Tensor(x, 1)

    table = {aten.sin.default: {"written": writes, "dtype": lambda x: x.to(rl.float64)}[case]}
    with pytest.raises({"written": NotImplementedError, "dtype": RuntimeError}[case], match="branch"):
        program.run_decompositions(table)
    rl.testing.assert_close(program.run_decompositions({}).module()(rl.ones(3)), rl.ones(3).sin())


BECOMES = {"squeeze_": lambda b: b.squeeze_(0), "unsqueeze_": lambda b: b.unsqueeze_(1), "t_": lambda b: b.t_(),
           "transpose_": lambda b: b.transpose_(0, 1), "swapaxes_": lambda b: b.swapaxes_(0, 1)}


@pytest.mark.parametrize("name", BECOMES)
def test_a_tensor_that_becomes_a_view_of_itself(name):
    def call(x):
        base = x * 1
        row = base[0]
        made = BECOMES[name](base)
        made.mul_(2)
        row.add_(1)
        return made + 0, base + 0, row + 0

    agree(call, rl.arange(3.0).reshape(1, 3))
