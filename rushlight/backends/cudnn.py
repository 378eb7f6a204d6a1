"""Switches of cuDNN, which is not used."""
import contextlib

enabled, benchmark, deterministic, allow_tf32, benchmark_limit = True, False, False, True, 10
fp32_precision = "none"


def is_available() -> bool:
    return False


def version():
    """None: there is no cuDNN."""
    return None


def is_acceptable(tensor) -> bool:
    return False


@contextlib.contextmanager
def flags(enabled=False, benchmark=False, benchmark_limit=10, deterministic=False, allow_tf32=True,
          fp32_precision="none"):
    """A block with other switches, which change nothing."""
    yield
