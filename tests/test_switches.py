"""Switches of the process are kept, and wrong ones are named."""
import warnings

import pytest

import rushlight as rl


def test_precision_of_products():
    assert rl.get_float32_matmul_precision() == "highest"
    try:
        rl.set_float32_matmul_precision("medium")
        with pytest.warns(UserWarning, match="exact is not one of"):
            rl.set_float32_matmul_precision("exact")
        assert rl.get_float32_matmul_precision() == "medium"
    finally:
        rl.set_float32_matmul_precision("highest")


def test_threads_between_operators():
    before = rl.get_num_interop_threads()
    rl.set_num_interop_threads(before)
    assert rl.get_num_interop_threads() == before
    with pytest.raises(RuntimeError, match="positive"):
        rl.set_num_interop_threads(0)


def test_questions_at_the_top_level():
    assert rl.ones(3)[rl.newaxis].shape == (1, 3)
    assert rl.is_signed(rl.ones(1)) and not rl.is_signed(rl.ones(1, dtype=rl.uint8))
    assert rl.get_device(rl.ones(1)) == -1 and not rl.is_inference(rl.ones(1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rl.set_warn_always(False)
    assert not rl.is_warn_always_enabled() and rl.set_flush_denormal(True) is False


def test_plans_for_one_thread_are_not_run_on_two():
    """They have room for one."""
    x, before = rl.rand(3, 150, 150) + 20 * rl.eye(150), rl.get_num_threads()
    compiled = rl.compile(lambda x: rl.linalg.inv(x) @ x)
    try:
        for threads in (1, 2, 1, 2):
            rl.set_num_threads(threads)
            for inverse in (lambda x: rl.linalg.inv(x) @ x, compiled):
                assert rl.allclose(inverse(x), rl.eye(150), atol=1e-3)
    finally:
        rl.set_num_threads(before)
