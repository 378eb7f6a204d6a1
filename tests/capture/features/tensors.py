"""Tensors: in-place changes and views, indexing, autograd, modes, random numbers, functions with their own gradient."""
import rushlight as torch
import rushlight.nn as nn
import rushlight.nn.functional as F

from .table import case


def leaf():
    return (torch.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True),)


@case()
def methods_and_operators(x):
    return x.sin() + x.exp() * 2 - x / 3, x // 1, x % 2, x ** 2, -x, +x, abs(x), x @ x, 1 - x, 2 / (x * x + 1), 2 ** x


@case()
def comparisons(x):
    return x > 0, x == x, x != 0, x <= 1, (x > 0) & (x < 1), ~(x > 0), (x > 0) | (x < -1), (x > 0) ^ (x < 1)


@case()
def in_place_operators(x):
    x += 1
    x *= 2
    x -= 0.5
    x /= 2
    return x


@case()
def in_place_methods(x):
    y = x.clone()
    y.add_(1).mul_(2)
    y.clamp_(0, 3)
    return y, x


@case()
def in_place_on_argument(x):
    x.add_(1)
    x[0] = 9
    x[1:3] = torch.zeros(2)
    return x.sum()


@case()
def in_place_through_view(x):
    v = x.view(2, 2)
    v[0, 0] = 5
    v[1].zero_()
    return x, v


@case()
def view_sees_later_change(x):
    y = x.clone()
    row = y.view(2, 2)[1]
    y.mul_(2)
    return row, y


@case()
def in_place_under_masks(x):
    x[x > 0] = 0
    x.masked_fill_(x < -1, 7)
    return x


@case()
def fill_copy_zero(x):
    y = torch.empty(4)
    y.copy_(x)
    z = torch.empty(2).fill_(3)
    return y, z, torch.zeros(2).zero_()


@case()
def swap_rows_in_place(x):
    m = x.view(2, 2).clone()
    m[[0, 1]] = m[[1, 0]]
    return m


@case()
def out_argument(x):
    y = torch.empty(4)
    torch.add(x, 1, out=y)
    return y


@case(given=lambda: ([torch.zeros(2)],))
def tensor_in_list_changed(x, items):
    items[0].add_(1)
    items[0] = items[0] + 1
    return items[0]


@case(given=lambda: ({"w": torch.ones(2)},))
def tensor_in_dict_changed(x, state):
    state["w"].mul_(2)
    state["new"] = state["w"]
    return x


@case(given=lambda: ((lambda t: (t, t.view(2)))(torch.ones(2)),))
def argument_and_its_view(x, pair):
    a, b = pair
    a.add_(1)
    return b * 2


@case()
def indexing(x):
    m = torch.arange(12.0).view(3, 4)
    return m[0], m[:, 1], m[1:, ::2], m[..., -1], m[None].shape, m[[0, 2]], m[torch.tensor([1])], m[
        0, torch.tensor([1, 2])], x[-1]


@case()
def shapes(x):
    return x.shape, x.size(), x.size(0), x.numel(), x.dim(), x.ndim, len(
        x), x.stride(), x.is_contiguous(), x.element_size(), x.nelement()


@case()
def facts(x):
    return x.dtype, x.device, x.requires_grad, x.is_floating_point(), x.is_leaf, x.grad is None, x.layout, x.itemsize


@case()
def casts(x):
    return x.double(), x.to(torch.int64), x.to("cpu"), x.bool(), x.type(torch.float16), x.long().float(), x.type_as(
        torch.ones(1, dtype=torch.float64))


@case()
def rearranging(x):
    m = x.view(2, 2)
    return m.t(), m.permute(1, 0), m.reshape(-1), m.unsqueeze(0).squeeze(), torch.stack([x, x]), torch.cat(
        [x, x]), m.expand(3, 2, 2), x.repeat(2), m.flatten(), \
        x.chunk(2), x.split([1, 3]), m.unbind(), x.flip(0), x.roll(1), m.tril()


@case()
def reductions(x):
    m = x.view(2, 2)
    return x.sum(), m.mean(1), m.max(0), m.argmax(1), x.std(), x.norm(), m.prod(), x.min(), m.cumsum(
        0), m.any(), m.logsumexp(1), torch.topk(x, 2), x.sort()


@case()
def created(x):
    return torch.zeros(2), torch.ones(2, 2), torch.arange(3), torch.full((2,), 5), torch.eye(2), torch.linspace(
        0, 1, 3), torch.zeros_like(x), x.new_ones(2), \
        torch.tensor([1, 2]), torch.tensor(3.5), torch.empty(0)


@case()
def tensor_from_known_numbers(x):
    rows = [[i * j for j in range(2)] for i in range(2)]
    return torch.tensor(rows) * x.dim(), torch.as_tensor(2.0)


@case()
def where_and_masks(x):
    return torch.where(x > 0, x, 0), x.masked_fill(x < 0, 1), torch.clamp(x, min=0), x.maximum(torch.zeros(4))


@case()
def gather_scatter(x):
    i = torch.tensor([0, 2])
    return x.gather(0, i), torch.zeros(4).scatter(0, i, 1.0), x.index_select(0, i), torch.zeros(4).index_add(
        0, i, x[:2])


@case()
def einsum_and_matmul(x):
    m = x.view(2, 2)
    return torch.einsum("ij,jk->ik", m,
                        m), torch.matmul(m, m), torch.outer(x, x), torch.bmm(m[None], m[None]), F.linear(m, m)


@case(breaks="RB001")
def random_numbers(x):
    torch.manual_seed(0)
    return x


@case()
def dropout_and_friends(x):
    return F.dropout(x, 0.0), F.relu(x), F.softmax(x, 0), F.layer_norm(x, (4,)), F.gelu(x), F.mse_loss(x, x * 2)


@case()
def iteration_over_tensor(x):
    return [v * 2 for v in x], tuple(x.view(2, 2)), list(zip(x, range(2)))[1][0]


@case()
def star_of_tensor(x):
    return torch.stack([*x.view(2, 2)]), torch.max(*x.view(2, 2))


@case()
def tensor_in_conditions_by_identity(x):
    y = None
    return x is not None, y is None, x is x, x is not y, x in [x]


@case()
def detach_and_clone(x):
    return x.detach(), x.clone(), x.data.sum(), x.detach().requires_grad


@case(given=leaf)
def gradient_through(x, w):
    return (x * w).sum()


@case(given=leaf)
def gradient_flag(x, w):
    y = w * 2
    return y.requires_grad, w.requires_grad, y.detach().requires_grad, w.is_leaf, (x + 1).requires_grad


@case(given=leaf)
def no_grad_block(x, w):
    with torch.no_grad():
        y = w * 2
        inside = torch.is_grad_enabled()
    return y.requires_grad, (w * 3).requires_grad, inside, torch.is_grad_enabled()


@case(given=leaf)
def no_grad_decorator(x, w):
    @torch.no_grad()
    def f(v):
        return v * 2

    return f(w).requires_grad


@case(given=leaf)
def enable_grad_within_no_grad(x, w):
    with torch.no_grad():
        with torch.enable_grad():
            y = w * 2
        z = w * 2
    return y.requires_grad, z.requires_grad


@case(given=leaf)
def set_grad_enabled(x, w):
    with torch.set_grad_enabled(x.dim() > 1):
        y = w * 2
    return y.requires_grad, w.sum()


@case()
def set_grad_enabled_stays(x):
    before = torch.is_grad_enabled()
    torch.set_grad_enabled(False)
    inside = torch.is_grad_enabled()
    torch.set_grad_enabled(before)
    return inside, x


@case()
def inference_mode(x):
    with torch.inference_mode():
        y = x * 2
        inside = torch.is_inference_mode_enabled()
    return y.sum(), inside


@case()
def views_in_place(x):
    y = torch.outer(x, x)
    z = y
    y.unsqueeze_(0)
    y.squeeze_().t_().mul_(3)
    z.transpose_(0, 1).add_(1)
    return y, z, z.shape, y is z


@case(1, breaks=["RB011"])
def view_in_place_from_outside(x):
    y = x * 2
    x.unsqueeze_(0)
    return x.shape, y


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, v, k):
        ctx.save_for_backward(v)
        ctx.k = k
        return v * k

    @staticmethod
    def backward(ctx, g):
        (v,) = ctx.saved_tensors
        return g * ctx.k * 100, None


@case(given=leaf)
def custom_function(x, w):
    return Double.apply(w, 3).sum()


@case(given=leaf)
def custom_function_in_loop(x, w):
    for k in range(2):
        w = Double.apply(w, k + 1)
    return w.sum()


@case(given=leaf)
def in_place_with_gradient(x, w):
    y = w * 2
    y.add_(1)
    y[0] = 0
    return y.sum()


@case(given=leaf)
def view_in_place_with_gradient(x, w):
    y = w * 2
    y.view(2, 2)[0].mul_(3)
    return (y * y).sum()


@case(given=leaf)
def gradient_stopped(x, w):
    return (w * w.detach()).sum()


@case(given=lambda: (nn.Parameter(torch.ones(4)),))
def parameter_argument(x, w):
    return isinstance(w, nn.Parameter), type(w).__name__, (x * w).sum()


@case()
def default_dtype_and_info(x):
    return torch.get_default_dtype(), torch.finfo(x.dtype).max, torch.iinfo(
        torch.int32).max, torch.float32.is_floating_point, torch.promote_types(torch.int8, torch.float32)


@case(given=lambda: (torch.device("cpu"),))
def device_argument(x, d):
    return x.to(d), d.type, torch.zeros(2, device=d), d == torch.device("cpu")


@case()
def autocast(x):
    m = x.view(2, 2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = m @ m
    return y.dtype, y


@case()
def tolist(x):
    return (x + 1).tolist(), x * 2


@case(2, "RB003")
def format_tensor(x):
    return f"{x + 1}", x * 2


@case(given=leaf)
def backward_inside(x, w):
    loss = (w * x).sum()
    loss.backward()
    return w.grad + 1


@case(given=leaf)
def grad_inside(x, w):
    loss = (w * w).sum()
    (g,) = torch.autograd.grad(loss, w)
    return g * 2


@case()
def func_grad(x):
    return torch.func.grad(lambda v: (v * v).sum())(x)


@case()
def func_grad_and_value(x):
    g, v = torch.func.grad_and_value(lambda v: (v ** 3).sum())(x)
    return g + 1, v


@case()
def func_vmap(x):
    return torch.func.vmap(lambda row: row.sum() * row)(x.view(2, 2))


@case()
def func_jvp(x):
    return torch.func.jvp(torch.sin, (x,), (torch.ones(4),))


@case()
def func_jacrev_of_closure(x):
    k = 3
    return torch.func.jacrev(lambda v: v * v * k)(x)


@case()
def func_vmap_of_grad(x):
    return torch.func.vmap(torch.func.grad(lambda r: (r * r).sum()))(x.view(2, 2))


SCALE = 2.0


def scaled_square(v):
    return (v * v * SCALE).sum()


slope = torch.func.grad(scaled_square)


@case()
def func_made_outside(x):
    return slope(x) + 1


@case()
def func_with_effects(x):
    seen = []

    def f(v):
        seen.append(len(seen))
        return (v * v).sum()

    return torch.func.grad(f)(x), seen


@case()
def func_hessian(x):
    return torch.func.hessian(lambda v: (v ** 3).sum())(x)


@case()
def func_vjp(x):
    y, pull = torch.func.vjp(lambda v: v * v, x)
    return y, pull(torch.ones(4))


@case()
def func_of_module(x):
    torch.nn.functional.relu(x)
    weights = {"weight": torch.eye(4), "bias": torch.zeros(4)}
    layer = LAYER
    return torch.func.grad(lambda w: torch.func.functional_call(layer, w, (x,)).sum())(weights)


LAYER = nn.Linear(4, 4)


@case()
def func_under_no_grad(x):
    with torch.no_grad():
        g = torch.func.grad(lambda v: (v * v).sum())(x)
        inside = torch.is_grad_enabled()
    return g, inside, torch.is_grad_enabled()


@case(2, ("RB001", "RB006"))
def func_with_a_break_inside(x):
    def f(v):
        torch.compiler.graph_break()
        return (v * v).sum()

    return torch.func.grad(f)(x + 1) * 2


@case(2, ("RB001", "RB006"))
def func_kept_across_a_break(x):
    g = torch.func.grad(lambda v: (v * v).sum())
    y = x + 1
    torch.compiler.graph_break()
    return g(y)


@case(breaks=("RB001", "RB007"))
def func_that_raises(x):
    return torch.func.grad(lambda v: v * v)(x)


@case()
def func_raising_inside(x):
    def f(v):
        raise KeyError("inside")

    try:
        return torch.func.grad(f)(x)
    except KeyError as error:
        return str(error), x + 1
