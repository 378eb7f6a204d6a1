"""Embedding tables of 8-bit integers, with a scale and a zero point for each row."""
from __future__ import annotations

from ....._src.core.later import facade, later
from ....._src.core.quantized import per_channel_affine_float_qparams, quint8
from .....nn import Module
from .....nn import functional as F
from .utils import quantized_name

__getattr__ = later(__name__)


class EmbeddingPackedParams(Module):
    """The quint8 table of rows [n, d], prepared.  NotImplementedError for other dtypes."""

    def __init__(self, num_embeddings, embedding_dim, dtype=quint8):
        super().__init__()
        if dtype is not quint8:
            raise NotImplementedError(f"quantized embeddings have tables of torch.quint8, got {dtype}")
        torch = facade()
        self.dtype = dtype
        self.set_weight(torch._empty_per_channel_affine_quantized(
            [num_embeddings, embedding_dim], scales=torch.ones(num_embeddings), zero_points=torch.zeros(num_embeddings),
            axis=0, dtype=quint8))

    def set_weight(self, weight):
        """Takes a table: quint8 by per_channel_affine_float_qparams, a row a channel.  AssertionError for others."""
        if weight.qscheme() is not per_channel_affine_float_qparams or weight.q_per_channel_axis() != 0:
            raise AssertionError("a quantized embedding wants a scale and a float zero point for each row")
        self._packed_weight = weight
        self.whole, self.scales = weight.int_repr(), weight.q_per_channel_scales().to(facade().float32)
        self.offsets = -weight.q_per_channel_zero_points().to(facade().float32) * self.scales

    def _weight(self):
        return self._packed_weight

    def rows(self, indices):
        """Return the dequantized rows of these indices: int [m] -> float [m, d]."""
        scales, offsets = (v.index_select(0, indices).unsqueeze(1) for v in (self.scales, self.offsets))
        return self.whole.index_select(0, indices).to(facade().float32) * scales + offsets

    def forward(self, x):
        return x

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "dtype"], destination[prefix + "_packed_weight"] = self.dtype, self._packed_weight

    def _load_from_state_dict(self, state_dict, prefix, *args):
        self.dtype = state_dict.pop(prefix + "dtype")
        self.set_weight(state_dict.pop(prefix + "_packed_weight"))
        super()._load_from_state_dict(state_dict, prefix, args[0], False, *args[2:])

    def __repr__(self):
        return repr(self._packed_weight)


class Embedding(Module):
    """Rows of a quint8 table: int [*] -> float [*, d]."""

    _get_name = quantized_name

    def __init__(self, num_embeddings, embedding_dim, padding_idx=None, max_norm=None, norm_type=2.0,
                 scale_grad_by_freq=False, sparse=False, _weight=None, dtype=quint8):
        super().__init__()
        self.num_embeddings, self.embedding_dim, self.dtype = num_embeddings, embedding_dim, dtype
        self._packed_params = EmbeddingPackedParams(num_embeddings, embedding_dim, dtype)
        if _weight is not None:
            if list(_weight.shape) != [num_embeddings, embedding_dim]:
                raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")
            self.set_weight(_weight)

    def forward(self, indices):
        return self._packed_params.rows(indices.reshape(-1)).reshape(*indices.shape, self.embedding_dim)

    def set_weight(self, w):
        self._packed_params.set_weight(w)

    def weight(self):
        return self._packed_params._weight()

    def extra_repr(self):
        return (f"num_embeddings={self.num_embeddings}, embedding_dim={self.embedding_dim}, dtype={self.dtype}, "
                f"qscheme={self.weight().qscheme()}")

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """From a float table, by the observer that its ``qconfig`` names.  AssertionError for observers of other
        dtypes and schemes."""
        table = cls.quantized(mod)
        return cls(mod.num_embeddings, mod.embedding_dim, _weight=table)

    @staticmethod
    def quantized(mod):
        """A float table as quint8."""
        from ....quantization.qconfig import float_qparams_weight_only_qconfig
        qconfig = getattr(mod, "qconfig", None) or float_qparams_weight_only_qconfig
        observer, weight = qconfig.weight(), mod.weight.detach().to(facade().float32)
        if observer.dtype is not quint8 or observer.qscheme is not per_channel_affine_float_qparams:
            raise AssertionError("Embedding quantization is only supported with float_qparams_weight_only_qconfig.")
        observer(weight)
        return facade().quantize_per_channel(weight, *observer.calculate_qparams(), 0, quint8)


class EmbeddingBag(Embedding):
    """Sums of rows of a quint8 table: int [n, m], or int [m] with offsets [n] -> float [n, d].  NotImplementedError for
    other modes than sum."""

    def __init__(self, num_embeddings, embedding_dim, max_norm=None, norm_type=2.0, scale_grad_by_freq=False,
                 mode="sum", sparse=False, _weight=None, include_last_offset=False, dtype=quint8):
        super().__init__(num_embeddings, embedding_dim, _weight=_weight, dtype=dtype)
        if mode != "sum":
            raise NotImplementedError(f"a quantized EmbeddingBag sums rows (mode='sum'), got mode={mode!r}")
        self.mode, self.include_last_offset = mode, include_last_offset

    def forward(self, indices, offsets=None, per_sample_weights=None, compressed_indices_mapping=None):
        if compressed_indices_mapping is not None:
            raise NotImplementedError("a quantized EmbeddingBag has all its rows: compressed_indices_mapping is not "
                                      "there")
        places = facade().arange(indices.numel()).reshape(indices.shape)
        return F.embedding_bag(places, self._packed_params.rows(indices.reshape(-1)), offsets, mode="sum",
                               per_sample_weights=per_sample_weights, include_last_offset=self.include_last_offset)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """From a float table, by the observer that its ``qconfig`` names."""
        return cls(mod.num_embeddings, mod.embedding_dim, mode=mod.mode, _weight=cls.quantized(mod),
                   include_last_offset=mod.include_last_offset)
