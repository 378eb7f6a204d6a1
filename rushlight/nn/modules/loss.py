"""Losses as modules."""
from __future__ import annotations

import inspect
import math

from ..._src.core.advice import deprecated
from .. import functional as F
from .linear import Linear
from .module import Module
from .rearrange import PairwiseDistance


class _Loss(Module):
    """A loss with a reduction: ``forward`` calls the function of the family with its options."""

    _rush_function: str
    _rush_options: tuple = ()

    def __init__(self, size_average=None, reduce=None, reduction="mean"):
        super().__init__()
        from ..._src.ops.loss import chosen
        self.reduction = reduction if size_average is None and reduce is None else chosen(reduction, size_average,
                                                                                          reduce)

    def forward(self, *values, **named):
        options = {name: getattr(self, name) for name in self._rush_options}
        return getattr(F, self._rush_function)(*values, **named, **options, reduction=self.reduction)

    def _rush_check(self):
        """ValueError for options that mean nothing."""


class _WeightedLoss(_Loss):
    """A loss with a weight for each class or element."""

    _rush_options = ("weight",)

    def __init__(self, weight=None, size_average=None, reduce=None, reduction="mean"):
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


OLD_FLAGS = {"size_average": None, "reduce": None, "reduction": "mean"}
BUFFERS = ("weight", "pos_weight")


def of(function, named_only=False, **arguments):
    """Makes a class the loss of a function: ``arguments``, in order and with their defaults, are its constructor's; all
    but the reduction's go on to the function."""
    kind = inspect.Parameter.KEYWORD_ONLY if named_only else inspect.Parameter.POSITIONAL_OR_KEYWORD
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    signature = inspect.Signature([own, *[inspect.Parameter(name, kind, default=default)
                                          for name, default in arguments.items()]])

    def declare(cls):
        def __init__(self, *args, **kwargs):
            given = signature.bind(self, *args, **kwargs)
            given.apply_defaults()
            _Loss.__init__(self, **{name: given.arguments[name] for name in OLD_FLAGS if name in arguments})
            for name in cls._rush_options:
                if name in BUFFERS:
                    self.register_buffer(name, given.arguments[name])
                else:
                    setattr(self, name, given.arguments[name])
            self._rush_check()

        __init__.__signature__ = signature
        cls.__init__, cls._rush_function = __init__, function
        cls._rush_options = tuple(name for name in arguments if name not in OLD_FLAGS)
        return cls

    return declare


@of("l1_loss", **OLD_FLAGS)
class L1Loss(_Loss):
    """|x - y|.

    >>> torch.nn.L1Loss()(torch.tensor([1., 3.]), torch.tensor([1., 1.]))
    tensor(1.)
    """


@of("mse_loss", **OLD_FLAGS)
class MSELoss(_Loss):
    """(x - y)^2.

    >>> torch.nn.MSELoss()(torch.tensor([1., 3.]), torch.tensor([1., 1.]))
    tensor(2.)
    """


@of("smooth_l1_loss", **OLD_FLAGS, beta=1.0)
class SmoothL1Loss(_Loss):
    """Squared below beta, absolute above.

    >>> torch.nn.SmoothL1Loss()(torch.tensor([0., 3.]), torch.zeros(2))
    tensor(1.2500)
    """


@of("huber_loss", reduction="mean", delta=1.0)
class HuberLoss(_Loss):
    """Squared below delta, linear above.

    >>> torch.nn.HuberLoss()(torch.tensor([0., 3.]), torch.zeros(2))
    tensor(1.2500)
    """


@of("soft_margin_loss", **OLD_FLAGS)
class SoftMarginLoss(_Loss):
    """log(1 + exp(-y x)).

    >>> torch.nn.SoftMarginLoss()(torch.zeros(1), torch.ones(1))
    tensor(0.6931)
    """


@of("cross_entropy", weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean",
    label_smoothing=0.0)
class CrossEntropyLoss(_WeightedLoss):
    """The cross entropy of logits [n, c, *] with class targets [n, *] or probabilities [n, c, *].

    >>> torch.nn.CrossEntropyLoss()(torch.zeros(1, 2), torch.tensor([1]))
    tensor(0.6931)
    """


@of("nll_loss", weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean")
class NLLLoss(_WeightedLoss):
    """The negative log likelihood of class targets [n, *] by log probabilities [n, c, *].

    >>> torch.nn.NLLLoss()(torch.tensor([[-1., -2.]]), torch.tensor([1]))
    tensor(2.)
    """


class NLLLoss2d(NLLLoss):
    """The old name of NLLLoss for images."""

    def __init__(self, *args, **kwargs):
        deprecated("NLLLoss2d", "NLLLoss", FutureWarning)
        super().__init__(*args, **kwargs)


@of("binary_cross_entropy", weight=None, **OLD_FLAGS)
class BCELoss(_WeightedLoss):
    """The cross entropy of probabilities.

    >>> torch.nn.BCELoss()(torch.tensor([0.5]), torch.tensor([1.]))
    tensor(0.6931)
    """


@of("binary_cross_entropy_with_logits", weight=None, **OLD_FLAGS, pos_weight=None)
class BCEWithLogitsLoss(_Loss):
    """The cross entropy of sigmoid(x).

    >>> torch.nn.BCEWithLogitsLoss()(torch.zeros(1), torch.ones(1))
    tensor(0.6931)
    """


@of("kl_div", **OLD_FLAGS, log_target=False)
class KLDivLoss(_Loss):
    """target * (log target - x), x being log probabilities.

    >>> torch.nn.KLDivLoss(reduction="batchmean")(torch.tensor([[0.5]]).log(), torch.ones(1, 1))
    tensor(0.6931)
    """


@of("ctc_loss", blank=0, reduction="mean", zero_infinity=False)
class CTCLoss(_Loss):
    """-log of the probability of all alignments that collapse to the targets (Graves et al. 2006)."""


class LinearCrossEntropyLoss(Module):
    """The cross entropy of linearly transformed input: [*, in] with targets [*, *out] or [*, c, *out]."""

    def __init__(self, in_features, num_classes, *, out_features=(), bias=False, device=None, dtype=None,
                 reduction="mean", weight=None, ignore_index=None,
                 label_smoothing=0.0, options=None):
        super().__init__()
        self.num_classes, self.out_features = num_classes, tuple(out_features)
        self.reduction, self.ignore_index, self.label_smoothing, self.options = (reduction, ignore_index,
                                                                                 label_smoothing, options)
        self.linear = Linear(in_features, num_classes * math.prod(self.out_features), bias=bias, device=device,
                             dtype=dtype)
        self.register_buffer("weight", weight)

    def forward(self, input, target):
        shape = (self.num_classes, *self.out_features)
        linear_bias = None if self.linear.bias is None else self.linear.bias.reshape(shape)
        return F.linear_cross_entropy(input, self.linear.weight.reshape(*shape, self.linear.in_features), target,
                                      linear_bias=linear_bias, weight=self.weight,
                                      reduction=self.reduction, ignore_index=self.ignore_index,
                                      label_smoothing=self.label_smoothing, options=self.options)

    def extra_repr(self):
        return (f"in_features={self.linear.in_features}, num_classes={self.num_classes}, "
                f"out_features={self.out_features}, "
                f"bias={self.linear.bias is not None}, reduction={self.reduction}, "
                f"ignore_index={self.ignore_index}, label_smoothing={self.label_smoothing}, options={self.options}")


@of("poisson_nll_loss", log_input=True, full=False, size_average=None, eps=1e-8, reduce=None, reduction="mean")
class PoissonNLLLoss(_Loss):
    """The negative log likelihood of Poisson counts.

    >>> torch.nn.PoissonNLLLoss()(torch.zeros(1), torch.ones(1))
    tensor(1.)
    """

    def forward(self, log_input, target):
        return super().forward(log_input, target)


@of("gaussian_nll_loss", named_only=True, full=False, eps=1e-6, reduction="mean")
class GaussianNLLLoss(_Loss):
    """The negative log likelihood of normal variables.

    >>> torch.nn.GaussianNLLLoss()(torch.zeros(1), torch.ones(1), torch.ones(1))
    tensor(0.5000)
    """


@of("hinge_embedding_loss", margin=1.0, **OLD_FLAGS)
class HingeEmbeddingLoss(_Loss):
    """x where the target is 1, max(0, margin - x) where it is -1.

    >>> torch.nn.HingeEmbeddingLoss()(torch.tensor([0.25]), torch.tensor([-1.]))
    tensor(0.7500)
    """


@of("cosine_embedding_loss", margin=0.0, **OLD_FLAGS)
class CosineEmbeddingLoss(_Loss):
    """1 - cos where the target is 1, max(0, cos - margin) where it is -1."""


@of("margin_ranking_loss", margin=0.0, **OLD_FLAGS)
class MarginRankingLoss(_Loss):
    """max(0, -y (x1 - x2) + margin).

    >>> torch.nn.MarginRankingLoss()(torch.tensor([1.]), torch.tensor([3.]), torch.ones(1))
    tensor(2.)
    """


@of("multi_margin_loss", p=1, margin=1.0, weight=None, **OLD_FLAGS)
class MultiMarginLoss(_WeightedLoss):
    """The mean over classes of max(0, margin - x[y] + x[i]) ** p.

    >>> torch.nn.MultiMarginLoss()(torch.tensor([[0., 1.]]), torch.tensor([0]))
    tensor(1.)
    """

    def _rush_check(self):
        if self.p not in (1, 2):
            raise ValueError(f"only p == 1 and p == 2 are supported, not {self.p}")


@of("multilabel_margin_loss", **OLD_FLAGS)
class MultiLabelMarginLoss(_Loss):
    """Hinge loss between target classes and others."""


@of("multilabel_soft_margin_loss", weight=None, **OLD_FLAGS)
class MultiLabelSoftMarginLoss(_WeightedLoss):
    """The mean binary cross entropy of logits."""


class _TripletLoss(_Loss):
    """How much nearer an anchor is to its like than to another, up to a margin."""

    def _rush_check(self):
        if self.margin <= 0:
            raise ValueError(f"{type(self).__name__}: expected margin to be greater than 0, got {self.margin} instead")


@of("triplet_margin_loss", margin=1.0, p=2.0, eps=1e-6, swap=False, **OLD_FLAGS)
class TripletMarginLoss(_TripletLoss):
    """max(0, d(a, p) - d(a, n) + margin)."""


@of("triplet_margin_with_distance_loss", named_only=True, distance_function=None, margin=1.0, swap=False,
    reduction="mean")
class TripletMarginWithDistanceLoss(_TripletLoss):
    """The triplet loss for any distance."""

    def _rush_check(self):
        super()._rush_check()
        self.distance_function = PairwiseDistance() if self.distance_function is None else self.distance_function
