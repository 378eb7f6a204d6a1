"""Sizes that cannot be: negative, no numbers, or more than the machine has."""
import subprocess
import sys

import pytest

import rushlight as rl

from .test_arguments import both

SIZES = {
    "empty 2**60": lambda t: t.empty(1 << 60),
    "zeros 2**45": lambda t: t.zeros(1 << 45),
    "ones 2**64": lambda t: t.ones(1 << 62, 4),
    "negative": lambda t: t.zeros(2, -3),
    "randn negative": lambda t: t.randn(2, -2),
    "eye negative": lambda t: t.eye(-1),
    "arange huge": lambda t: t.arange(1 << 50),
    "an expanded tensor made real": lambda t: t.zeros(1).expand(1 << 50) + 1,
    "both dimensions huge": lambda t: t.zeros(1, 1).expand(1 << 40, 1 << 40) * 1,
    "product": lambda t: t.zeros(1, 1).expand(1 << 25, 1) @ t.zeros(1, 1).expand(1, 1 << 25),
    "cat": lambda t: t.cat([t.zeros(1).expand(1 << 48)] * 4),
    "resize_ negative": lambda t: t.zeros(4).resize_(-1),
    "resize_ huge": lambda t: t.zeros(4).resize_(1 << 50),
    "view negative": lambda t: t.zeros(4).view(-2),
    "reshape negative twice": lambda t: t.zeros(4).reshape(-2, -2),
    "expand negative": lambda t: t.zeros(4).expand(-3, 4),
    "empty_strided negative": lambda t: t.empty_strided((2,), (-1,)),
    "a float": lambda t: t.zeros(2.5),
    "a text": lambda t: t.zeros("a"),
    "a bool": lambda t: t.zeros(True),
    "a list of texts": lambda t: t.zeros(["a"]),
    "ragged": lambda t: t.tensor([[1, 2], [3]]),
    "tensor of None": lambda t: t.tensor(None),
    "tensor of a dict": lambda t: t.tensor({}),
    "tensor of 2**70": lambda t: t.tensor(1 << 70),
    "int8 of 300": lambda t: t.tensor(300, dtype=t.int8),
    "Embedding huge": lambda t: t.nn.Embedding(1 << 50, 4),
    "Linear negative": lambda t: t.nn.Linear(-1, 4),
}


@pytest.mark.parametrize("name", SIZES)
def test_raises_the_type_that_pytorch_raises(name):
    theirs, ours = both(SIZES[name])
    assert theirs is not None and ours is not None and issubclass(ours, theirs), f"{ours} where PyTorch raises {theirs}"


def test_metadata_alone_may_be_of_any_size():
    assert rl.empty(1 << 50, device="meta").numel() == 1 << 50


EXHAUSTED = """
import resource, rushlight as rl
resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
for call in (lambda: rl.empty(1 << 33), lambda: rl.zeros(1).expand(1 << 33) + 1, lambda: rl.zeros(1).expand(1 << 33).clone()):
    try:
        call()
        raise SystemExit("accepted")
    except RuntimeError as error:
        assert isinstance(error, rl.OutOfMemoryError), type(error)
kept = [rl.ones(1 << 20) for _ in range(100)]
total = sum(x.sum().item() for x in kept)
assert total == 100 << 20
print("done")
"""


@pytest.mark.parametrize("native", ["0", "1"])
def test_a_machine_without_memory_left(native):
    import os
    done = subprocess.run([sys.executable, "-c", EXHAUSTED], capture_output=True, text=True, timeout=900,
                          env={**os.environ, "RUSHLIGHT_NATIVE": native})
    assert done.stdout.strip() == "done", done.stderr[-2000:]
