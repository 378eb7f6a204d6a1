"""Every operator's derivatives at the edges of its domain are PyTorch's; where they differ a reason stands here."""
import zlib

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")  # PyTorch's database wants it

from .gradients import ENTRIES, FILLS, differences, title  # noqa: E402

pytestmark = pytest.mark.sampled  # all cases with `-m long`

FINITE = ("zeros", "ties", "ones", "thirds")
INFINITE = ("infinities", "infinity", "minus infinity")
UNKNOWN = (*INFINITE, "NaN")

LIMIT = "PyTorch's is NaN, infinite or of the wrong sign, and ours the limit"
DIFFERENCE_OF_INFINITIES = "the difference of two equal infinities is NaN: PyTorch takes its slope as 0, or we do"
NAN_BRANCH = "the slope at NaN is that of the branch which passes NaN on, PyTorch's another branch's"
ZERO_TIMES_INFINITY = "a part that is not chosen, or does not change, has a slope of 0 times infinity"
ILL_POSED = "the matrix is singular or has equal eigenvalues: the derivative does not exist, or rounding decides"
FACTORS = "factors of a matrix that holds infinities or NaN, or that is not positive definite, are not defined"
CHOICE = "of equal elements, or of several NaN, another one is chosen"
PADDING = "infinities meet a padding of zeros"
OTHER_PART = "PyTorch's gradient of the input is that of the part that was overwritten"
EXCLUDED = "PyTorch shares with an element that does not take part"
RAISES = "PyTorch's result wants a gradient that always raises"
OTHER_SIDE = "PyTorch's forward mode takes another side than its reverse mode, which agrees with ours"
LEFT_OUT = "PyTorch's forward mode leaves the tangents out, or those of other rows in"
KINK = "the second derivative jumps: ours is that of the side whose slope is taken"
POLE = "the sign of a zero decides on that of a pole"
NOT_A_NUMBER = "the result is NaN: of a slope of it nothing is known, and ours or PyTorch's is NaN"
SMOOTH_PART = "the slope of x log x, minus infinity, is left out (PyTorch's is NaN)"
NO_ELEMENTS = "PyTorch solves with a singular matrix for a result without elements"
TWICE = "PyTorch gives each of several largest coordinates the whole gradient, which is no subgradient"
TOLERANCE = "the sample's second tensor is the tolerance, which has no derivative"

KNOWN = {
    "nn.functional.smooth_l1_loss": (DIFFERENCE_OF_INFINITIES, UNKNOWN),
    "nn.functional.huber_loss": (DIFFERENCE_OF_INFINITIES, UNKNOWN),
    "copysign": (LIMIT, UNKNOWN), "i0": (LIMIT, INFINITE), "polar": (LIMIT, ("zeros", "ones", "thirds")),
    "nn.functional.soft_margin_loss": (LIMIT, INFINITE), "prod": (LIMIT, UNKNOWN), "xlogy": (LIMIT, ("zeros",)),
    "logsumexp": (LIMIT, ("minus infinity",)), "digamma": (LIMIT, ("minus infinity",)),
    "special.log_ndtr": (LIMIT, ("minus infinity",)),
    **{f"polygamma.polygamma_n_{n}": (LIMIT, ("infinities", "infinity")) for n in range(5)},
    "special.polygamma.special_polygamma_n_0": (LIMIT, ("infinities", "infinity")),
    "special.i1": (LIMIT, ("NaN",)), "special.i1e": (LIMIT, ("NaN",)),
    "ldexp": (ZERO_TIMES_INFINITY, ("infinity",)), "renorm": (ZERO_TIMES_INFINITY, ("NaN",)),
    "nn.functional.prelu": (ZERO_TIMES_INFINITY, ("infinities", "infinity", "NaN")),
    "grid_sampler_3d": (NAN_BRANCH, ("infinity", "minus infinity", "NaN")),
    **dict.fromkeys(("quantile", "aminmax", "nn.functional.hardswish", "nn.functional.hardsigmoid",
                     "nn.functional.softshrink", "nn.functional.hardshrink", "nn.functional.hardtanh"),
                    (NAN_BRANCH, ("NaN",))),
    "nn.functional.multi_margin_loss": (NAN_BRANCH, ("infinity", "minus infinity", "NaN")),
    "nn.functional.multilabel_margin_loss": (NAN_BRANCH, UNKNOWN),
    "kthvalue": (CHOICE, ("zeros", "ties", "infinity", "minus infinity")),
    **dict.fromkeys(("nn.functional.adaptive_max_pool1d", "nn.functional.adaptive_max_pool2d",
                     "nn.functional.max_pool2d"), (CHOICE, ("NaN",))),
    **dict.fromkeys(("index_reduce.amin", "index_reduce.amax"), (EXCLUDED, (*FINITE, *INFINITE))),
    "as_strided_scatter": (OTHER_PART, tuple(FILLS)), "nextafter": (RAISES, tuple(FILLS)),
    "nn.functional.conv1d": (PADDING, UNKNOWN), "nn.functional.conv2d": (PADDING, UNKNOWN),
    "nn.functional.conv3d": (PADDING, INFINITE), "ormqr": (FACTORS, INFINITE),
    **dict.fromkeys(("lu", "linalg.lu_factor", "linalg.lu_factor_ex", "linalg.lu"), (FACTORS, UNKNOWN)),
    "linalg.cholesky_ex": (FACTORS, ("ties", "ones", "thirds", "infinities", "NaN")),
    "linalg.householder_product": (ILL_POSED, ("thirds",)),
    "logdet": (ILL_POSED, ("zeros", "ones", "thirds")), "linalg.slogdet": (ILL_POSED, ("zeros", "ones")),
    **dict.fromkeys(("pinverse", "norm.nuc", "linalg.cond", "linalg.eigh"), (ILL_POSED, ("ties", "ones", "thirds"))),
    "linalg.eig": (ILL_POSED, ("ones", "thirds")),
    "nn.functional.group_norm": (ILL_POSED, ("ties",)),
}


# what differs besides in other modes
FURTHER = {
    "tangents": {
        "atan2": (LIMIT, ("zeros",)), "cumprod": (LIMIT, UNKNOWN), "linalg.vander": (LIMIT, UNKNOWN),
        "linalg.det": (LIMIT, ("zeros", "ones", *INFINITE)), "ldexp": (ZERO_TIMES_INFINITY, ("infinities",)),
        **dict.fromkeys(("clamp_max", "clamp_min", "max.reduction_no_dim", "min.reduction_no_dim", "median"),
                        (NAN_BRANCH, ("NaN",))),
        **dict.fromkeys(("maximum", "minimum", "max.binary", "min.binary"), (OTHER_SIDE, ("NaN",))),
        "fmax": (OTHER_SIDE, (*FINITE, *INFINITE)), "nn.functional.prelu": (OTHER_SIDE, ("zeros", "thirds")),
        "nn.functional.gaussian_nll_loss": (OTHER_SIDE, ("zeros",)), "scatter_reduce.prod": (LEFT_OUT, tuple(FILLS)),
        "logcumsumexp": (LEFT_OUT, ("infinities", "NaN")),
        **dict.fromkeys(("logaddexp", "logaddexp2"), (DIFFERENCE_OF_INFINITIES, INFINITE)),
        **dict.fromkeys(("nn.functional.conv_transpose2d", "nn.functional.conv_transpose3d"), (PADDING, UNKNOWN)),
        "nn.functional.conv_transpose1d": (PADDING, INFINITE), "linalg.lu": (FACTORS, ("zeros",)),
        **dict.fromkeys(("linalg.eig", "lu", "cholesky_inverse"), (ILL_POSED, ("ties",))),
        "linalg.pinv.singular": (TOLERANCE, (*FINITE, *INFINITE)),
    },
    "second derivatives": {
        **dict.fromkeys(("atan2", "dist", "norm", "norm.fro", "linalg.norm", "linalg.norm.subgradients_at_zero", "sinc",
                         "nn.functional.cosine_similarity"), (LIMIT, ("zeros",))),
        "copysign": (LIMIT, ("zeros", "ones", "thirds")), "digamma": (LIMIT, ("infinities", "infinity")),
        **dict.fromkeys(("lgamma", *(f"mvlgamma.mvlgamma_p_{n}" for n in (1, 3, 5))), (LIMIT, ("minus infinity",))),
        **dict.fromkeys(("index_reduce.prod", "scatter_reduce.prod"), (LIMIT, UNKNOWN)), "i0": (NAN_BRANCH, ("NaN",)),
        **dict.fromkeys(("nn.functional.elu", "nn.functional.celu", "nn.functional.selu"), (KINK, ("zeros",))),
        "nn.functional.prelu": (KINK, ("zeros", "ones", "thirds")),
        "nn.functional.binary_cross_entropy": (POLE, ("zeros",)),
        **dict.fromkeys(("ldexp", "logaddexp", "logcumsumexp"), (ZERO_TIMES_INFINITY, ("infinities",))),
        "var_mean": (ZERO_TIMES_INFINITY, UNKNOWN), "linalg.det": (ILL_POSED, ("zeros", "ones")),
        **dict.fromkeys(("lu", "linalg.lu", "linalg.lu_factor_ex"), (FACTORS, ("zeros",))),
        "linalg.eigvalsh": (ILL_POSED, ("ties", "ones", "thirds")),
        **dict.fromkeys(("linalg.eigvals", "linalg.lstsq", "linalg.lstsq.grad_oriented"), (ILL_POSED, ("ties",))),
    },
}


# what differs besides in other samples, which ``python -m tests.fuzz.gradients --samples 10`` looks at
OTHER_SAMPLES = {
    **dict.fromkeys(("lu", "linalg.lu", "linalg.lu_factor_ex"), (FACTORS, FINITE)),
    **dict.fromkeys(("svd", "linalg.norm.subgradients_at_zero", "linalg.svdvals", "linalg.slogdet", "logdet",
                     "linalg.qr", "qr", "ormqr", "linalg.householder_product", "native_layer_norm",
                     "nn.functional.layer_norm"), (ILL_POSED, ("ties", "ones", "thirds"))),
    "linalg.matrix_power": (FACTORS, ("infinities",)), "linalg.det": (LIMIT, ("ones", "thirds")),
    **dict.fromkeys(("linalg.lstsq", "linalg.lstsq.grad_oriented"), (FACTORS, INFINITE)),
    **dict.fromkeys(("lu_solve", "linalg.lu_solve"), (NO_ELEMENTS, ("zeros", *UNKNOWN))),
    **dict.fromkeys(("median", "kthvalue", "mode"), (CHOICE, tuple(FILLS))),
    **dict.fromkeys(("index_reduce.amin", "index_reduce.amax", "scatter_reduce.amin", "scatter_reduce.amax"),
                    (EXCLUDED, tuple(FILLS))),
    "cumprod": (LIMIT, UNKNOWN), "digamma": (LIMIT, ("ones", "thirds", "infinities")),
    **dict.fromkeys(("amin", "amax"), (LIMIT, ("NaN",))), "special.log_ndtr": (LIMIT, ("infinities",)),
    "nn.functional.kl_div": (SMOOTH_PART, FINITE), "nanmean": (NOT_A_NUMBER, ("NaN",)),
    **dict.fromkeys(("softmax", "softmax.with_dtype", "nn.functional.softmin", "nn.functional.softmin.with_dtype",
                     "log_softmax", "log_softmax.with_dtype", "nn.functional.embedding_bag", "cdist"),
                    (NOT_A_NUMBER, UNKNOWN)),
    "nn.functional.pdist": (TWICE, tuple(FILLS)), "nn.functional.conv3d": (PADDING, ("NaN",)),
    **dict.fromkeys(("nn.functional.relu6", "nn.functional.multi_margin_loss", "grid_sampler_3d"),
                    (NAN_BRANCH, ("infinities", "NaN"))),
    "ldexp": (ZERO_TIMES_INFINITY, ("infinities",)), "logit": (f"{POLE}; {NAN_BRANCH}", ("zeros", "NaN")),
    **dict.fromkeys([f"mvlgamma.mvlgamma_p_{n}" for n in (1, 3, 5)], (POLE, ("zeros",))),
}


def is_accepted(info, mode, fill):
    """True if a table names the difference."""
    tables = KNOWN, OTHER_SAMPLES, FURTHER.get(mode, {})
    return any(fill in table.get(title(info), ("", ()))[1] for table in tables)


@pytest.mark.parametrize("info", ENTRIES, ids=title)
def test_gradient_at_the_edges(info):
    """Differs where the table says so alone; what no longer differs leaves it, unless rounding decides."""
    found, (reason, fills) = differences(info, "gradients")["gradients"], KNOWN.get(title(info), ("", ()))
    assert set(found) == set(fills) or reason == ILL_POSED and set(found) < set(fills), found


@pytest.mark.parametrize("info", [i for i in ENTRIES if zlib.crc32(title(i).encode()) % 5 < 2], ids=title)
def test_tangents_and_second_derivatives_at_the_edges(info):
    """Of two entries in five, always the same; ``python -m tests.fuzz.gradients`` looks at all."""
    for mode, found in differences(info, *FURTHER).items():
        reason, fills = FURTHER[mode].get(title(info), ("", ()))
        accepted = {*fills, *KNOWN.get(title(info), ("", ()))[1]}
        assert set(found) <= accepted and (set(fills) <= set(found) or reason == ILL_POSED), (mode, found)


def test_the_tables_name_entries_of_the_database():
    assert {*KNOWN, *OTHER_SAMPLES, *FURTHER["tangents"],
            *FURTHER["second derivatives"]} <= {title(info) for info in ENTRIES}
