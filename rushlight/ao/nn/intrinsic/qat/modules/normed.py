"""Base of layers that train with weights rounded as after folding of the batch norm that follows."""
from __future__ import annotations

from ......_src.core.later import later
from ......nn import init
from ......nn.utils.fusion import fuse_conv_bn_weights
from ....qat.modules.rounded import Rounded

__getattr__ = later(__name__)


class Normed(Rounded):
    """A layer and its batch norm ``bn``.  The weight is scaled by the running variance, rounded, and results are scaled
    back for the batch norm, which sees them as those of the weight itself."""

    batch_norm = True

    def add_norm(self, norm, qconfig, freeze_bn):
        """Takes the batch norm, a module, and the QConfig."""
        self.freeze_bn, self.bn = freeze_bn, norm
        self.round_weight(qconfig)
        if self.training and not freeze_bn:
            self.update_bn_stats()
        else:
            self.freeze_bn_stats()

    def normed(self, input, linear, bias):
        """Batch norm of ``linear(input, weight)`` plus ``bias``, if there is one."""
        scale = self.bn.weight / (self.bn.running_var + self.bn.eps).sqrt()
        weight = self.weight_fake_quant(self.weight * scale.reshape([-1] + [1] * (self.weight.dim() - 1)))
        found = linear(input, weight)
        along = [1, -1] + [1] * (found.dim() - 2)
        found = found / scale.reshape(along)
        return self.bn(found if bias is None else found + bias.reshape(along))

    def update_bn_stats(self):
        """Lets the batch norm use and follow the statistics of what it is given."""
        self.freeze_bn, self.bn.training = False, True
        return self

    def freeze_bn_stats(self):
        """Keeps the statistics of the batch norm as they are."""
        self.freeze_bn, self.bn.training = True, False
        return self

    def reset_running_stats(self):
        self.bn.reset_running_stats()

    def reset_bn_parameters(self):
        """The batch norm as it was made."""
        self.bn.reset_running_stats()
        init.uniform_(self.bn.weight)
        init.zeros_(self.bn.bias)

    def train(self, mode=True):
        """Training mode, or not; a frozen batch norm stays as it is."""
        self.training = mode
        if not self.freeze_bn:
            for module in self.children():
                module.train(mode)
        return self

    def folded(self):
        """(weight, bias) with the batch norm in them."""
        bn = self.bn
        return fuse_conv_bn_weights(self.weight, self.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias)
