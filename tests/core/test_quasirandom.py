"""Sobol sequences point by point as PyTorch's, and what scrambling keeps."""
import pytest
import torch

import rushlight


@pytest.mark.parametrize("dimension, count", [(1, 9), (2, 64), (7, 33), (300, 20), (1200, 5)])
def test_points(dimension, count):
    ours, theirs = (library.quasirandom.SobolEngine(dimension) for library in (rushlight, torch))
    assert ours.sobolstate.tolist() == theirs.sobolstate.tolist()
    for n in (1, count, 2):
        assert ours.draw(n).tolist() == theirs.draw(n).tolist()
    ours.fast_forward(7), theirs.fast_forward(7)
    assert ours.draw(3, dtype=rushlight.float64).tolist() == theirs.draw(3, dtype=torch.float64).tolist()
    assert ours.num_generated == theirs.num_generated
    ours.reset()
    assert ours.draw_base2(2).tolist() == theirs.reset().draw_base2(2).tolist()


def test_the_last_dimension():
    from rushlight.quasirandom import MAXDIM, numbers
    polynomials, bits = numbers()
    assert len(polynomials) == MAXDIM - 1 and (polynomials[0], polynomials[-1]) == (3, 524263)
    degrees = [int(p).bit_length() - 1 for p in polynomials]
    assert 0 <= len(bits) - sum(d * (d - 1) // 2 for d in degrees) < 8


def test_scrambled_points_stay_even():
    """Each sixteenth of every axis holds as many points as any other; seeds repeat."""
    engine = rushlight.quasirandom.SobolEngine(3, scramble=True, seed=5)
    points = engine.draw_base2(8)
    assert all((points[:, k] * 16).floor().long().bincount(minlength=16).tolist() == [16] * 16 for k in range(3))
    again = rushlight.quasirandom.SobolEngine(3, scramble=True, seed=5)
    assert again.draw(256).tolist() == points.tolist() and engine.reset().draw(1).tolist() == points[:1].tolist()
    assert rushlight.quasirandom.SobolEngine(3, scramble=True, seed=6).draw(1).tolist() != points[:1].tolist()


def test_refusals():
    for library in (rushlight, torch):
        engine = library.quasirandom.SobolEngine(2)
        with pytest.raises(ValueError, match="21201"):
            library.quasirandom.SobolEngine(21202)
        engine.draw(3)
        with pytest.raises(ValueError, match="power of 2"):
            engine.draw_base2(2)
        with pytest.raises(RuntimeError, match="negative"):
            engine.draw(-1)


@pytest.mark.parametrize("steps", ["d3 d5", "d1 d1 d2", "f4 d4", "d4 r0 d4", "d2 f3 d4", "b2 b2", "d7 r0 f5 d4"])
def test_a_scrambled_sequence_goes_on_as_pytorchs(steps):
    """Scrambling draws from another stream, so PyTorch's matrices and shift are taken over; d draws, f skips, r begins
    anew."""
    for dimension in (1, 2, 7, 100):
        theirs, ours = (library.quasirandom.SobolEngine(dimension, scramble=True, seed=5)
                        for library in (torch, rushlight))
        ours.sobolstate, ours.shift = rushlight.tensor(theirs.sobolstate.numpy()), rushlight.tensor(
            theirs.shift.numpy())
        ours.reset()
        for name, n in steps.split():
            call = {"d": "draw", "f": "fast_forward", "r": "reset", "b": "draw_base2"}[name]
            seen, wanted = (getattr(engine, call)(*[int(n)] * (name != "r")) for engine in (ours, theirs))
            if name in "db":
                assert seen.tolist() == wanted.tolist()
