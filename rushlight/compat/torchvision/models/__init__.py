"""Models: not here; timm has them, in Python."""
from ...absent import absent

WHY = "models of torchvision are not part of the stand-in: timm.create_model has them in Python"
globals().update(absent("torchvision.models", WHY, "resnet18 resnet34 resnet50 resnet101 resnet152 vgg11 vgg16 vgg19 mobilenet_v2 mobilenet_v3_large mobilenet_v3_small "
                        "densenet121 efficientnet_b0 convnext_tiny vit_b_16 swin_t alexnet inception_v3 googlenet get_model list_models"))
