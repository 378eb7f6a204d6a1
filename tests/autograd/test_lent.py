"""Values that nodes save and that users may write before the backward pass, since PyTorch saves others: nodes get
copies when that happens, and nothing is copied before."""
import ctypes
import gc

import numpy
import pytest

import rushlight as rl
from rushlight import func
from rushlight.nn import functional as F
from rushlight.utils.checkpoint import checkpoint

TARGET = rl.tensor([[0.5, 0.25, 4.0]])
READS_INPUT = {
    "relu": lambda x: x.relu(), "softmax": lambda x: x.softmax(-1), "log_softmax": lambda x: x.log_softmax(-1),
    "max": lambda x: x.max(-1)[0], "min": lambda x: x.min(-1)[0], "median": lambda x: x.median(-1)[0],
    "sort": lambda x: x.sort(-1)[0], "topk": lambda x: x.topk(2)[0], "kthvalue": lambda x: x.kthvalue(2)[0],
    "ndtr": rl.special.ndtr, "tanhshrink": F.tanhshrink, "kron": lambda x: rl.kron(x, TARGET),
    "l1_loss": lambda x: F.l1_loss(x, TARGET), "cross_entropy": lambda x: F.cross_entropy(x, rl.tensor([1])),
    "ldexp": lambda x: rl.ldexp(TARGET, x), "float_power": lambda x: rl.float_power(x, 3),
    "svdvals": rl.linalg.svdvals, "eigvalsh": lambda x: rl.linalg.eigvalsh(x[:, 2:]),
}
READS_RESULT = {"erfinv": lambda x: rl.erfinv(x / 4), "square root": lambda x: x.abs()**0.5}
WRITES = {"mul_": lambda x: x.mul_(2), "zero_": lambda x: x.zero_(), "a view": lambda x: x[:, 1:].fill_(7),
          "out": lambda x: rl.mul(x.detach(), 3, out=x.detach()), "data": lambda x: x.data.add_(1),
          "foreach": lambda x: rl._foreach_mul_([x], 2), "unrecorded": lambda x: unrecorded(x),
          "set item": lambda x: x.__setitem__((0, 0), 9.0),
          "array": lambda x: x.detach().numpy().fill(3), "as an array": lambda x: numpy.asarray(x.detach()).fill(3),
          "array over an array": lambda x: rl.from_numpy(x.detach().numpy()).fill_(3),
          "dlpack": lambda x: rl.from_dlpack(x.detach()).fill_(3),
          "array by dlpack": lambda x: rl.from_numpy(numpy.from_dlpack(x.detach())).fill_(3),
          "storage": lambda x: x.untyped_storage().copy_(rl.full((3,), 3.0).untyped_storage()),
          "typed storage": lambda x: x.storage().fill_(3),
          "address": lambda x: ctypes.memset(x.data_ptr(), 0, x.nbytes)}


def unrecorded(x):
    with rl.no_grad():
        x.mul_(2)


def leaf():
    return rl.tensor([[1.0, -2.0, 3.0]], requires_grad=True)


def slopes(call, write=None, create_graph=False):
    """The gradient of a sum of a call's results, and with ``create_graph`` that of the gradient's squares."""
    a = leaf()
    x = a * 1
    y = call(x)
    loss = (y * rl.arange(1.0, y.numel() + 1).reshape(y.shape)).sum()
    if write is not None:
        write(x)
    g, = rl.autograd.grad(loss, a, create_graph=create_graph)
    if not create_graph or not g.requires_grad:
        return g.tolist()
    return g.tolist(), rl.autograd.grad((g * g).sum(), a)[0].tolist()


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("name", READS_INPUT)
def test_a_written_input(name, write):
    assert slopes(READS_INPUT[name], WRITES[write]) == slopes(READS_INPUT[name])


def fill_array(array):
    array.fill(3)


def fill_address(memory):
    memory[:] = [3.0] * len(memory)


SHOWN = {"array": (lambda x: x.detach().numpy(), fill_array),
         "dlpack": (lambda x: rl.from_dlpack(x.detach()).numpy(), fill_array),
         "address": (lambda x: (ctypes.c_float * x.numel()).from_address(x.data_ptr()), fill_address)}


@pytest.mark.parametrize("how", SHOWN)
@pytest.mark.parametrize("name", READS_INPUT)
def test_an_input_written_through_what_was_given_out_before_the_call(name, how):
    give, fill = SHOWN[how]
    given = []

    def called(x):
        given.append(give(x))
        return READS_INPUT[name](x)
    assert slopes(called, lambda x: fill(given[0])) == slopes(READS_INPUT[name])


@pytest.mark.parametrize("name", READS_INPUT)
def test_an_input_over_an_array_that_is_written(name):
    array = leaf().detach().numpy().copy()
    a = rl.from_numpy(array).requires_grad_()
    y = READS_INPUT[name](a)
    array.fill(3)
    b = leaf()
    wanted, = rl.autograd.grad(READS_INPUT[name](b).sum(), b)
    assert rl.equal(rl.autograd.grad(y.sum(), a)[0], wanted)


def test_what_pytorch_reads_as_well_follows_the_array():
    a = leaf()
    x = a * 1
    array = x.detach().numpy()
    y = x * x
    array.fill(3)
    assert rl.autograd.grad(y.sum(), a)[0].tolist() == [[6.0] * 3]


@pytest.mark.parametrize("name", READS_INPUT)
def test_a_written_input_and_second_derivatives(name):
    call = READS_INPUT[name]
    assert slopes(call, WRITES["mul_"], create_graph=True) == slopes(call, create_graph=True)


READS_COPY = {
    "frexp": lambda x: rl.frexp(x)[0],
    **{f"conv{n}d of uneven padding": (lambda x, n=n: F.__dict__[f"conv{n}d"](
        x.reshape(1, 1, *(1,) * (n - 1), 6), x.new_ones(1, 1, *(1,) * (n - 1), 2).requires_grad_(), padding="same"))
       for n in (1, 2, 3)}}


@pytest.mark.parametrize("passes", (1, 2))
@pytest.mark.parametrize("dtype", (rl.float32, rl.bfloat16, rl.float16), ids=str)
@pytest.mark.parametrize("name", READS_COPY)
def test_an_input_of_which_pytorch_saves_something_computed(name, dtype, passes):
    def gradients(write):
        a = rl.arange(1.0, 7, dtype=dtype, requires_grad=True)
        x = a * 1
        y = READS_COPY[name](x)
        loss = (y * y).sum()
        write(x)
        g, = rl.autograd.grad(loss, a, create_graph=passes == 2)
        return g if passes == 1 else rl.autograd.grad(g.sum(), a)[0]

    assert rl.equal(gradients(lambda x: x.zero_()), gradients(lambda x: x))


@pytest.mark.parametrize("name", READS_RESULT)
def test_a_written_result(name):
    a = leaf()
    wanted, = rl.autograd.grad(READS_RESULT[name](a).sum(), a)
    assert rl.autograd.grad(READS_RESULT[name](a).mul_(2).sum(), a)[0].tolist() == (2 * wanted).tolist()


@pytest.mark.parametrize("name", READS_INPUT)
def test_a_hook_that_keeps_what_it_is_given(name):
    def hooked(x):
        with rl.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
            return READS_INPUT[name](x)
    assert slopes(hooked, WRITES["mul_"]) == slopes(READS_INPUT[name])


@pytest.mark.parametrize("call", [rl.sin, lambda x: x.exp() * x, F.tanhshrink, lambda x: (x * x).cos()])
@pytest.mark.parametrize("write", WRITES)
def test_a_written_argument_of_a_checkpoint(call, write):
    def checkpointed(x):
        return checkpoint(call, x, use_reentrant=False)
    assert slopes(checkpointed, WRITES[write]) == slopes(call)


def test_a_value_written_within_a_checkpoint():
    def written(x):
        y = x.sin()
        z = y.exp() + y.cos()
        y.mul_(2)
        return z.sin()

    def unwritten(x):
        y = x.sin()
        return (y.exp() + y.cos()).sin()
    assert slopes(lambda x: checkpoint(written, x, use_reentrant=False)) == slopes(unwritten)


def test_an_argument_written_within_a_checkpoint_is_read_as_it_was():
    a = leaf()
    x = a * 1
    y = checkpoint(lambda x: x.mul_(2).sin(), x, use_reentrant=False)
    y.sum().backward(retain_graph=True)
    first = a.grad.clone()
    assert rl.allclose(first, 2 * (2 * leaf().detach()).cos())
    y.sum().backward()
    assert rl.equal(a.grad, 2 * first)


@pytest.mark.parametrize("name", READS_RESULT)
def test_a_written_result_and_a_hook_that_keeps_what_it_is_given(name):
    a, b = leaf(), leaf()
    with rl.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        y = READS_RESULT[name](a)
    y.zero_()
    wanted, = rl.autograd.grad(READS_RESULT[name](b).sum() * 0, b)
    assert rl.equal(rl.autograd.grad(y.sum(), a)[0], wanted)


def test_a_value_that_both_libraries_save_is_refused():
    for call in (rl.sin, rl.log, lambda x: x * TARGET.clone().requires_grad_()):
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            slopes(call, WRITES["mul_"])


def test_a_write_before_the_last_one_was_noticed():
    """A value that was stale before it was copied stays stale."""
    a = leaf()
    x = a * 1
    y = rl.special.ndtr(x) + x.sin()
    x.mul_(2)
    x.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_several_nodes_share_one_copy():
    a = leaf()
    x = a * 1
    nodes = [F.tanhshrink(x).grad_fn.grad_node for _ in range(2)]
    x.zero_()
    assert nodes[0].saved[0] is nodes[1].saved[0] and nodes[0].saved[0].tolist() == a.tolist()


def test_nothing_is_copied_for_nodes_that_are_gone():
    x = leaf() * 1
    for _ in range(100):
        F.tanhshrink(x).sum()
    gc.collect()
    assert len(x._rush_storage.lent) < 32
    kept = F.tanhshrink(x)
    saved = kept.grad_fn.grad_node.saved[0]
    assert saved is x  # no copy before a write
    x.zero_()
    assert x._rush_storage.lent is None and kept.grad_fn.grad_node.saved[0] is not x


def test_a_leaf_gets_its_gradient_through_a_copy():
    a = leaf()
    y = F.tanhshrink(a)
    with rl.no_grad():
        a.mul_(2)
    g, = rl.autograd.grad(y.sum(), a, create_graph=True)
    g.sum().backward()
    b = leaf()
    h, = rl.autograd.grad(F.tanhshrink(b).sum(), b, create_graph=True)
    h.sum().backward()
    assert g.tolist() == h.tolist() and a.grad.tolist() == b.grad.tolist()


@pytest.mark.parametrize("name", READS_INPUT)
def test_a_write_within_a_transformed_function(name):
    def written(a):
        x = a * 1
        y = READS_INPUT[name](x) * 1
        x.mul_(2)
        return y

    a = leaf().detach()
    y, pull = func.vjp(written, a)
    plain, plainly = func.vjp(READS_INPUT[name], a)
    assert pull(rl.ones_like(y))[0].tolist() == plainly(rl.ones_like(plain))[0].tolist()


def test_one_value_is_saved_if_the_derivative_reads_the_result():
    """A value that only a double backward would read is not saved if the result leads to the inputs."""
    for call in (lambda x: x.relu(), lambda x: x.softmax(-1), lambda x: x.log_softmax(-1)):
        node = call(leaf() * 1).grad_fn.grad_node
        assert node.plan.saves == (-1,) and not node.plan.lent
