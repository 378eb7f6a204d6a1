"""Operators with a fixed precision under autocast: a list for each kind of accelerator in addition to the host's.

The host's list is what operators declare (the trait ``autocast``). A list here gives an accelerator's differences, as
PyTorch's documentation does. A device's ``Provider`` says which list its calls follow.
"""
from __future__ import annotations

# WIDEST: the arguments' widest; REFUSED: unsafe in half precision
HALF, FLOAT32, PARTS, WIDEST, REFUSED = 1, 2, 3, 4, 5
CLASSES = {None: 0, "half": HALF, "float32": FLOAT32, "parts": PARTS}
HOST = "cpu"
MEANT, MEANT_THERE = 0xFF, 0xFF00  # the bits of ``mine.autocast`` that an operator with a class heeds

# --- operators that all accelerators compute in float32, in the arguments' widest dtype, or in half precision
IN_FLOAT32 = frozenset("""
    acos asin cosh erfinv exp expm1 log log10 log1p log2 reciprocal rsqrt sinh tan pow rpow square
    sum prod cumsum cumprod logsumexp softmax log_softmax nn.functional.softmax nn.functional.log_softmax
    nn.functional.softmin nn.functional.gumbel_softmax nn.functional.softplus
    layer_norm native_layer_norm nn.functional.layer_norm nn.functional.group_norm
    norm linalg.norm linalg.vector_norm linalg.matrix_norm renorm dist cdist nn.functional.pdist
    cosine_similarity nn.functional.cosine_similarity
    _bce_logits _cross_entropy _huber_loss _l1_loss _mse_loss _nll _smooth_l1_loss _soft_margin_loss
    nn.functional.binary_cross_entropy_with_logits nn.functional.cosine_embedding_loss nn.functional.cross_entropy
    nn.functional.hinge_embedding_loss nn.functional.huber_loss nn.functional.kl_div nn.functional.l1_loss
    nn.functional.margin_ranking_loss nn.functional.mse_loss nn.functional.multi_margin_loss
    nn.functional.multilabel_margin_loss nn.functional.multilabel_soft_margin_loss
    nn.functional.nll_loss nn.functional.poisson_nll_loss
    nn.functional.smooth_l1_loss nn.functional.soft_margin_loss nn.functional.triplet_margin_loss
    """.split())
IN_WIDEST = frozenset("""addcdiv addcmul atan2 cross dot index_put nn.functional.bilinear nn.functional.grid_sample
                      scatter_add tensordot inner""".split())
IN_HALF = frozenset("addmv addr mv chain_matmul linalg.multi_dot einsum".split())
# --- operators in the lists of some accelerators only
NORMS = frozenset("""rms_norm nn.functional.rms_norm nn.functional.normalize nn.functional.pairwise_distance
                  nn.functional.interpolate nn.functional.upsample nn.functional.upsample_bilinear
                  nn.functional.upsample_nearest""".split())
CUDA = {**dict.fromkeys(NORMS, FLOAT32), "vdot": WIDEST,
        "nn.functional.binary_cross_entropy": REFUSED, "_bce": REFUSED}
OWN = {"cuda": CUDA, "xpu": CUDA,
       "mps": {"nn.functional.batch_norm": FLOAT32, "linalg.vecdot": FLOAT32}}
LISTS = (HOST, *OWN)


def class_in(kind: str, name: str, declared) -> int:
    """The class of an operator in a list; ``declared``: its class on the host, which is valid on all devices for
    matmuls and for operators that compute as their parts do."""
    if kind == HOST:
        return CLASSES[declared]
    own = OWN[kind].get(name)
    if own is not None:
        return own
    for members, found in ((IN_FLOAT32, FLOAT32), (IN_WIDEST, WIDEST), (IN_HALF, HALF)):
        if name in members:
            return found
    return 0 if declared == "float32" else CLASSES[declared]


def classes_of(name: str, declared) -> tuple:
    """(the bits of ``mine.autocast`` that an operator heeds, its class in each list that has one)."""
    found = {kind: code for kind in LISTS if (code := class_in(kind, name, declared))}
    return (MEANT if HOST in found else 0) | (MEANT_THERE if len(found) > (HOST in found) else 0), found
