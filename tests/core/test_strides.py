"""Strides of views, copies and resized tensors, beside torch's."""
import random

import pytest

import rushlight as rl

torch = pytest.importorskip("torch")


def describe(t, make):
    """Shape, strides and elements of a result; the type of an error."""
    try:
        made = make(t)
    except RuntimeError:
        return RuntimeError
    return tuple(made.shape), made.stride(), made.tolist()


def check(make):
    ours, theirs = describe(rl, make), describe(torch, make)
    assert ours == theirs


def strided(t, draw):
    """A tensor of up to 4 dimensions, some of size 0 or 1, whose memory may be permuted, stepped or repeated."""
    shape = [draw.choice((0, 1, 1, 2, 3)) for _ in range(draw.randint(0, 4))]
    x = t.arange(float(t.Size(shape).numel())).reshape(shape)
    if shape and draw.random() < 0.5:
        x = x.permute(draw.sample(range(len(shape)), len(shape)))
    if shape and draw.random() < 0.4:
        x = x[..., ::2]
    if shape and x.shape[-1] and draw.random() < 0.2:
        x = x[..., :1].expand(*x.shape[:-1], 3)
    return x


@pytest.mark.parametrize("seed", range(60))
def test_new_dimensions_of_expand_have_strides_of_torch(seed):
    def make(t):
        draw = random.Random(seed)
        x = strided(t, draw)
        return x.expand([draw.choice((1, 1, 2)) for _ in range(draw.randint(0, 3))] + list(x.shape))

    check(make)


@pytest.mark.parametrize("seed", range(60))
def test_ravel_is_contiguous(seed):
    check(lambda t: strided(t, random.Random(seed)).ravel())
    assert strided(rl, random.Random(seed)).ravel().is_contiguous()


FORMATS = (None, "contiguous_format", "channels_last", "channels_last_3d", "preserve_format")


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("shape", [(24,), (4, 6), (1, 2, 3, 4), (2, 2, 3, 4), (1, 2, 3, 2, 2), (1, 1, 1, 1),
                                   (0, 2, 3, 4)])
@pytest.mark.parametrize("before", [(24,), (1, 2, 3, 4), (0,)])
def test_resizing_takes_the_memory_format(before, shape, name):
    def sizes_and_strides(t, resize):
        try:
            made = resize(t, {} if name is None else {"memory_format": getattr(t, name)})
        except RuntimeError:
            return RuntimeError
        return tuple(made.shape), made.stride()

    def to_sizes(t, keywords):
        return t.zeros(before).resize_(shape, **keywords)

    def as_template(t, keywords):
        return t.zeros(before).resize_as_(t.zeros(shape), **keywords)

    def as_permuted_template(t, keywords):
        return t.zeros(before).resize_as_(t.zeros(shape).movedim(-1, min(1, len(shape) - 1)), **keywords)

    for resize in (to_sizes, as_template, as_permuted_template):
        assert sizes_and_strides(rl, resize) == sizes_and_strides(torch, resize), resize


COPIES = (
    lambda t, x: t.slice_copy(x, 0, 0, 1), lambda t, x: t.ops.aten.slice_copy(x, 0, 0, 1),
    lambda t, x: t.unbind_copy(x)[0], lambda t, x: t.split_copy(x, 1)[0],
    lambda t, x: t.split_with_sizes_copy(x, [1, 1])[1], lambda t, x: t.select_copy(x, 0, 0),
    lambda t, x: t.permute_copy(x, (0, 2, 1, 3)), lambda t, x: t.narrow_copy(x, 0, 0, 1),
    lambda t, x: t.alias_copy(x), lambda t, x: t.unsqueeze_copy(x, 0))


@pytest.mark.parametrize("copy", COPIES)
def test_copies_of_views_are_contiguous(copy):
    check(lambda t: copy(t, t.arange(48.0).reshape(2, 2, 3, 4).contiguous(memory_format=t.channels_last)))


@pytest.mark.parametrize("seed", range(3))
def test_overlaps_within_a_tensor_as_torch_sees_them(seed):
    found = set()
    for k in range(60):
        codes = []
        for t in (rl, torch):
            draw = random.Random(1000 * seed + k)
            x = strided(t, draw)
            if x.dim() and draw.random() < 0.5:
                x = x.as_strided(x.shape, [draw.choice((0, 1, 2, 5)) for _ in x.shape]) if max(
                    x.shape) < 2 else x.unsqueeze(0).expand(draw.choice((1, 3)), *x.shape)
            codes.append(t._debug_has_internal_overlap(x))
        assert codes[0] == codes[1], (tuple(x.shape), x.stride())
        found.add(codes[0])
    assert {0, 1} <= found
