"""Embeddings."""
from __future__ import annotations

from .. import functional as F
from .. import init
from ..parameter import Parameter
from .linear import empty, unusual
from .module import Module


def padding_row(index, rows, name):
    """The row of a table that stands for padding, counted from the front; None stays.  AssertionError outside the
    table."""
    if index is None:
        return None
    if not -rows <= index < rows:
        raise AssertionError(f"{name} must be within num_embeddings")
    return index % rows


class _Table(Module):
    """A table of ``num_embeddings`` rows; the padding row, if any, stays 0 and gets no gradient."""

    def _rush_enter(self, num_embeddings, embedding_dim, padding_idx, weight, trainable, device, dtype):
        self.num_embeddings, self.embedding_dim, self.padding_idx = num_embeddings, embedding_dim, padding_idx
        if weight is None:
            self.weight = empty((num_embeddings, embedding_dim), device=device, dtype=dtype)
            self.weight.requires_grad_(trainable)
            self.reset_parameters()
        elif tuple(weight.shape) != (num_embeddings, embedding_dim):
            raise AssertionError(
                f"Shape of weight does not match num_embeddings and embedding_dim: {tuple(weight.shape)} and "
                f"{(num_embeddings, embedding_dim)}")
        else:
            self.weight = Parameter(weight, requires_grad=trainable)

    def reset_parameters(self):
        """Normal rows, and zeros for padding."""
        init.normal_(self.weight)
        self._fill_padding_idx_with_zero()

    def _fill_padding_idx_with_zero(self):
        if self.padding_idx is not None:
            from ...autograd import no_grad
            with no_grad():
                self.weight[self.padding_idx].zero_()

    def _rush_described(self, **defaults):
        """The size, and options that differ from their default."""
        return ", ".join([f"{self.num_embeddings}, {self.embedding_dim}", *unusual(self, **defaults)])


class Embedding(_Table):
    """Rows of a table by integer: [*] -> [*, embedding_dim].

    >>> torch.nn.Embedding(10, 4)(torch.tensor([[1, 2, 3]])).shape
    torch.Size([1, 3, 4])
    """

    def __init__(self, num_embeddings, embedding_dim, padding_idx=None, max_norm=None, norm_type=2.0,
                 scale_grad_by_freq=False, sparse=False,
                 _weight=None, _freeze=False, device=None, dtype=None):
        super().__init__()
        self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse = (max_norm, norm_type, scale_grad_by_freq,
                                                                               sparse)
        self._rush_enter(num_embeddings, embedding_dim, padding_row(padding_idx, num_embeddings, "Padding_idx"),
                         _weight, not _freeze, device, dtype)

    def forward(self, input):
        return F.embedding(input, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq,
                           self.sparse)

    def extra_repr(self):
        return self._rush_described(padding_idx=None, max_norm=None, norm_type=2, scale_grad_by_freq=False,
                                    sparse=False)

    @classmethod
    def from_pretrained(cls, embeddings, freeze=True, padding_idx=None, max_norm=None, norm_type=2.0,
                        scale_grad_by_freq=False, sparse=False):
        """An Embedding with a given table."""
        return cls(*embeddings.shape, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse, _weight=embeddings,
                   _freeze=freeze)


class EmbeddingBag(_Table):
    """The sum, mean or maximum of rows of a table over bags of positions: [b, n], or [n] and offsets [b], -> [b,
    embedding_dim].

    >>> torch.nn.EmbeddingBag(10, 4)(torch.tensor([[1, 2, 3]])).shape
    torch.Size([1, 4])
    """

    def __init__(self, num_embeddings, embedding_dim, max_norm=None, norm_type=2.0, scale_grad_by_freq=False,
                 mode="mean", sparse=False, _weight=None,
                 include_last_offset=False, padding_idx=None, device=None, dtype=None):
        super().__init__()
        self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse = (max_norm, norm_type, scale_grad_by_freq,
                                                                               sparse)
        self.mode, self.include_last_offset = mode, include_last_offset
        self._rush_enter(num_embeddings, embedding_dim, padding_row(padding_idx, num_embeddings, "padding_idx"),
                         _weight, True, device, dtype)

    def forward(self, input, offsets=None, per_sample_weights=None):
        return F.embedding_bag(input, self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq,
                               self.mode, self.sparse, per_sample_weights,
                               self.include_last_offset, self.padding_idx)

    def extra_repr(self):
        return self._rush_described(max_norm=None, norm_type=2, scale_grad_by_freq=False, mode=None, padding_idx=None)

    @classmethod
    def from_pretrained(cls, embeddings, freeze=True, max_norm=None, norm_type=2.0, scale_grad_by_freq=False,
                        mode="mean", sparse=False, include_last_offset=False,
                        padding_idx=None):
        """An EmbeddingBag with a given table."""
        made = cls(*embeddings.shape, max_norm, norm_type, scale_grad_by_freq, mode, sparse, embeddings,
                   include_last_offset, padding_idx)
        made.weight.requires_grad_(not freeze)
        return made
