"""Results lie in memory as PyTorch's do, planned for their own sizes, as one of many, and compiled for all: strides are
compared, beside values."""
import pytest

judge = pytest.importorskip("torch")

import rushlight as rl  # noqa: E402

LAYOUTS = {
    "transposed": lambda t, n: t.arange(float(n * (n + 1))).reshape(n, n + 1).t(),
    "stepped": lambda t, n: t.arange(float(n * 2 * (n + 3))).reshape(n, 2 * (n + 3))[:, ::2],
    "transposed, sliced": lambda t, n: t.arange(float(n * (n + 3))).reshape(n, n + 3).t()[1:],
    "sliced, transposed": lambda t, n: t.arange(float(n * (n + 3))).reshape(n, n + 3)[:, 1:].t(),
    "channels last": lambda t, n: t.arange(float(6 * n * (n + 1))).reshape(2, 3, n, n + 1)
    .contiguous(memory_format=t.channels_last),
    "channels last, sliced": lambda t, n: t.arange(float(10 * n * (n + 1))).reshape(2, 5, n, n + 1)
    .contiguous(memory_format=t.channels_last)[:, 1:4],
    "permuted": lambda t, n: t.arange(float(3 * n * (n + 2))).reshape(3, n, n + 2).permute(1, 2, 0),
    "sliced, permuted, sliced": lambda t, n: t.arange(float(4 * n * (n + 2))).reshape(4, n, n + 2)[1:]
    .permute(2, 0, 1)[1:],
    "expanded": lambda t, n: t.arange(float(n)).reshape(n, 1).expand(n, 4),
}
FORMS = [lambda t, x: x.abs(), lambda t, x: x.clone(), lambda t, x: x * 2 + x,
         lambda t, x: t.where(x > 3, x, x + x[:1])]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_results_lie_as_pytorch_has_them(layout):
    for form in FORMS:
        compiled = rl.compile(lambda x: form(rl, x), dynamic=True)
        for n in (5, 6, 7, 9, 4, 12):
            wanted = form(judge, LAYOUTS[layout](judge, n))
            for found in (form(rl, LAYOUTS[layout](rl, n)), compiled(LAYOUTS[layout](rl, n))):
                assert found.stride() == wanted.stride() and found.tolist() == wanted.tolist(), n
