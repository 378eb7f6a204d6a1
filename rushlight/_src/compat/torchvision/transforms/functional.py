"""Functions on images: PIL images stay PIL images, tensors [*, c, h, w] stay tensors."""
from __future__ import annotations

import enum
import math
import numbers

import numpy as np

import rushlight as torch

F = torch.nn.functional


class InterpolationMode(enum.Enum):
    """Interpolation between pixels."""

    NEAREST, NEAREST_EXACT, BILINEAR, BICUBIC, BOX, HAMMING, LANCZOS = ("nearest", "nearest-exact", "bilinear",
                                                                        "bicubic", "box", "hamming", "lanczos")


PIL_MODES = {InterpolationMode.NEAREST: 0, InterpolationMode.NEAREST_EXACT: 0, InterpolationMode.LANCZOS: 1,
             InterpolationMode.BILINEAR: 2, InterpolationMode.BICUBIC: 3,
             InterpolationMode.BOX: 4, InterpolationMode.HAMMING: 5}
pil_modes_mapping = PIL_MODES


def is_tensor(img) -> bool:
    return isinstance(img, torch.Tensor)


def get_dimensions(img) -> list:
    """Channels, height, width."""
    if is_tensor(img):
        return [1 if img.ndim == 2 else img.shape[-3], *img.shape[-2:]]
    return [len(img.getbands()), img.height, img.width]


def get_image_size(img) -> list:
    """Width, height."""
    return get_dimensions(img)[:0:-1]


def get_image_num_channels(img) -> int:
    return get_dimensions(img)[0]


def pil_to_tensor(pic):
    """A PIL image as uint8 [c, h, w]."""
    array = np.array(pic, copy=True)
    array = array.astype(np.uint8) if array.dtype == bool else array
    return torch.from_numpy(array if array.ndim == 3 else array[:, :, None]).permute(2, 0, 1).contiguous()


def to_tensor(pic):
    """Convert a PIL image or array [h, w, c] to float [c, h, w]; uint8 is scaled to [0, 1].  TypeError for anything
    else."""
    if isinstance(pic, np.ndarray):
        made = torch.from_numpy(np.ascontiguousarray((pic if pic.ndim == 3 else pic[:, :, None]).transpose(2, 0, 1)))
    elif hasattr(pic, "getbands"):
        made = pil_to_tensor(pic)
    else:
        raise TypeError(f"pic should be PIL Image or ndarray. Got {type(pic)}")
    return made.to(torch.get_default_dtype()).div(255) if made.dtype is torch.uint8 else made


def to_pil_image(pic, mode=None):
    """A tensor [c, h, w] or array [h, w, c] as a PIL image."""
    from PIL import Image
    if is_tensor(pic):
        pic = pic.mul(255).byte() if pic.is_floating_point() else pic
        pic = (pic if pic.ndim == 3 else pic[None]).permute(1, 2, 0).numpy()
    return Image.fromarray(np.ascontiguousarray(pic[:, :, 0] if pic.ndim == 3 and pic.shape[2] == 1 else pic),
                           mode=mode)


def convert_image_dtype(image, dtype=torch.float32):
    """Convert pixels to another dtype: floats in [0, 1], integers over their full range."""
    if image.dtype is dtype:
        return image
    if image.is_floating_point():
        return image.to(dtype) if dtype.is_floating_point else image.mul(torch.iinfo(dtype).max + 1.0 - 1e-3).to(dtype)
    if dtype.is_floating_point:
        return image.to(dtype) / torch.iinfo(image.dtype).max
    shift = (torch.iinfo(dtype).max + 1) // (torch.iinfo(image.dtype).max + 1)
    return image.to(dtype) * shift if shift else image.div((torch.iinfo(image.dtype).max + 1)
                                                           // (torch.iinfo(dtype).max + 1),
                                                           rounding_mode="floor").to(dtype)


def normalize(tensor, mean, std, inplace=False):
    """(tensor - mean) / std for each channel.  ValueError for a standard deviation of 0, TypeError for other objects
    than tensors."""
    if not is_tensor(tensor):
        raise TypeError(f"img should be Tensor Image. Got {type(tensor)}")
    if not tensor.is_floating_point():
        raise TypeError(f"Input tensor should be a float tensor. Got {tensor.dtype}.")
    mean, std = (torch.as_tensor(v, dtype=tensor.dtype) for v in (mean, std))
    if bool((std == 0).any()):
        raise ValueError(f"std evaluated to zero after conversion to {tensor.dtype}, leading to division by zero.")
    tensor = tensor if inplace else tensor.clone()
    return tensor.sub_(mean.view(-1, 1, 1)).div_(std.view(-1, 1, 1))


def resized(size, height, width, max_size=None):
    """Return the height and width for ``size`` (one number: of the shorter side) of an image."""
    if isinstance(size, numbers.Number):
        size = [int(size)]
    if len(size) == 2:
        return list(size)
    short, long = min(height, width), max(height, width)
    new_short, new_long = size[0], int(size[0] * long / short)
    if max_size is not None and new_long > max_size:
        new_short, new_long = int(max_size * new_short / new_long), max_size
    return [new_long, new_short] if height >= width else [new_short, new_long]


def resize(img, size, interpolation=InterpolationMode.BILINEAR, max_size=None, antialias=True):
    """Resize an image (one number: the shorter side; else height and width)."""
    _, height, width = get_dimensions(img)
    new = resized(size, height, width, max_size)
    if not is_tensor(img):
        return img.resize(new[::-1], PIL_MODES[interpolation])
    if new == [height, width]:
        return img
    smooth = interpolation in (InterpolationMode.BILINEAR, InterpolationMode.BICUBIC)
    whole = img.reshape(-1, *img.shape[-3:]).float()
    out = F.interpolate(whole, size=new, mode=interpolation.value, align_corners=False if smooth else None,
                        antialias=bool(antialias and smooth))
    if not img.is_floating_point():
        out = out.round().clamp(0, 255) if interpolation is InterpolationMode.BICUBIC else out.round()
    return out.to(img.dtype).reshape(*img.shape[:-2], *new)


def pad(img, padding, fill=0, padding_mode="constant"):
    """Pad an image with a border: one number, two (left and right, top and bottom) or four."""
    padding = [padding] if isinstance(padding, numbers.Number) else list(padding)
    left, top, right, bottom = padding * 4 if len(padding) == 1 else padding * 2 if len(padding) == 2 else padding
    if is_tensor(img):
        mode = {"edge": "replicate", "symmetric": "reflect"}.get(padding_mode, padding_mode)
        if mode == "constant":
            return F.pad(img, [left, right, top, bottom], value=fill)
        return F.pad(img.reshape(-1, *img.shape[-3:]), [left, right, top, bottom],
                     mode=mode).reshape(*img.shape[:-2], img.shape[-2] + top + bottom, img.shape[-1] + left + right)
    array, mode = np.array(img), {"constant": "constant", "edge": "edge", "reflect": "reflect",
                                  "symmetric": "symmetric"}[padding_mode]
    given = {"constant_values": fill} if mode == "constant" else {}
    widths = ((top, bottom), (left, right)) + ((0, 0),) * (array.ndim - 2)
    return to_pil_image(np.pad(array, widths, mode=mode, **given))


def crop(img, top, left, height, width):
    """Crop an image; elements outside are 0."""
    if not is_tensor(img):
        return img.crop((left, top, left + width, top + height))
    h, w = img.shape[-2:]
    if left < 0 or top < 0 or left + width > w or top + height > h:
        img = F.pad(img, [max(-left, 0), max(left + width - w, 0), max(-top, 0), max(top + height - h, 0)])
        top, left = max(top, 0), max(left, 0)
    return img[..., top:top + height, left:left + width]


def pair(size):
    return [int(size)] * 2 if isinstance(size, numbers.Number) else [size[0]] * 2 if len(size) == 1 else list(size)


def center_crop(img, output_size):
    """Crop the center of an image, padded if it is smaller."""
    height, width = pair(output_size)
    _, h, w = get_dimensions(img)
    if width > w or height > h:
        img = pad(img, [(width - w) // 2 if width > w else 0, (height - h) // 2 if height > h else 0,
                        (width - w + 1) // 2 if width > w else 0, (height - h + 1) // 2 if height > h else 0])
        _, h, w = get_dimensions(img)
    return crop(img, round((h - height) / 2.0), round((w - width) / 2.0), height, width)


def resized_crop(img, top, left, height, width, size, interpolation=InterpolationMode.BILINEAR, antialias=True):
    """Crop an image and resize the result."""
    return resize(crop(img, top, left, height, width), size, interpolation, antialias=antialias)


def five_crop(img, size):
    """The four corners and the center."""
    height, width = pair(size)
    _, h, w = get_dimensions(img)
    return (crop(img, 0, 0, height, width), crop(img, 0, w - width, height, width),
            crop(img, h - height, 0, height, width), crop(img, h - height, w - width, height, width),
            center_crop(img, [height, width]))


def hflip(img):
    """Flip horizontally."""
    return img.flip(-1) if is_tensor(img) else img.transpose(0)


def vflip(img):
    """Flip vertically."""
    return img.flip(-2) if is_tensor(img) else img.transpose(1)


def as_floats(function):
    """Make a function of float tensors in [0, bound] accept PIL images and uint8 tensors too."""
    import functools

    @functools.wraps(function)
    def run(img, *args, **kwargs):
        if not is_tensor(img):
            return to_pil_image(run(pil_to_tensor(img), *args, **kwargs))
        bound = 1.0 if img.is_floating_point() else 255.0
        out = function(img.float() / bound, *args, **kwargs) * bound
        return (out if img.is_floating_point() else out.clamp(0, 255)).to(img.dtype)
    return run


def gray(img):
    red, green, blue = img.unbind(-3)
    return (0.2989 * red + 0.587 * green + 0.114 * blue).unsqueeze(-3)


def blend(a, b, ratio):
    return (ratio * a + (1 - ratio) * b).clamp(0, 1)


@as_floats
def adjust_brightness(img, brightness_factor):
    return blend(img, torch.zeros_like(img), brightness_factor)


@as_floats
def adjust_contrast(img, contrast_factor):
    return blend(img, gray(img).mean((-3, -2, -1), keepdim=True), contrast_factor)


@as_floats
def adjust_saturation(img, saturation_factor):
    return blend(img, gray(img), saturation_factor)


@as_floats
def rgb_to_grayscale(img, num_output_channels=1):
    """Weighted mean of the colors by luminance."""
    return gray(img).expand(*img.shape[:-3], num_output_channels, *img.shape[-2:])


to_grayscale = rgb_to_grayscale


@as_floats
def gaussian_blur(img, kernel_size, sigma=None):
    """Convolution with a Gaussian."""
    sizes = pair(kernel_size)
    sigmas = [0.3 * ((k - 1) * 0.5 - 1) + 0.8
              for k in sizes] if sigma is None else [float(s) for s in (sigma if isinstance(sigma, (list, tuple))
                                                                        else [sigma])]
    sigmas = sigmas * 2 if len(sigmas) == 1 else sigmas
    axes = [torch.exp(-0.5 * (torch.linspace(-(k - 1) / 2, (k - 1) / 2, k) / s) ** 2) for k, s in zip(sizes, sigmas)]
    kernel = torch.outer(axes[1] / axes[1].sum(), axes[0] / axes[0].sum())
    whole = img.reshape(-1, 1, *img.shape[-2:])
    padded = F.pad(whole, [sizes[0] // 2] * 2 + [sizes[1] // 2] * 2, mode="reflect")
    return F.conv2d(padded, kernel[None, None]).reshape(img.shape)


def rotate(img, angle, interpolation=InterpolationMode.NEAREST, expand=False, center=None, fill=0):
    """Rotate an image counterclockwise by an angle in degrees."""
    if not is_tensor(img):
        return img.rotate(angle, PIL_MODES[interpolation], expand, center, fillcolor=fill)
    if expand or center is not None:
        raise NotImplementedError(
            "rotate() of tensors keeps their size and turns around the middle: expand and center are not supported")
    h, w = img.shape[-2:]
    turn = math.radians(angle)
    matrix = torch.tensor([[math.cos(turn), -math.sin(turn) * h / w, 0.0],
                           [math.sin(turn) * w / h, math.cos(turn), 0.0]])
    whole = img.reshape(-1, *img.shape[-3:]).float()
    grid = F.affine_grid(matrix.expand(len(whole), 2, 3), list(whole.shape), align_corners=False)
    out = F.grid_sample(whole, grid, mode=interpolation.value, align_corners=False)
    return (out if img.is_floating_point() else out.round()).to(img.dtype).reshape(img.shape)


def erase(img, i, j, h, w, v, inplace=False):
    """Replace a rectangle by a value."""
    img = img if inplace else img.clone()
    img[..., i:i + h, j:j + w] = v
    return img
