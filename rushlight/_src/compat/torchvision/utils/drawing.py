"""Draw boxes, masks and keypoints with Pillow."""
from __future__ import annotations

import math
import warnings

import numpy as np

import rushlight as torch

STEPS = (2**25 - 1, 2**15 - 1, 2**21 - 1)  # between the colours of one object and the next


def checked(image, channels, wrong, kind="The image must be a tensor, got"):
    """TypeError for other objects than tensors; ValueError unless uint8 or float [c, h, w] with c in ``channels``."""
    if not isinstance(image, torch.Tensor):
        raise TypeError(f"{kind} {type(image)}")
    if not (image.dtype == torch.uint8 or image.is_floating_point()):
        raise ValueError(f"The image dtype must be uint8 or float, got {image.dtype}")
    if image.dim() != 3:
        raise ValueError("Pass individual images, not batches")
    if image.shape[0] not in channels:
        raise ValueError(wrong)


def palette(colors, count):
    """Colors (red, green and blue from 0 to 255) of ``count`` objects: one for each, the same for all, or, for None, a
    generated palette."""
    from PIL import ImageColor

    if colors is None:
        colors = [tuple(k * step % 255 for step in STEPS) for k in range(count)]
    elif isinstance(colors, list):
        if len(colors) < count:
            raise ValueError(
                "Number of colors must be equal or larger than the number of objects, but got "
                f"{len(colors)} < {count}.")
    elif not isinstance(colors, (tuple, str)):
        raise ValueError(f"colors must be a tuple or a string, or a list thereof, but got {colors}.")
    elif isinstance(colors, tuple) and len(colors) != 3:
        raise ValueError(f"If passed as tuple, colors should be an RGB triplet, but got {colors}.")
    else:
        colors = [colors] * count
    return [ImageColor.getrgb(color) if isinstance(color, str) else tuple(color) for color in colors]


def picture(image):
    """Convert an image tensor to an RGB Pillow image; floats are from 0 to 1."""
    from PIL import Image

    image = image.detach()
    if image.is_floating_point():
        image = (image * (256 - 1e-3)).to(torch.uint8)
    return Image.fromarray(image.expand(3, *image.shape[1:]).permute(1, 2, 0).contiguous().numpy())


def tensor_of(drawn, dtype):
    """Convert a Pillow image to [3, h, w] of a dtype."""
    values = torch.from_numpy(np.array(drawn)).permute(2, 0, 1).contiguous()
    return values.to(dtype) / 255 if dtype.is_floating_point else values


def letters(font, size):
    from PIL import ImageFont

    if font is not None:
        return ImageFont.truetype(font=font, size=size or 10)
    if size is not None:
        warnings.warn("Argument 'font_size' will be ignored since 'font' is not set.", stacklevel=3)
    return ImageFont.load_default()


def write(draw, at, label, color, behind, font):
    """Draw a label, on a rectangle of the color ``behind`` if there is one."""
    if behind is not None:
        left, top, right, bottom = draw.textbbox(at, label, font=font)
        draw.rectangle((left - 1, top - 1, right + 1, bottom + 1), fill=behind)
    draw.text(at, label, fill=color, font=font)


def outlined(draw, box, color, width, fill):
    """Draw a rectangle (left, top, right, bottom), or a box of four corners."""
    inside = (*color, 100) if fill else None
    if len(box) == 4:
        draw.rectangle(box, width=width, outline=color, fill=inside)
    else:
        corners = list(zip(box[0::2], box[1::2]))
        dashes(draw, corners[0], corners[1], color, width)  # the side that was on top
        for start, end in zip(corners[1:], corners[2:] + corners[:1]):
            draw.line((start, end), fill=color, width=width)
        draw.polygon(corners, fill=inside, outline=None, width=0)


def dashes(draw, start, end, color, width, length=5):
    """Draw every other segment of length ``length`` of a line."""
    whole = math.dist(start, end)
    for begin in np.arange(0, whole, 2 * length):
        ends = [tuple(a + (b - a) * at / whole for a, b in zip(start, end))
                for at in (begin, min(begin + length, whole))]
        draw.line(ends, fill=color, width=width)


@torch.no_grad()
def draw_bounding_boxes(image, boxes, labels=None, colors=None, fill=False, width=1, font=None, font_size=None,
                        label_colors=None, label_background_colors=None,
                        fill_labels=False):
    """Draw boxes [n, 4] (left, top, right, bottom) or [n, 8] (four corners) into an image, uint8 or float [1 or 3, h,
    w]: [3, h, w].

    TypeError for other objects than tensors; ValueError for other shapes and dtypes, for boxes with swapped corners,
    and for fewer labels or colors than boxes.
    """
    from PIL import ImageDraw

    checked(image, (1, 3), "Only grayscale and RGB images are supported", "Tensor expected, got")
    if boxes.shape[-1] == 4 and ((boxes[:, 0] > boxes[:, 2]).any() or (boxes[:, 1] > boxes[:, 3]).any()):
        raise ValueError(
            "Boxes need to be in (xmin, ymin, xmax, ymax) format. Use torchvision.ops.box_convert to convert them")
    count = len(boxes)
    if not count:
        warnings.warn("boxes doesn't contain any box. No box was drawn", stacklevel=2)
        return image
    if labels is not None and len(labels) != count:
        raise ValueError(
            f"Number of boxes ({count}) and labels ({len(labels)}) mismatch. Please specify labels for each box.")
    own = palette(colors, count)
    written = palette(label_colors or "black", count) if label_colors or fill_labels else own
    behind = palette(label_background_colors,
                     count) if fill_labels and label_background_colors else own if fill_labels else [None] * count
    drawn, text = picture(image), letters(font, font_size)
    draw = ImageDraw.Draw(drawn, "RGBA") if fill else ImageDraw.Draw(drawn)
    for k, box in enumerate(boxes.to(torch.int64).tolist()):
        outlined(draw, box, own[k], width, fill)
        if labels is not None and labels[k] is not None:
            write(draw, (box[0] + width + 1, box[1] + width + 1), labels[k], written[k], behind[k], text)
    return tensor_of(drawn, image.dtype)


@torch.no_grad()
def draw_segmentation_masks(image, masks, alpha=0.8, colors=None):
    """Draw colored masks, bool [n, h, w] or [h, w], over an image, uint8 or float [3, h, w]; ``alpha`` 0 shows only the
    image, 1 only the masks.  Overlaps of masks are black.  TypeError and ValueError as ``draw_bounding_boxes``."""
    checked(image, (3,), "Pass an RGB image. Other Image formats are not supported")
    masks = masks[None] if masks.dim() == 2 else masks
    if masks.dim() != 3:
        raise ValueError("masks must be of shape (H, W) or (batch_size, H, W)")
    if masks.dtype != torch.bool:
        raise ValueError(f"The masks must be of dtype bool. Got {masks.dtype}")
    if masks.shape[-2:] != image.shape[-2:]:
        raise ValueError("The image and the masks must have the same height and width")
    if not len(masks):
        warnings.warn("masks doesn't contain any mask. No mask was drawn", stacklevel=2)
        return image
    whole = 255 if image.is_floating_point() else 1
    over = image.detach()
    for mask, color in zip(masks, palette(colors, len(masks))):
        over = torch.where(mask, torch.tensor(color, dtype=torch.float32).div(whole).to(image.dtype)[:, None, None],
                           over)
    over = over.masked_fill(masks.sum(0) > 1, 0)
    return (image * (1 - alpha) + over * alpha).to(image.dtype)


def seen_points(keypoints, visibility):
    """True for each of [n, k] points that is drawn.  ValueError for other shapes."""
    if keypoints.dim() != 3:
        raise ValueError("keypoints must be of shape (num_instances, K, 2)")
    if visibility is None:
        return torch.ones(keypoints.shape[:-1], dtype=torch.bool)
    visibility = visibility.squeeze(-1) if visibility.dim() == 3 else visibility
    if visibility.dim() != 2:
        raise ValueError(f"visibility must be of shape (num_instances, K). Got ndim={visibility.dim()}")
    if visibility.shape != keypoints.shape[:-1]:
        raise ValueError(
            "keypoints and visibility must have the same dimensionality for num_instances and K. Got "
            f"{visibility.shape} and {keypoints.shape}")
    return visibility.bool()


@torch.no_grad()
def draw_keypoints(image, keypoints, connectivity=None, colors=None, radius=2, width=3, visibility=None):
    """Draw points [n, k, 2] (column, row) of n objects, and lines between those that ``connectivity`` pairs, into an
    image, uint8 or float [3, h, w].

    Points whose ``visibility`` [n, k] is False, and their lines, are omitted.  TypeError and ValueError as
    ``draw_bounding_boxes``.
    """
    from PIL import ImageDraw

    checked(image, (3,), "Pass an RGB image. Other Image formats are not supported")
    seen = seen_points(keypoints, visibility).tolist()
    drawn = picture(image)
    draw = ImageDraw.Draw(drawn)
    for points, shown in zip(keypoints.to(torch.int64).tolist(), seen):
        for (x, y), there in zip(points, shown):
            if there:
                draw.ellipse([x - radius, y - radius, x + radius, y + radius], fill=colors, outline=None, width=0)
        for a, b in connectivity or ():
            if shown[a] and shown[b]:
                draw.line((*points[a], *points[b]), width=width)
    return tensor_of(drawn, image.dtype)
