"""Operators on regions beside their definitions in plain loops; an installed torchvision, whose Python code runs on
them."""
import importlib.util
import math
import os
import subprocess
import sys

import numpy as np
import pytest

import rushlight as torch
from rushlight._src.compat.torchvision import extension, io, ops

torch.manual_seed(3)
IMAGES = torch.randn(2, 8, 9, 11)
ROIS = torch.tensor([[0, 0.6, 1.2, 7.3, 6.1], [1, -1.5, 2.0, 4.4, 12.0], [0, 3.0, 3.0, 3.2, 3.1],
                     [1, 2.2, 0.3, 10.9, 8.8]])


def bilinear(image, y, x):
    """One sample of [h, w]; 0 beyond one element outside."""
    h, w = image.shape
    if not (-1 <= y <= h and -1 <= x <= w):
        return 0.0
    y, x = max(y, 0.0), max(x, 0.0)
    y0, x0 = min(int(y), h - 1), min(int(x), w - 1)
    y1, x1 = min(y0 + 1, h - 1), min(x0 + 1, w - 1)
    y, x = (y0 if y0 == h - 1 else y), (x0 if x0 == w - 1 else x)
    fy, fx = y - y0, x - x0
    return (1 - fy) * ((1 - fx) * image[y0, x0] + fx * image[y0, x1]) + fy * ((1 - fx) * image[y1, x0]
                                                                              + fx * image[y1, x1])


def aligned(images, rois, cells, scale, ratio, aligned, by_position):
    rows, columns = cells
    offset = 0.5 if aligned else 0.0
    channels = images.shape[1] // (rows * columns if by_position else 1)
    out = np.zeros((len(rois), channels, rows, columns))
    for n, roi in enumerate(rois):
        left, top, right, bottom = roi[1:] * scale - offset
        high, wide = bottom - top, right - left
        if not aligned:
            high, wide = max(high, 1.0), max(wide, 1.0)
        down, across = (ratio, ratio) if ratio > 0 else (max(math.ceil(high / rows), 0),
                                                         max(math.ceil(wide / columns), 0))
        for c in range(channels):
            for i in range(rows):
                for j in range(columns):
                    image = images[int(roi[0]), (c * rows + i) * columns + j if by_position else c]
                    found = [bilinear(image, top + (i + (a + 0.5) / down) * high / rows,
                                      left + (j + (b + 0.5) / across) * wide / columns)
                             for a in range(down) for b in range(across)]
                    out[n, c, i, j] = np.mean(found) if found else 0
    return out


@pytest.mark.parametrize("how", [{}, {"sampling_ratio": 2}, {"aligned": True},
                                 {"spatial_scale": 0.5, "sampling_ratio": 3, "aligned": True}])
def test_roi_align(how):
    wanted = aligned(IMAGES.numpy(), ROIS.numpy(), (2, 3), how.get("spatial_scale", 1.0), how.get("sampling_ratio", -1),
                     how.get("aligned", False), False)
    assert np.allclose(ops.roi_align(IMAGES, ROIS, (2, 3), **how).numpy(), wanted, atol=1e-5)


def test_ps_roi_align():
    wanted = aligned(IMAGES.numpy(), ROIS.numpy(), (2, 2), 0.5, -1, True, True)
    assert np.allclose(ops.ps_roi_align(IMAGES, ROIS, 2, 0.5).numpy(), wanted, atol=1e-5)


def rounded(x):
    return math.floor(abs(x) + 0.5) * (1 if x >= 0 else -1)


def test_pools():
    images, rois = IMAGES.numpy(), ROIS.numpy()
    best, where, mean = np.zeros((4, 8, 3, 2)), -np.ones((4, 8, 3, 2), int), np.zeros((4, 2, 2, 2))
    for n, roi in enumerate(rois):
        left, top, right, bottom = map(rounded, roi[1:])
        high, wide = max(bottom - top + 1, 1), max(right - left + 1, 1)
        for i, j in np.ndindex(3, 2):
            rows = range(max(math.floor(i * high / 3) + top, 0), min(math.ceil((i + 1) * high / 3) + top, 9))
            columns = range(max(math.floor(j * wide / 2) + left, 0), min(math.ceil((j + 1) * wide / 2) + left, 11))
            for c in range(8 if rows and columns else 0):
                values = {r * 11 + k: images[int(roi[0]), c, r, k] for r in rows for k in columns}
                where[n, c, i, j] = max(values, key=values.get)
                best[n, c, i, j] = values[where[n, c, i, j]]
        high, wide = max(bottom + 1 - top, 0.1), max(right + 1 - left, 0.1)
        for c, i, j in np.ndindex(2, 2, 2):
            rows = slice(max(math.floor(i * high / 2 + top), 0), max(min(math.ceil((i + 1) * high / 2 + top), 9), 0))
            columns = slice(max(math.floor(j * wide / 2 + left), 0),
                            max(min(math.ceil((j + 1) * wide / 2 + left), 11), 0))
            part = images[int(roi[0]), (c * 2 + i) * 2 + j, rows, columns]
            mean[n, c, i, j] = part.mean() if part.size else 0
    found, places = extension.roi_pool(IMAGES, ROIS, 1.0, 3, 2)
    assert np.allclose(found.numpy(), best) and places.tolist() == where.tolist()
    assert np.allclose(ops.ps_roi_pool(IMAGES, ROIS, 2).numpy(), mean, atol=1e-5)


def test_deformed_convolutions():
    x, weight, bias = torch.randn(2, 4, 6, 5), torch.randn(6, 2, 3, 2), torch.randn(6)
    still = torch.zeros(2, 2 * 2 * 6, 6, 4)
    plain = torch.nn.functional.conv2d(x, weight, bias, 1, (1, 0), 1, 2)
    torch.testing.assert_close(ops.deform_conv2d(x, still, weight, bias, 1, (1, 0)), plain, rtol=1e-4, atol=1e-5)
    halved = ops.deform_conv2d(x, still, weight, bias, 1, (1, 0), mask=torch.full((2, 12, 6, 4), 0.5))
    torch.testing.assert_close(halved, (plain + bias[:, None, None]) / 2, rtol=1e-4, atol=1e-5)
    moved = torch.zeros(2, 2, 6, 6, 4, 2).permute(0, 1, 2, 5, 3, 4).reshape(2, 24, 6, 4)
    moved[:, 0::2] = 1.0  # every place one row further down
    lower = torch.nn.functional.conv2d(torch.nn.functional.pad(x, (0, 0, 0, 1))[:, :, 1:], weight, bias, 1, (1, 0), 1,
                                       2)
    torch.testing.assert_close(ops.deform_conv2d(x, moved, weight, bias, 1, (1, 0))[:, :, 1:-1], lower[:, :, 1:-1],
                               rtol=1e-4, atol=1e-5)
    with pytest.raises(RuntimeError, match="multiple"):
        ops.deform_conv2d(x, still[:, :3], weight, bias)


def test_gradients():
    images, rois = torch.randn(1, 4, 5, 5, dtype=torch.float64,
                               requires_grad=True), torch.tensor([[0, 0.3, 0.4, 3.6, 4.1]], dtype=torch.float64)
    for function in (lambda x: ops.roi_align(x, rois, 2, aligned=True), lambda x: ops.roi_pool(x, rois, 2),
                     lambda x: ops.ps_roi_align(x, rois, 2), lambda x: ops.ps_roi_pool(x, rois, 2)):
        assert torch.autograd.gradcheck(function, (images,))
    # between elements, where samples have slopes
    offset = (torch.rand(1, 18, 3, 3, dtype=torch.float64) * 0.6 + 0.2).requires_grad_()
    weight, mask = torch.randn(2, 4, 3, 3, dtype=torch.float64,
                               requires_grad=True), torch.rand(1, 9, 3, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, o, w, m: ops.deform_conv2d(x, o, w, mask=m),
                                    (images, offset, weight, mask))


def test_boxes_that_overlap():
    boxes = torch.rand(60, 4) * 10
    boxes[:, 2:] += boxes[:, :2]
    scores = torch.rand(60).mul(10).floor()  # ties keep their order
    overlaps = ops.box_iou(boxes, boxes) > 0.3
    kept = []
    for k in sorted(range(60), key=lambda k: -scores[k].item()):
        if not any(overlaps[k, j] for j in kept):
            kept.append(k)
    assert ops.nms(boxes, scores, 0.3).tolist() == kept
    assert ops.nms(boxes[:0], scores[:0], 0.5).tolist() == []
    with pytest.raises(RuntimeError, match="nms"):
        ops.nms(boxes, scores[:3], 0.5)


def test_images(tmp_path):
    pytest.importorskip("PIL")
    image = torch.randint(0, 256, (3, 12, 10), dtype=torch.uint8)
    io.write_png(image, tmp_path / "a.png")
    assert io.read_image(tmp_path / "a.png").tolist() == image.tolist() == io.decode_image(
        io.encode_png(image)).tolist()
    smooth = (torch.arange(12)[:, None] * 9 + torch.arange(10)).to(torch.uint8).expand(3, 12, 10)
    found = io.decode_jpeg(io.encode_jpeg(smooth, 95), "gray")
    assert found.shape == (1, 12, 10) and (found.int() - smooth[:1].int()).abs().max() < 8
    for error, call in ((RuntimeError, lambda: io.decode_image(torch.zeros(9, dtype=torch.uint8))),
                        (RuntimeError, lambda: io.encode_png(image.float())),
                        (ValueError, lambda: io.encode_jpeg(image, 0)),
                        (FileNotFoundError, lambda: io.read_image(tmp_path / "none.png"))):
        with pytest.raises(error):
            call()


SCRIPT = """
import torch, torchvision
from torchvision import ops, transforms
from torchvision.models import detection, resnet18
assert torchvision.__file__.endswith("__init__.py") and "rushlight" not in torchvision.__file__ and torchvision.extension._has_ops()
model = detection.fasterrcnn_mobilenet_v3_large_320_fpn(weights=None, weights_backbone=None, min_size=96, max_size=128)
targets = [{"boxes": torch.tensor([[8.0, 9, 60, 70], [20, 30, 90, 88]]), "labels": torch.tensor([1, 2])}]
losses = model([torch.rand(3, 100, 110)], targets)
sum(losses.values()).backward()
assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)
with torch.no_grad():
    assert set(model.eval()([torch.rand(3, 100, 110)])[0]) == {"boxes", "labels", "scores"}
assert ops.DeformConv2d(3, 2, 3)(torch.rand(1, 3, 6, 6), torch.rand(1, 18, 4, 4)).shape == (1, 2, 4, 4)
assert resnet18().eval()(torch.rand(1, 3, 40, 40)).shape == (1, 1000)
print("done")
"""


def test_an_installed_torchvision_runs(tmp_path):
    folder = os.environ.get("TORCHVISION", "")  # where pip install --no-deps --target has put it
    if not folder and importlib.util.find_spec("torchvision") is None:
        pytest.skip("torchvision is not installed")
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run([sys.executable, "-m", "rushlight", "script.py"], cwd=tmp_path, capture_output=True,
                          text=True,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in (folder, *sys.path) if p)})
    assert done.stdout.endswith("done\n"), done.stderr[-2000:]


def test_parts_of_a_network_by_their_results():
    from rushlight._src.compat.torchvision.models import resnet18
    from rushlight._src.compat.torchvision.models._utils import IntermediateLayerGetter, _make_divisible

    body, x = resnet18().eval(), torch.randn(1, 3, 64, 64)
    parts = IntermediateLayerGetter(body, {"layer1": "0", "layer3": "pool"})
    found = parts(x)
    assert list(parts) == ["conv1", "bn1", "relu", "maxpool", "layer1", "layer2", "layer3"]
    assert {name: tuple(y.shape) for name, y in found.items()} == {"0": (1, 64, 16, 16), "pool": (1, 256, 4, 4)}
    assert all(torch.equal(parts.state_dict()[name], body.state_dict()[name]) for name in parts.state_dict())
    with pytest.raises(ValueError, match="not present"):
        IntermediateLayerGetter(body, {"layer9": "0"})
    assert [_make_divisible(v, 8) for v in (3, 11, 12, 20, 33.6)] == [8, 16, 16, 24, 32]
