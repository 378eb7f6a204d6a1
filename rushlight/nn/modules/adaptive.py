"""The adaptive softmax."""
from __future__ import annotations

from collections import namedtuple

from ..._src import flat as torch
from .. import functional as F
from .container import ModuleList, Sequential
from .linear import Linear
from .module import Module

ASMoutput = namedtuple("ASMoutput", "output loss")


class AdaptiveLogSoftmaxWithLoss(Module):
    """The log likelihood of many classes, sorted by frequency, rare ones in clusters that are computed only where
    needed (Grave et al. 2017).

    Classes below ``cutoffs[0]`` are in the head; each further cutoff ends a cluster, whose features are ``div_value``
    times fewer than the last one's.
    """

    def __init__(self, in_features, n_classes, cutoffs, div_value=4.0, head_bias=False, device=None, dtype=None):
        super().__init__()
        cutoffs = list(cutoffs)
        if not cutoffs:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        if (cutoffs != sorted(set(cutoffs)) or min(cutoffs) <= 0 or max(cutoffs) > n_classes - 1
            or any(int(c) != c for c in cutoffs)):
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where each "
                "value is between 1 and n_classes-1")
        self.in_features, self.n_classes, self.cutoffs = in_features, n_classes, [*cutoffs, n_classes]
        self.div_value, self.head_bias = div_value, head_bias
        self.shortlist_size, self.n_clusters = self.cutoffs[0], len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        how = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, bias=head_bias, **how)
        self.tail = ModuleList()
        for k, (low, high) in enumerate(zip(self.cutoffs, self.cutoffs[1:]), 1):
            narrow = int(in_features // div_value**k)
            self.tail.append(Sequential(Linear(in_features, narrow, bias=False, **how),
                                        Linear(narrow, high - low, bias=False, **how)))

    def reset_parameters(self):
        self.head.reset_parameters()
        for narrow, wide in self.tail:
            narrow.reset_parameters()
            wide.reset_parameters()

    def forward(self, input, target):
        """The log probability of each target [n] (or of a single one), and the mean of its negative.  input: [n,
        in_features]."""
        if input.dim() != target.dim() + 1 or target.dim() > 1:
            raise RuntimeError(
                f"0D or 1D target tensor expected with an input of one dimension more, got {list(target.shape)} and "
                f"{list(input.shape)}")
        if target.dim() and input.size(0) != target.size(0):
            raise RuntimeError(
                f"Input and target should have the same size in the batch dimension, got {input.size(0)} and "
                f"{target.size(0)}")
        x, t = (input, target) if target.dim() else (input.unsqueeze(0), target.unsqueeze(0))
        if t.numel() and not bool(((t >= 0) & (t < self.n_classes)).all()):
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range [{int(t.min())}, "
                f"{int(t.max())}] were found.")
        head = F.log_softmax(self.head(x), 1)
        place, rest = t.clamp(max=self.shortlist_size - 1), x.new_zeros(x.size(0))
        for k, (low, high) in enumerate(zip(self.cutoffs, self.cutoffs[1:])):
            rows = ((t >= low) & (t < high)).nonzero().reshape(-1)
            if rows.numel():
                place = place.index_fill(0, rows, self.shortlist_size + k)
                inner = F.log_softmax(self.tail[k](x[rows]), 1)
                rest = rest.index_copy(0, rows, inner.gather(1, (t[rows] - low).unsqueeze(1)).squeeze(1))
        output = head.gather(1, place.unsqueeze(1)).squeeze(1) + rest
        return ASMoutput(output if target.dim() else output.squeeze(0), (-output).mean())

    def log_prob(self, input):
        """The log probabilities of all classes: [n, in_features] -> [n, n_classes]."""
        head = F.log_softmax(self.head(input), 1)
        parts = [head[:, :self.shortlist_size]]
        for k, cluster in enumerate(self.tail):
            parts.append(F.log_softmax(cluster(input), 1)
                         + head[:, self.shortlist_size + k:self.shortlist_size + k + 1])
        return torch.cat(parts, 1)

    def predict(self, input):
        """The most probable class of each row: [n]."""
        return self.log_prob(input).argmax(1)
