"""Points at even distances are PyTorch's to the bit: where it rounds is part of what arange and linspace mean."""
import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402

SPANS = [(0, 1, 50), (-3, 7, 50), (0, 1, 7), (1e-3, 2.5, 33), (-1, 1, 100), (5, 5, 3), (0, 1, 1), (3, -8, 17),
         (0, 0.1, 64), (-2.5, -0.1, 1000), (0, 3.14159, 361), (0, 2, 9999), (-1e30, 1e30, 40),
         (1, 10, 0), (0.1, 0.7, 2)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("compiled", [False, True])
def test_linspace(dtype, compiled):
    for first, last, count in SPANS:
        call = lambda lib: lib.linspace(first, last, count, dtype=getattr(lib, dtype))  # noqa: B023, E731
        mine = rushlight.compile(lambda: call(rushlight))() if compiled and count in (50, 33) else call(rushlight)
        assert mine.tolist() == call(torch).tolist(), (first, last, count)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_arange(dtype):
    for first, last, count in SPANS:
        if first != last and count:
            step = (last - first) / count
            ours, theirs = (lib.arange(first, last, step, dtype=getattr(lib, dtype)) for lib in (rushlight, torch))
            assert ours.tolist() == theirs.tolist(), (first, last, step)
    for count in (3, 16, 17, 40):
        assert rushlight.arange(count, dtype=getattr(rushlight, dtype)).tolist() == list(range(count))
        assert rushlight.arange(0.5, count).tolist() == torch.arange(0.5, count).tolist()
