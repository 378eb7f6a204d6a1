"""Unsigned integers and 8-bit floats against torch: creation, conversion, storage, printing, comparison, and refused
operations."""
import io

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402

UNSIGNED = ["uint16", "uint32", "uint64"]
BYTES = ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"]


def outcome(program, t):
    try:
        return str(program(t))
    except (RuntimeError, TypeError) as error:
        return type(error).__name__


def numbers():
    random = np.random.default_rng(0)
    near = [0.0, -0.0, np.nan, np.inf, -np.inf, 240, 248, 448, 464, 465, 480, -500, 57344, 61440, 65536]
    return np.concatenate([random.normal(size=2000) * scale for scale in (1e-6, 1e-3, 0.1, 10, 300, 1e5)]
                          + [near]).astype(np.float32)


@pytest.mark.parametrize("name", BYTES)
def test_rounding_and_back(name):
    x, codes = numbers(), np.arange(256, dtype=np.uint8)
    wanted = torch.from_numpy(x).to(getattr(torch, name)).view(torch.uint8).numpy()
    assert np.array_equal(rushlight.from_numpy(x).to(getattr(rushlight, name)).view(rushlight.uint8).numpy(), wanted)
    wanted = torch.from_numpy(codes).view(getattr(torch, name)).float().numpy()
    assert np.array_equal(rushlight.from_numpy(codes).view(getattr(rushlight, name)).float().numpy(), wanted,
                          equal_nan=True)


PROGRAMS = {
    "cast": lambda t, d: t.tensor([0.0, 1, 2, 3.3, 100]).to(d),
    "numbers": lambda t, d: t.tensor([0, 1, 2], dtype=d),
    "zeros": lambda t, d: (t.zeros(2, dtype=d), t.full((2,), 3, dtype=d), t.empty(0, dtype=d)),
    "compare": lambda t, d: (t.tensor([0, 1, 2], dtype=d) == 1,
                             t.equal(t.tensor([3, 1], dtype=d), t.tensor([3, 1], dtype=d))),
    "bits": lambda t, d: t.tensor([3, 1, 2], dtype=d).view(t.uint8).tolist(),
    "moved": lambda t, d: (t.cat([t.tensor([3, 1], dtype=d)] * 2), t.tensor([3, 1, 2], dtype=d)[t.tensor([0, 2])],
                           t.tensor([[3, 1]], dtype=d).t().contiguous()),
    "written": lambda t, d: t.zeros(3, dtype=d).copy_(t.tensor([1.0, 2, 3])),
    "item": lambda t, d: t.tensor([3], dtype=d).item(),
    "type": lambda t, d: t.tensor([3], dtype=d).type(),
    "sizes": lambda t, d: (d.itemsize, d.is_floating_point, d.is_signed, t.zeros(2, 3, dtype=d).nbytes),
    "with others": lambda t, d: t.promote_types(d, t.int32),
    "with bytes": lambda t, d: t.tensor([1], dtype=d) + t.tensor([1], dtype=t.uint8),
}


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("name", UNSIGNED + BYTES)
def test_as_in_torch(name, program):
    ours, theirs = (outcome(lambda t: PROGRAMS[program](t, getattr(t, name)), t) for t in (rushlight, torch))
    assert ours == theirs


@pytest.mark.parametrize("name", BYTES)
def test_bytes_are_not_computed_with(name):
    x = rushlight.ones(2, dtype=getattr(rushlight, name))
    for wrong in (lambda: x + 1, lambda: -x, lambda: x.sum(), lambda: x.reshape(1, 2) @ x.reshape(2, 1)):
        with pytest.raises(NotImplementedError, match="convert to float32"):
            wrong()
    with pytest.raises(TypeError, match="NumPy has no such type"):
        x.numpy()


@pytest.mark.parametrize("name", BYTES)
def test_compiled_casts_round(name):
    x = rushlight.linspace(0.1, 9.3, 7)
    assert rushlight.compile(lambda x: x.to(getattr(rushlight, name)).float()
                             * 2)(x).tolist() == (x.to(getattr(rushlight, name)).float() * 2).tolist()


def test_the_largest_numbers():
    assert rushlight.tensor([2**64 - 1, 2**63], dtype=rushlight.uint64).tolist() == [2**64 - 1, 2**63]
    assert rushlight.tensor([-1.0, 3e9, 1e19]).to(rushlight.uint64).tolist() == torch.tensor([-1.0, 3e9, 1e19]).to(
        torch.uint64).tolist()
    assert rushlight.from_numpy(np.array([65535], np.uint16)).to(rushlight.int64).tolist() == [65535]


@pytest.mark.parametrize("name", UNSIGNED + BYTES)
def test_files_both_ways(name):
    for writer, reader in ((rushlight, torch), (torch, rushlight), (rushlight, rushlight)):
        file = io.BytesIO()
        writer.save({"x": writer.tensor([[3.0, 1], [2, 4]]).to(getattr(writer, name)).t()}, file)
        file.seek(0)
        found = reader.load(file)["x"]
        assert found.dtype == getattr(reader, name) and found.float().tolist() == [
            [3, 2], [1, 4]] and found.stride() == (1, 2)
