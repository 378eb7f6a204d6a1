"""Images (PIL or tensors [*, c, h, w]) to images."""
from . import functional
from .functional import InterpolationMode
from .modules import (CenterCrop, ColorJitter, Compose, ConvertImageDtype, FiveCrop, GaussianBlur, Grayscale, Lambda,
                      Normalize, Pad, PILToTensor, RandomApply, RandomChoice,
                      RandomCrop, RandomErasing, RandomGrayscale, RandomHorizontalFlip, RandomOrder, RandomResizedCrop,
                      RandomRotation, RandomVerticalFlip, Resize, ToPILImage,
                      ToTensor)

__all__ = ["CenterCrop", "ColorJitter", "Compose", "ConvertImageDtype", "FiveCrop", "GaussianBlur", "Grayscale",
           "InterpolationMode", "Lambda", "Normalize", "PILToTensor",
           "Pad", "RandomApply", "RandomChoice", "RandomCrop", "RandomErasing", "RandomGrayscale",
           "RandomHorizontalFlip", "RandomOrder", "RandomResizedCrop",
           "RandomRotation", "RandomVerticalFlip", "Resize", "ToPILImage", "ToTensor", "functional"]
