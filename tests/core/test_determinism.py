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
