"""Grids, drawings and flows of the stand-in for torchvision, and what its operators say of boxes that lie apart."""
import io
import math

import numpy as np
import pytest

import rushlight as torch
from rushlight._src.compat.torchvision import ops, utils
from rushlight._src.compat.torchvision.utils import flows


def test_a_grid_has_every_image_at_its_place():
    images = torch.rand(5, 2, 3, 4)
    grid = utils.make_grid(images, nrow=2, padding=1, pad_value=7.0)
    assert grid.shape == (2, 3 * 4 + 1, 2 * 5 + 1)
    for k, image in enumerate(images):
        top, left = k // 2 * 4 + 1, k % 2 * 5 + 1
        assert torch.equal(grid[:, top:top + 3, left:left + 4], image)
    assert (grid == 7).sum() == grid.numel() - images.numel()
    assert torch.equal(utils.make_grid(images[:1]), images[0])
    assert utils.make_grid([images[0, :1], images[1, :1]]).shape == (3, 7, 14)
    each = utils.make_grid(images * 3 - 1, normalize=True, scale_each=True, padding=0)
    assert each.min() == 0 and each.max() == 1
    assert torch.allclose(utils.make_grid(images, normalize=True, value_range=(0.25, 0.5), padding=0)[:, :, :4],
                          (images[0].clamp(0.25, 0.5) - 0.25) * 4)
    for wrong in (3, [images[0], 3]):
        with pytest.raises(TypeError, match="tensor or list of tensors"):
            utils.make_grid(wrong)
    with pytest.raises(TypeError, match="value_range"):
        utils.make_grid(images, normalize=True, value_range=[0, 1])


def test_a_saved_image_is_read_again():
    image = pytest.importorskip("PIL.Image")
    file, values = io.BytesIO(), torch.rand(3, 6, 5)
    utils.save_image(values, file, format="png")
    assert np.array_equal(np.array(image.open(file)), (values.numpy() * 255 + 0.5).astype(np.uint8).transpose(1, 2, 0))


def test_boxes_masks_and_points_are_drawn():
    pytest.importorskip("PIL")
    image, boxes = torch.zeros(3, 20, 30, dtype=torch.uint8), torch.tensor([[2, 3, 12, 10]])
    drawn = utils.draw_bounding_boxes(image, boxes, colors="red")
    assert drawn[:, 3, 2:13].T.tolist() == [[255, 0, 0]] * 11 and drawn.sum() == 255 * 2 * (11 + 6)
    assert utils.draw_bounding_boxes(image.float(), boxes, colors=(255, 0, 0)).sum() == 2 * (11 + 6)
    assert utils.draw_bounding_boxes(image, boxes, labels=["a"], colors="white",
                                     fill=True)[:, 9, 11].tolist() == [100] * 3
    turned = utils.draw_bounding_boxes(image, torch.tensor([[5, 2, 25, 2, 25, 12, 5, 12]]), colors=(0, 9, 0))
    assert turned[1, 12, 5:26].tolist() == [9] * 21 and 0 < (turned[1, 2, 5:26] == 9).sum() < 21
    masks = torch.zeros(2, 20, 30, dtype=torch.bool)
    masks[0, :5], masks[1, 4:8] = True, True
    shown = utils.draw_segmentation_masks(image + 100, masks, alpha=0.5, colors=["red", (0, 200, 0)])
    assert shown[:, 0, 0].tolist() == [177, 50, 50] and shown[:, 6, 0].tolist() == [50, 150, 50] and shown[
        :, 4, 0].tolist() == [50] * 3 and shown[:, 9, 0].tolist() == [100] * 3
    points = torch.tensor([[[5, 5], [20, 5]]])
    assert utils.draw_keypoints(image, points, colors="blue", radius=1)[2, 5, 5] == 255
    assert not utils.draw_keypoints(image, points, [(0, 1)], visibility=torch.tensor([[True, False]]))[:, 5, 12:].any()
    for error, call in ((TypeError, lambda: utils.draw_bounding_boxes(3, boxes)),
                        (ValueError, lambda: utils.draw_bounding_boxes(image.int(), boxes)),
                        (ValueError, lambda: utils.draw_bounding_boxes(image, boxes.flip(1))),
                        (ValueError, lambda: utils.draw_bounding_boxes(image, boxes, labels=[])),
                        (ValueError, lambda: utils.draw_bounding_boxes(image, boxes, colors=[])),
                        (ValueError, lambda: utils.draw_segmentation_masks(image, masks.int())),
                        (ValueError, lambda: utils.draw_keypoints(image, points[0])),
                        (ValueError, lambda: utils.flow_to_image(image.float()))):
        with pytest.raises(error):
            call()


def test_flows_are_colours_of_directions():
    assert flows.wheel().shape == (55, 3) and len({tuple(row) for row in flows.wheel().tolist()}) == 55
    right, still = utils.flow_to_image(torch.tensor([[[1.0, 0]], [[0, 0]]])).permute(1, 2, 0)[0].tolist()
    assert still == [255] * 3 and right[0] == 255 and max(right[1:]) < 50  # to the right is red
    assert utils.flow_to_image(torch.randn(2, 2, 5, 4)).shape == (2, 3, 5, 4)


def test_boxes_that_lie_apart():
    boxes = torch.tensor([[0.0, 0, 2, 2], [4, 0, 6, 2], [0, 0, 2, 4]])
    found = ops.distance_box_iou(boxes, boxes)
    assert torch.allclose(found.diagonal(), torch.ones(3)) and torch.allclose(found[0, 1], torch.tensor(-16 / (36 + 4)))
    shape = 4 / math.pi**2 * (math.atan(1) - math.atan(0.5)) ** 2
    wanted = 0.5 - 1 / 20 - shape**2 / (0.5 + shape)
    assert torch.allclose(ops.complete_box_iou(boxes, boxes)[0, 2], torch.tensor(wanted))
    for pairwise, loss in ((ops.generalized_box_iou, ops.generalized_box_iou_loss),
                           (ops.distance_box_iou, ops.distance_box_iou_loss),
                           (ops.complete_box_iou, ops.complete_box_iou_loss)):
        other = boxes.roll(1, 0)
        assert torch.allclose(loss(boxes, other), 1 - pairwise(boxes, other).diagonal(), atol=1e-6)
        assert torch.allclose(loss(boxes, other, "mean") * 3, loss(boxes, other, "sum")) and loss(boxes[:0], boxes[:0],
                                                                                                  "mean") == 0
        with pytest.raises(ValueError, match="reduction"):
            loss(boxes, other, "most")


def test_regions_are_read_from_the_level_of_their_size():
    maps = {"0": torch.zeros(1, 1, 64, 64), "1": torch.ones(1, 1, 32, 32), "2": torch.full((1, 1, 16, 16), 2.0)}
    boxes = [torch.tensor([[0.0, 0, 200, 200], [0, 0, 110, 110], [10, 10, 40, 40]])]
    found = ops.MultiScaleRoIAlign(["0", "1", "2"], 2, 2)(maps, boxes, [(256, 256)])
    assert found.shape == (3, 1, 2, 2) and found.mean((1, 2, 3)).tolist() == [1.0, 0.0, 0.0]
    pyramid = ops.FeaturePyramidNetwork([1, 1, 1], 4)
    assert {k: tuple(v.shape[1:]) for k, v in pyramid(maps).items()} == {"0": (4, 64, 64), "1": (4, 32, 32),
                                                                         "2": (4, 16, 16)}
    assert sorted(pyramid.state_dict())[:2] == ["inner_blocks.0.0.bias", "inner_blocks.0.0.weight"]


def test_blocks_of_volumes_are_dropped():
    torch.manual_seed(2)
    dropped = ops.drop_block3d(torch.ones(2, 3, 9, 9, 9), 0.2, 3)
    share = (dropped == 0).float().mean()
    assert 0.05 < share < 0.4 and torch.allclose(dropped.mean(), torch.tensor(1.0), atol=1e-4)
    assert torch.equal(ops.DropBlock3d(0.2, 3).eval()(dropped), dropped)
