"""Layers."""
from __future__ import annotations

import rushlight as torch
from rushlight import nn

__all__ = ["Conv2dNormActivation", "Conv3dNormActivation", "ConvNormActivation", "FrozenBatchNorm2d", "MLP", "Permute",
           "SqueezeExcitation"]


class FrozenBatchNorm2d(nn.Module):
    """Batch normalization whose statistics and affine parameters are buffers."""

    def __init__(self, num_features, eps=1e-5):
        super().__init__()
        self.eps = eps
        for name, value in (("weight", 1), ("bias", 0), ("running_mean", 0), ("running_var", 1)):
            self.register_buffer(name, torch.full((num_features,), float(value)))

    def _load_from_state_dict(self, state_dict, prefix, *rest):
        state_dict.pop(prefix + "num_batches_tracked", None)
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def forward(self, x):
        scale = self.weight * (self.running_var + self.eps).rsqrt()
        bias = self.bias - self.running_mean * scale
        return x * scale.reshape(1, -1, 1, 1) + bias.reshape(1, -1, 1, 1)

    def __repr__(self):
        return f"{type(self).__name__}({self.weight.shape[0]}, eps={self.eps})"


class ConvNormActivation(nn.Sequential):
    """A convolution, a normalization and an activation."""

    layer = nn.Conv2d
    rank = 2

    def __init__(self, in_channels, out_channels, kernel_size=3, stride=1, padding=None, groups=1,
                 norm_layer=nn.BatchNorm2d, activation_layer=nn.ReLU, dilation=1,
                 inplace=True, bias=None, conv_layer=None):
        if padding is None:
            sizes = (kernel_size,) * self.rank if isinstance(kernel_size, int) else kernel_size
            spread = (dilation,) * self.rank if isinstance(dilation, int) else dilation
            padding = tuple((k - 1) // 2 * d for k, d in zip(sizes, spread))
        bias = norm_layer is None if bias is None else bias
        layers = [(conv_layer or self.layer)(in_channels, out_channels, kernel_size, stride, padding, dilation=dilation,
                                             groups=groups, bias=bias)]
        if norm_layer is not None:
            layers.append(norm_layer(out_channels))
        if activation_layer is not None:
            layers.append(activation_layer(**({} if inplace is None else {"inplace": inplace})))
        super().__init__(*layers)
        self.out_channels = out_channels


class Conv2dNormActivation(ConvNormActivation):
    """The same, for images."""


class Conv3dNormActivation(ConvNormActivation):
    """The same, for volumes."""

    layer, rank = nn.Conv3d, 3

    def __init__(self, *args, norm_layer=nn.BatchNorm3d, **kwargs):
        super().__init__(*args, norm_layer=norm_layer, **kwargs)


class SqueezeExcitation(nn.Module):
    """Channels scaled by a function of their means (Hu, Shen and Sun 2018)."""

    def __init__(self, input_channels, squeeze_channels, activation=nn.ReLU, scale_activation=nn.Sigmoid):
        super().__init__()
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc1, self.fc2 = nn.Conv2d(input_channels, squeeze_channels, 1), nn.Conv2d(squeeze_channels, input_channels,
                                                                                       1)
        self.activation, self.scale_activation = activation(), scale_activation()

    def forward(self, input):
        return self.scale_activation(self.fc2(self.activation(self.fc1(self.avgpool(input))))) * input


class MLP(nn.Sequential):
    """Linear layers with normalizations, activations and dropout between them."""

    def __init__(self, in_channels, hidden_channels, norm_layer=None, activation_layer=nn.ReLU, inplace=None, bias=True,
                 dropout=0.0):
        given = {} if inplace is None else {"inplace": inplace}
        layers, width = [], in_channels
        for hidden in hidden_channels[:-1]:
            layers.append(nn.Linear(width, hidden, bias=bias))
            if norm_layer is not None:
                layers.append(norm_layer(hidden))
            layers += [activation_layer(**given), nn.Dropout(dropout, **given)]
            width = hidden
        super().__init__(*layers, nn.Linear(width, hidden_channels[-1], bias=bias), nn.Dropout(dropout, **given))


class Permute(nn.Module):
    """Dimensions in another order."""

    def __init__(self, dims):
        super().__init__()
        self.dims = dims

    def forward(self, x):
        return torch.permute(x, self.dims)
