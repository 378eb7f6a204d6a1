"""Transforms as objects."""
from __future__ import annotations

import math
import random

import rushlight as torch
from rushlight import nn
from . import functional as F
from .functional import InterpolationMode


class Compose:
    """Transforms one after the other."""

    def __init__(self, transforms):
        self.transforms = transforms

    def __call__(self, img):
        for transform in self.transforms:
            img = transform(img)
        return img

    def __repr__(self):
        return type(self).__name__ + "(" + "".join(f"\n    {t}" for t in self.transforms) + "\n)"


class Transform(nn.Module):
    """Base class of transforms with options, which ``repr`` shows."""

    def __init__(self, **options):
        super().__init__()
        self.__dict__.update(options)
        self.shown = tuple(options)

    def __repr__(self):
        return f"{type(self).__name__}({', '.join(f'{n}={getattr(self, n)}' for n in self.shown)})"


def chance(p) -> bool:
    return float(torch.rand(1)) < p


def between(low, high) -> float:
    return float(torch.empty(1).uniform_(low, high))


class ToTensor:
    """A PIL image or array as a float tensor [c, h, w]."""

    def __call__(self, pic):
        return F.to_tensor(pic)

    def __repr__(self):
        return "ToTensor()"


class PILToTensor(ToTensor):
    """A PIL image as a uint8 tensor [c, h, w]."""

    def __call__(self, pic):
        return F.pil_to_tensor(pic)

    def __repr__(self):
        return "PILToTensor()"


class ToPILImage(ToTensor):
    """A tensor or array as a PIL image."""

    def __init__(self, mode=None):
        self.mode = mode

    def __call__(self, pic):
        return F.to_pil_image(pic, self.mode)

    def __repr__(self):
        return "ToPILImage()"


class ConvertImageDtype(Transform):
    """Pixels as another dtype, scaled."""

    def __init__(self, dtype):
        super().__init__(dtype=dtype)

    def forward(self, image):
        return F.convert_image_dtype(image, self.dtype)


class Lambda:
    """A function as a transform."""

    def __init__(self, lambd):
        if not callable(lambd):
            raise TypeError(f"Argument lambd should be callable, got {type(lambd).__name__!r}")
        self.lambd = lambd

    def __call__(self, img):
        return self.lambd(img)

    def __repr__(self):
        return "Lambda()"


class Normalize(Transform):
    """(x - mean) / std for each channel."""

    def __init__(self, mean, std, inplace=False):
        super().__init__(mean=mean, std=std)
        self.inplace = inplace

    def forward(self, tensor):
        return F.normalize(tensor, self.mean, self.std, self.inplace)


class Resize(Transform):
    """Resize: one number for the shorter side, or height and width."""

    def __init__(self, size, interpolation=InterpolationMode.BILINEAR, max_size=None, antialias=True):
        super().__init__(size=size, interpolation=interpolation, max_size=max_size, antialias=antialias)

    def forward(self, img):
        return F.resize(img, self.size, self.interpolation, self.max_size, self.antialias)

    def __repr__(self):
        return (f"Resize(size={self.size}, interpolation={self.interpolation.value}, max_size={self.max_size}, "
                f"antialias={self.antialias})")


class CenterCrop(Transform):
    """Center crop."""

    def __init__(self, size):
        super().__init__(size=tuple(F.pair(size)))

    def forward(self, img):
        return F.center_crop(img, self.size)


class FiveCrop(CenterCrop):
    """The corners and the center."""

    def forward(self, img):
        return F.five_crop(img, self.size)


class Pad(Transform):
    """A border."""

    def __init__(self, padding, fill=0, padding_mode="constant"):
        super().__init__(padding=padding, fill=fill, padding_mode=padding_mode)

    def forward(self, img):
        return F.pad(img, self.padding, self.fill, self.padding_mode)


class RandomCrop(Transform):
    """A crop at a random position."""

    def __init__(self, size, padding=None, pad_if_needed=False, fill=0, padding_mode="constant"):
        super().__init__(size=tuple(F.pair(size)), padding=padding)
        self.pad_if_needed, self.fill, self.padding_mode = pad_if_needed, fill, padding_mode

    def forward(self, img):
        if self.padding is not None:
            img = F.pad(img, self.padding, self.fill, self.padding_mode)
        _, h, w = F.get_dimensions(img)
        height, width = self.size
        if self.pad_if_needed:
            img = F.pad(img, [max(width - w, 0), max(height - h, 0)], self.fill, self.padding_mode)
            _, h, w = F.get_dimensions(img)
        if h < height or w < width:
            raise ValueError(f"Required crop size {(height, width)} is larger than input image size {(h, w)}")
        top, left = int(torch.randint(0, h - height + 1, (1,))), int(torch.randint(0, w - width + 1, (1,)))
        return F.crop(img, top, left, height, width)


class RandomResizedCrop(Transform):
    """A crop of random area, aspect ratio and position, resized."""

    def __init__(self, size, scale=(0.08, 1.0), ratio=(3.0 / 4.0, 4.0 / 3.0), interpolation=InterpolationMode.BILINEAR,
                 antialias=True):
        super().__init__(size=tuple(F.pair(size)), scale=scale, ratio=ratio, interpolation=interpolation,
                         antialias=antialias)

    @staticmethod
    def get_params(img, scale, ratio):
        """Top, left, height and width of the crop."""
        _, height, width = F.get_dimensions(img)
        for _ in range(10):
            area = height * width * between(*scale)
            shape = math.exp(between(*map(math.log, ratio)))
            w, h = round(math.sqrt(area * shape)), round(math.sqrt(area / shape))
            if 0 < w <= width and 0 < h <= height:
                return int(torch.randint(0, height - h + 1, (1,))), int(torch.randint(0, width - w + 1, (1,))), h, w
        own = width / height
        w, h = (width, round(width / ratio[0])) if own < ratio[0] else (round(height * ratio[1]),
                                                                        height) if own > ratio[1] else (width, height)
        return (height - h) // 2, (width - w) // 2, h, w

    def forward(self, img):
        return F.resized_crop(img, *self.get_params(img, self.scale, self.ratio), self.size, self.interpolation,
                              self.antialias)


class RandomHorizontalFlip(Transform):
    """Horizontal flip with probability p."""

    turn = staticmethod(F.hflip)

    def __init__(self, p=0.5):
        super().__init__(p=p)

    def forward(self, img):
        return self.turn(img) if chance(self.p) else img


class RandomVerticalFlip(RandomHorizontalFlip):
    """Vertical flip with probability p."""

    turn = staticmethod(F.vflip)


class RandomRotation(Transform):
    """Rotation by a random angle."""

    def __init__(self, degrees, interpolation=InterpolationMode.NEAREST, expand=False, center=None, fill=0):
        super().__init__(degrees=[-degrees, degrees] if isinstance(degrees, (int, float)) else list(degrees),
                         interpolation=interpolation, expand=expand, fill=fill)
        self.center = center

    def forward(self, img):
        return F.rotate(img, between(*self.degrees), self.interpolation, self.expand, self.center, self.fill)


class Grayscale(Transform):
    """Conversion to grayscale."""

    def __init__(self, num_output_channels=1):
        super().__init__(num_output_channels=num_output_channels)

    def forward(self, img):
        return F.rgb_to_grayscale(img, num_output_channels=self.num_output_channels)


class RandomGrayscale(Transform):
    """Conversion to grayscale with probability p."""

    def __init__(self, p=0.1):
        super().__init__(p=p)

    def forward(self, img):
        return F.rgb_to_grayscale(img, num_output_channels=F.get_image_num_channels(img)) if chance(self.p) else img


class GaussianBlur(Transform):
    """Gaussian blur with a random standard deviation."""

    def __init__(self, kernel_size, sigma=(0.1, 2.0)):
        super().__init__(kernel_size=tuple(F.pair(kernel_size)),
                         sigma=(sigma, sigma) if isinstance(sigma, (int, float)) else tuple(sigma))

    def forward(self, img):
        return F.gaussian_blur(img, list(self.kernel_size), between(*self.sigma))


class ColorJitter(Transform):
    """Brightness, contrast and saturation changed at random, in random order.  NotImplementedError for hue."""

    def __init__(self, brightness=0, contrast=0, saturation=0, hue=0):
        if hue not in (0, (0, 0)):
            raise NotImplementedError("ColorJitter(hue=...) is not implemented")
        super().__init__(**{n: self.span(v) for n, v in (("brightness", brightness), ("contrast", contrast),
                                                         ("saturation", saturation))})

    @staticmethod
    def span(value):
        found = (max(0.0, 1 - value), 1 + value) if isinstance(value, (int, float)) else tuple(value)
        return None if found == (1.0, 1.0) else found

    def forward(self, img):
        steps = [(F.adjust_brightness, self.brightness), (F.adjust_contrast, self.contrast),
                 (F.adjust_saturation, self.saturation)]
        for k in torch.randperm(3).tolist():
            if steps[k][1] is not None:
                img = steps[k][0](img, between(*steps[k][1]))
        return img


class RandomErasing(Transform):
    """A random rectangle replaced by a value, with probability p (Zhong et al. 2020)."""

    def __init__(self, p=0.5, scale=(0.02, 0.33), ratio=(0.3, 3.3), value=0, inplace=False):
        super().__init__(p=p, scale=scale, ratio=ratio, value=value, inplace=inplace)

    def forward(self, img):
        if not chance(self.p):
            return img
        c, height, width = img.shape[-3:]
        for _ in range(10):
            area = height * width * between(*self.scale)
            shape = math.exp(between(*map(math.log, self.ratio)))
            h, w = round(math.sqrt(area * shape)), round(math.sqrt(area / shape))
            if h < height and w < width:
                v = torch.randn(c, h, w) if self.value == "random" else torch.tensor(
                    self.value, dtype=torch.float32).reshape(-1, 1, 1)
                return F.erase(img, int(torch.randint(0, height - h + 1, (1,))),
                               int(torch.randint(0, width - w + 1, (1,))), h, w, v, self.inplace)
        return img


class RandomApply(nn.Module):
    """Transforms, with probability p."""

    def __init__(self, transforms, p=0.5):
        super().__init__()
        self.transforms, self.p = transforms, p

    def forward(self, img):
        if chance(self.p):
            for transform in self.transforms:
                img = transform(img)
        return img


class RandomChoice(Compose):
    """One of several transforms."""

    def __init__(self, transforms, p=None):
        super().__init__(transforms)
        self.p = p

    def __call__(self, img):
        return random.choices(self.transforms, weights=self.p)[0](img)


class RandomOrder(Compose):
    """Transforms in random order."""

    def __call__(self, img):
        for k in torch.randperm(len(self.transforms)).tolist():
            img = self.transforms[k](img)
        return img
