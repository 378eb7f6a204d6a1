"""The same program for both frameworks, and how far quantized results are apart."""
import warnings

import numpy as np
import pytest

import rushlight

torch = pytest.importorskip("torch")
BOTH = rushlight, torch


def units(program):
    """The largest difference of integers, and the share that differ; results have one dtype, shape, scale and zero
    point."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours, theirs = map(program, BOTH)
    assert repr(ours.dtype) == repr(theirs.dtype) and tuple(ours.shape) == tuple(theirs.shape)
    assert (ours.q_scale(), ours.q_zero_point()) == (theirs.q_scale(), theirs.q_zero_point())
    apart = np.abs(ours.int_repr().numpy().astype(np.int64) - theirs.int_repr().numpy().astype(np.int64))
    return apart.max(initial=0), (apart > 0).mean() if apart.size else 0.0


def distance(program):
    """The largest difference of two results that are floats."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours, theirs = map(program, BOTH)
    return float(np.abs(ours.detach().numpy().astype(np.float64) - theirs.detach().numpy().astype(np.float64))
                 .max(initial=0))
