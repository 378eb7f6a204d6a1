"""Settings of determinism beside torch's."""
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")


def seen(t):
    return (t.are_deterministic_algorithms_enabled(), t.is_deterministic_algorithms_warn_only_enabled(),
            t.get_deterministic_debug_mode())


def test_levels_are_torchs():
    for call in (lambda t: t.use_deterministic_algorithms(True),
                 lambda t: t.use_deterministic_algorithms(True, warn_only=True),
                 lambda t: t.use_deterministic_algorithms(False),
                 lambda t: t.set_deterministic_debug_mode("error"), lambda t: t.set_deterministic_debug_mode(1),
                 lambda t: t.set_deterministic_debug_mode("default")):
        call(rl)
        call(torch)
        assert seen(rl) == seen(torch)
    for t in (rl, torch):
        with pytest.raises(TypeError):
            t.set_deterministic_debug_mode(None)
        with pytest.raises(RuntimeError):
            t.set_deterministic_debug_mode("sometimes")


def test_anomaly_is_asked_at_the_top():
    with rl.autograd.set_detect_anomaly(True, check_nan=False):
        assert rl.is_anomaly_enabled() and not rl.is_anomaly_check_nan_enabled()
    assert not rl.is_anomaly_enabled()


def test_memory_without_contents_is_filled_as_asked():
    def made(t):
        yield from (t.empty(2, dtype=getattr(t, d)) for d in "float32 int16 bool complex64 uint8 float16".split())
        yield from (t.empty_strided((2,), (1,)), t.empty_like(t.zeros(2)), t.zeros(1).new_empty(2), t.Tensor(2),
                    t.FloatTensor(2), t.zeros(1).resize_(3), t.empty_permuted((2, 1), (0, 1)), t.empty(0))
        yield from (t.zeros(2, 3, 4).resize_(2, 5, 4), t.zeros(9)[:3].resize_(7),
                    t.zeros(9)[2:4].resize_(9), t.zeros(3, 4).t().resize_(4, 4))

    found = []
    for t in (rl, torch):
        t.use_deterministic_algorithms(True)
        try:
            found.append([repr(x) for x in made(t)])
            t.utils.deterministic.fill_uninitialized_memory = False
            t.empty(2)
            assert not t.utils.deterministic.fill_uninitialized_memory
            t.utils.deterministic.fill_uninitialized_memory = True
            for fills in (False, True):
                t._C._set_deterministic_fill_uninitialized_memory(fills)
                assert t.utils.deterministic.fill_uninitialized_memory is fills
                assert t._C._get_deterministic_fill_uninitialized_memory() is fills
            with pytest.raises(RuntimeError, match="expected a bool, but got int"):
                t.utils.deterministic.fill_uninitialized_memory = 1
        finally:
            t.use_deterministic_algorithms(False)
    assert found[0] == found[1]


@pytest.mark.parametrize("seed", [0, 2**63 - 1, 2**63, 2**64 - 1, -1, -2**63])
def test_seeds_are_shown_as_torch_shows_them(seed):
    assert rl.Generator().manual_seed(seed).initial_seed() == torch.Generator().manual_seed(seed).initial_seed()
