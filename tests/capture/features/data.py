"""Unbacked numbers and sizes: they are read between two programs of one graph."""
import numpy as np

import rushlight as torch
import rushlight.nn.functional as F

from .table import case


@case()
def item_scales(x):
    return x * x.abs().max().item()


@case()
def item_is_returned(x):
    v = (x + 1).sum().item()
    return x * 2, v, v * 2 + 1, [v / 4]


@case()
def int_item(x):
    n = (x > 0).sum().item()
    return n, n + 1, n // 2, -n % 3, x * n, isinstance(n, int)


@case()
def item_accumulates(x):
    total = 0.0
    for k in range(3):
        total += (x * k).sum().item()
    return total / 3, x


@case()
def item_read_between_writes(x):
    y = x + 1
    a = y.sum().item()
    y.mul_(2)
    return a, y.sum().item(), y


@case()
def float_and_int_of_tensors(x):
    return float(x.sum()), float(x.long().sum()), int(x.long().sum())


@case()
def tolist_unpacked(x):
    a, b = (x[:2] * 10).long().tolist()
    return x * a + b, (x[:2] + 1).tolist()


@case(2, "RB002")
def branch_on_item(x):
    y = x * 2
    if y.sum().item() > 0:
        return y + 1
    return y - 1


@case(2, "RB003")
def range_of_item(x):
    for _ in range((x > 100).sum().item()):
        x = x + 1
    return x


@case(2, "RB002")
def division_by_item(x):
    n = (x > 100).sum().item()
    try:
        return x + 1 / n
    except ZeroDivisionError:
        return x - 1


@case()
def nonzero(x):
    return torch.nonzero(x > 0) + 1, (x > 0).nonzero(as_tuple=True)[0] * 2, torch.argwhere(x > 0)


@case()
def boolean_mask(x):
    return x[x > 0] * 2, x.masked_select(x > 0).sum(), x[x > 100]


@case()
def two_masked(x):
    m = x > 0
    return x[m] * x[m] + 1, torch.stack([x[m], x[m]]).mean(1), torch.where(x[m] > 1, x[m], 0.0)


@case()
def masked_rows(x):
    rows = torch.outer(x, x)
    picked = rows[x > 0]
    return (picked @ torch.ones(4, 2)).softmax(-1), F.layer_norm(picked, (4,)), picked.t().contiguous()


@case()
def mask_is_written(x):
    y = x.clone()
    y[y > 0] = y[y < 0].sum()
    return y


@case()
def sizes_of_masked(x):
    y = x[x > 0]
    return y.shape[0], y.numel() * 2, len(y), y.size(), y.sum() / y.shape[0], torch.zeros(y.shape[0] + 1)


@case(2, "RB002")
def branch_on_masked_size(x):
    y = x[x > 100]
    return y + 1 if y.numel() else x


@case()
def joined(x):
    return torch.cat([x[x > 0], x[x <= 0]]).view(-1, 1)


@case(2, "RB012")
def added_to_another_size(x):
    return x[x > 0][:2] + x[:2]


@case()
def unique(x):
    v, where, count = torch.unique(x.round(), return_inverse=True, return_counts=True)
    return torch.unique(x.round()) + 1, v[where] * count[where], torch.unique_consecutive(x > 0)


@case()
def repeated(x):
    return x.repeat_interleave((x > 0).long() + 1) * 2, x.repeat_interleave((x > -100).long() * 2,
                                                                            output_size=8) + x.repeat_interleave(2)


@case()
def looked_up(x):
    return torch.searchsorted(x.sort().values, x) + torch.bucketize(x, torch.tensor([0.0, 1.0])), torch.isin(x, x[:2])


@case()
def counted(x):
    return torch.bincount((x > 0).long()), torch.histc(x, 5), x.round().mode().values, x.median(), x.quantile(0.3)


@case()
def checked_elements(x):
    return F.one_hot((x > 0).long(), 3) * 2, F.one_hot((x > 0).long()) + 1, F.binary_cross_entropy(x.sigmoid(),
                                                                                                   (x > 0).float())


@case()
def element_check_that_fails(x):
    return F.one_hot((x > -100).long() * 7, 3)


@case()
def checked_size(x):
    n = (x > 0).sum().item()
    torch._check_is_size(n)
    torch._check(n <= x.shape[0])
    return x[:n] * 2, x[n:], torch.zeros(n) + 1, torch.arange(n) * 2, x.new_ones(n, 3).sum(0)


@case()
def check_that_fails(x):
    n = (x > -100).sum().item()
    torch._check(n < 2, lambda: "too many")
    return x * n


def leaf():
    return (torch.arange(4.0).requires_grad_(),)


@case(given=leaf)
def gradient_through_a_mask(x, w):
    y = (w * x)[x > 0]
    return (y ** 2).sum() * y.shape[0]


@case(given=leaf)
def backward_then_item(x, w):
    loss = (w * x).sum()
    loss.backward()
    return loss.item(), w.grad + 1


@case(given=leaf)
def backward_through_a_mask(x, w):
    loss = ((w * x)[x > 0] ** 2).sum()
    loss.backward()
    return loss.item(), w.grad + 1


@case()
def assert_on_data(x):
    assert (x > -9).all()
    n = (x > 0).sum().item()
    assert n <= 4, "too many"
    return x * n, x[:n] if n is None else x


@case()
def assert_that_fails(x):
    assert (x > 0).all(), "some are below"
    return x + 1


@case(2, "RB002")
def assert_within_a_try(x):
    try:
        assert (x > 0).all(), "some are below"
    except AssertionError as error:
        return str(error), x
    return x + 1


@case(2, "RB002")
def assert_with_a_text_of_data(x):
    assert (x > 0).all(), f"{x.sum():.2f}"
    return x + 1


@case(1, "RB002", given=lambda: ([],))
def assert_after_an_effect(x, seen):
    seen.append(1)
    assert (x > 0).all()
    seen.append(2)


@case()
def assert_between_writes(x):
    x.add_(1)
    assert (x > 0).all(), "first"
    x.mul_(2)
    assert (x > 1).all(), "second"
    return x


@case(2, "RB002")
def element_check_within_a_try(x):
    try:
        return F.one_hot((x > -100).long() * 7, 3)
    except RuntimeError as error:
        return str(error)


@case()
def element_check_within_a_with(x):
    with torch.no_grad():
        assert (x > -100).all()
        return F.one_hot((x > 0).long(), 3)


@case()
def numbers_in_tensors_that_are_known(x):
    rows = torch.div(x.size(0), 2, rounding_mode="trunc")
    n = torch.tensor(2) + 1
    if n > 2:
        x = x + 1
    return x.view(rows, 2) * int(rows), x[:n] * n.item(), [x * k for k in range(torch.tensor(2))]


@case()
def known_numbers_that_are_written(x):
    n = torch.tensor(2.0)
    shown = n.view(1)
    n.mul_(3)
    return x * shown.item(), float(n)


@case()
def slices_by_tensors(x):
    count = (x > 0).sum()
    torch._check(count.item() <= 4)
    return x[:torch.tensor(3)] + x[1:torch.tensor(4)]


SCALE, COUNT = np.float32(2.5), np.int64(3)


@case()
def numbers_of_numpy(x):
    n = np.lcm(2, 3)
    if n % 2 == 0 and not n > 7:
        x = x * n
    return x * SCALE + np.sqrt(4.0) * x[:COUNT].sum(), int(n), float(SCALE), type(n).__name__


@case()
def nothing_times_an_unknown_number(x):
    n = x[x > 0].shape[0]
    zero = len([]) * n
    return [zero, n - n][zero % 2], x * zero


@case()
def views_made_before_a_number_is_read_and_written_after(x):
    w = x * 1
    v, u = w[1:], w.view(2, 2)
    y = v * 2
    v.mul_(x.sum().item())
    u.t().add_(x.abs().sum().item())
    return w * 1, y, v, u
