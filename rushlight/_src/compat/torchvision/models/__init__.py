"""Models: residual networks, VGG, DenseNet, MobileNetV2 and AlexNet, without trained weights; timm has the others, in
Python."""
from fnmatch import fnmatch

from ...absent import absent
from . import alexnet as _alexnet, densenet as _densenet, mobilenetv2 as _mobilenetv2, resnet as _resnet, vgg as _vgg

WHY = ("it is not part of the stand-in for torchvision: after `pip install --no-deps torchvision pillow` its own "
       "Python code runs here, with all its models")
globals().update(absent("torchvision.models", WHY,
                        "mobilenet_v3_large mobilenet_v3_small efficientnet_b0 convnext_tiny vit_b_16 swin_t "
                        "inception_v3 googlenet squeezenet1_0 squeezenet1_1 "
                        "shufflenet_v2_x1_0 mnasnet1_0 regnet_y_400mf maxvit_t MobileNet_V3_Large_Weights "
                        "MobileNet_V3_Small_Weights EfficientNet_B0_Weights ConvNeXt_Tiny_Weights "
                        "ViT_B_16_Weights Swin_T_Weights Inception_V3_Weights GoogLeNet_Weights SqueezeNet1_1_Weights"))
ROOMS = (_resnet, _vgg, _densenet, _mobilenetv2, _alexnet)
BUILDERS = {name: getattr(room, name) for room in ROOMS for name in room.__all__ if name[0].islower()}
globals().update({name: getattr(room, name) for room in ROOMS for name in room.__all__})
__all__ = [name for room in ROOMS for name in room.__all__]


def list_models(module=None, include=None, exclude=None) -> list:
    """Names that ``get_model`` accepts: of one module of models, or all; those that match a pattern of ``include`` (a
    string or several) and none of ``exclude``."""
    names = [n for n in sorted(BUILDERS) if module is None or hasattr(module, n)]
    several = lambda patterns: [patterns] if isinstance(patterns, str) else list(patterns or ())
    return [n for n in names if (not include or any(fnmatch(n, p) for p in several(include)))
            and not any(fnmatch(n, p) for p in several(exclude))]


def get_model(name: str, **config):
    """Make a model by its name.  ValueError for an unknown one."""
    if name not in BUILDERS:
        raise ValueError(f"Unknown model {name}: there are {', '.join(list_models())}")
    return BUILDERS[name](**config)
