"""Batch and instance normalisation."""
from __future__ import annotations

from ..._src import flat as torch
from ..._src.core.advice import warn
from .. import functional as F
from .. import init
from ..parameter import UninitializedBuffer, UninitializedParameter, is_lazy
from .linear import enter_parameters, shown
from .lazy import LazyModuleMixin
from .module import Module


class _NormBase(Module):
    """Running statistics and an affine map for each channel."""

    _version = 2

    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True, device=None,
                 dtype=None, *, bias=True):
        super().__init__()
        self.num_features, self.eps, self.momentum, self.affine, self.track_running_stats = (num_features, eps,
                                                                                             momentum, affine,
                                                                                             track_running_stats)
        enter_parameters(self, num_features, {"weight": affine, "bias": affine and bias}, device, dtype)
        self._rush_enter_running_stats(device, dtype)
        self.reset_parameters()

    def _rush_enter_running_stats(self, device, dtype):
        if self.track_running_stats:
            mean = torch.zeros(self.num_features, device=device, dtype=dtype)
            stats = mean, torch.ones_like(mean), torch.tensor(0, device=mean.device)
        else:
            stats = (None,) * 3
        for name, value in zip(("running_mean", "running_var", "num_batches_tracked"), stats):
            self.register_buffer(name, value)

    def reset_running_stats(self):
        """As before any batch: mean 0, variance 1."""
        if self.track_running_stats:
            for buffer, value in ((self.running_mean, 0), (self.running_var, 1), (self.num_batches_tracked, 0)):
                buffer.fill_(value)

    def reset_parameters(self):
        """Running statistics as before any batch, and an affine map that changes nothing."""
        self.reset_running_stats()
        if self.affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def extra_repr(self):
        return f"{self.num_features}, {shown(self, 'eps', 'momentum', 'affine', 'bias', 'track_running_stats')}"

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                              error_msgs):
        key, version = f"{prefix}num_batches_tracked", local_metadata.get("version") or 1
        if version < 2 and self.track_running_stats and key not in state_dict:  # saved before batches were counted
            state_dict[key] = torch.tensor(0) if self.num_batches_tracked is None else self.num_batches_tracked
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                                      error_msgs)


class _BatchNorm(_NormBase):
    """Batch normalisation for inputs of some ranks."""

    _rush_ranks: tuple = ()

    def _check_input_dim(self, input):
        if input.dim() not in self._rush_ranks:
            wanted = " or ".join(f"{rank}D" for rank in self._rush_ranks)
            raise ValueError(f"expected {wanted} input (got {input.dim()}D input)")

    def forward(self, input):
        self._check_input_dim(input)
        factor = self._rush_counted()
        training = self.training or (self.running_mean is None and self.running_var is None)
        tracked = not self.training or self.track_running_stats
        return F.batch_norm(input, self.running_mean if tracked else None, self.running_var if tracked else None,
                            self.weight, self.bias, training, factor, self.eps)


    def _rush_counted(self) -> float:
        """Counts a batch of training; how much of it the running statistics take."""
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                return 1.0 / float(self.num_batches_tracked)
        return 0.0 if self.momentum is None else self.momentum


class BatchNorm1d(_BatchNorm):
    """Batch normalisation of [n, c] or [n, c, l] (Ioffe & Szegedy 2015).

    >>> torch.nn.BatchNorm1d(3)(torch.ones(4, 3)).shape
    torch.Size([4, 3])
    """

    _rush_ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch normalisation of [n, c, h, w].

    >>> torch.nn.BatchNorm2d(3)(torch.ones(2, 3, 4, 4)).shape
    torch.Size([2, 3, 4, 4])
    """

    _rush_ranks = (4,)


class BatchNorm3d(_BatchNorm):
    """Batch normalisation of [n, c, d, h, w].

    >>> torch.nn.BatchNorm3d(3)(torch.ones(2, 3, 2, 2, 2)).shape
    torch.Size([2, 3, 2, 2, 2])
    """

    _rush_ranks = (5,)


class SyncBatchNorm(_BatchNorm):
    """Batch normalisation with the mean and variance over the batches of all processes of a group; with one process the
    same as BatchNorm."""

    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True, process_group=None,
                 device=None, dtype=None, *, bias=True):
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    @classmethod
    def convert_sync_batchnorm(cls, module, process_group=None):
        """The module with every BatchNorm in it as a SyncBatchNorm of the same state."""
        made = module
        if isinstance(module, _BatchNorm):
            made = cls(module.num_features, module.eps, module.momentum, module.affine, module.track_running_stats,
                       process_group, bias=module.bias is not None)
            made.weight, made.bias = module.weight, module.bias
            made.running_mean, made.running_var, made.num_batches_tracked = (module.running_mean, module.running_var,
                                                                             module.num_batches_tracked)
            made.training = module.training
        for name, child in module.named_children():
            made.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return made

    def _check_input_dim(self, input):
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")

    def forward(self, input):
        group = self._rush_group()
        if group is None or not self.training and self.running_mean is not None:
            return super().forward(input)
        self._check_input_dim(input)
        from ...distributed.functional import all_reduce
        x, dims, shape = input.float() if input.dtype.is_half else input, [0, *range(2, input.dim())], [1, -1] + [1] * (
            input.dim() - 2)
        count = torch.full((1,), x.numel() // x.size(1), dtype=x.dtype)
        whole = all_reduce(torch.cat([x.sum(dims), count]), "sum", group)
        number = whole[-1].detach()
        centered = x - (whole[:-1] / number).view(shape)
        variance = all_reduce(centered.square().sum(dims), "sum", group) / number
        self._rush_follow(self._rush_counted(), (whole[:-1] / number).detach(),
                          (variance * number / (number - 1)).detach())
        result = centered * (variance + self.eps).rsqrt().view(shape)
        if self.weight is not None:
            result = result * self.weight.view(shape)
        return (result if self.bias is None else result + self.bias.view(shape)).to(input.dtype)

    def _rush_group(self):
        """Return the group with which statistics are shared; None for a single process."""
        from ...distributed import is_initialized
        if not is_initialized():
            return None
        from ...distributed.membership import chosen
        group = chosen(self.process_group)
        return group if group is not None and group.size() > 1 else None

    def _rush_follow(self, factor, mean, variance):
        """Running statistics take in those of a batch."""
        if self.training and self.track_running_stats and self.running_mean is not None:
            with torch.no_grad():
                self.running_mean.lerp_(mean.to(self.running_mean.dtype), factor)
                self.running_var.lerp_(variance.to(self.running_var.dtype), factor)


class _InstanceNorm(_NormBase):
    """Instance normalisation for inputs of some ranks."""

    _rush_ranks: tuple = ()

    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=False, track_running_stats=False, device=None,
                 dtype=None, *, bias=True):
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def forward(self, input):
        rank = self._rush_ranks[0]
        if input.dim() not in (rank, rank - 1):
            raise ValueError(f"expected {rank - 1}D or {rank}D input (got {input.dim()}D input)")
        single = input.dim() == rank - 1
        x = input.unsqueeze(0) if single else input
        if x.size(1) != self.num_features and self.affine:
            raise ValueError(
                f"expected input's size at dim=1 to match num_features ({self.num_features}), but got: {x.size(1)}.")
        if x.size(1) != self.num_features:
            warn(f"input's size at dim=1, {x.size(1)}, does not match num_features, {self.num_features}, which "
                 "affine=False does not use.")
        out = F.instance_norm(x, self.running_mean, self.running_var, self.weight, self.bias,
                              self.training or not self.track_running_stats,
                              self.momentum if self.momentum is not None else 0.0, self.eps)
        return out.squeeze(0) if single else out


class InstanceNorm1d(_InstanceNorm):
    """Instance normalisation of [n, c, l] (Ulyanov et al. 2016).

    >>> torch.nn.InstanceNorm1d(3)(torch.ones(2, 3, 4)).shape
    torch.Size([2, 3, 4])
    """

    _rush_ranks = (3,)


class InstanceNorm2d(_InstanceNorm):
    """Instance normalisation of [n, c, h, w].

    >>> torch.nn.InstanceNorm2d(3)(torch.ones(2, 3, 4, 4)).shape
    torch.Size([2, 3, 4, 4])
    """

    _rush_ranks = (4,)


class InstanceNorm3d(_InstanceNorm):
    """Instance normalisation of [n, c, d, h, w]."""

    _rush_ranks = (5,)


def lazy_class(base):
    class Lazy(LazyModuleMixin, base):
        cls_to_become = base

        def __init__(self, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True, device=None, dtype=None, *,
                     bias=True):
            super().__init__(0, eps, momentum, False, False)
            self.affine, self.track_running_stats = affine, track_running_stats
            made = {"device": device, "dtype": dtype}
            if affine:
                self.weight = UninitializedParameter(**made)
            if affine and bias:
                self.bias = UninitializedParameter(**made)
            if track_running_stats:
                self.running_mean, self.running_var = UninitializedBuffer(**made), UninitializedBuffer(**made)
                self.num_batches_tracked = torch.tensor(0, device=device)

        def reset_parameters(self):
            if self.num_features:
                super().reset_parameters()

        def initialize_parameters(self, input):
            if self.num_features == 0:
                self.num_features = input.shape[self._rush_channels(input)]
                for value in (*self._parameters.values(), *self._buffers.values()):
                    if value is not None and is_lazy(value):
                        value.materialize((self.num_features,))
                self.reset_parameters()

        def _rush_channels(self, input):
            """The dimension of the channels: instance norms take single samples too."""
            return input.dim() - self._rush_ranks[0] + 1 if issubclass(base, _InstanceNorm) else 1

    Lazy.__name__ = Lazy.__qualname__ = f"Lazy{base.__name__}"
    Lazy.__doc__ = f"A {base.__name__} that learns its number of channels from its first input."
    return Lazy


LazyBatchNorm1d, LazyBatchNorm2d, LazyBatchNorm3d = map(lazy_class, (BatchNorm1d, BatchNorm2d, BatchNorm3d))
LazyInstanceNorm1d, LazyInstanceNorm2d, LazyInstanceNorm3d = map(lazy_class, (InstanceNorm1d, InstanceNorm2d,
                                                                              InstanceNorm3d))
