"""What a tensor is made of leaves its names to whoever subclasses it."""
import copy

import pytest
import rushlight as torch

NAMES = ("meta", "storage_", "step", "base", "offset", "output", "gradient", "hooks", "seen", "accumulator")


@pytest.mark.parametrize("name", NAMES)
def test_no_plain_tensor_has_the_name(name):
    assert not hasattr(torch.ones(2), name)


def test_a_subclass_with_attributes_of_its_own():
    class Image(torch.Tensor):
        def __new__(cls, data, **kept):
            made = torch.Tensor._make_subclass(cls, data)
            made.__dict__.update(kept)
            return made

    kept = {name: {"of": name} for name in NAMES}
    image = Image(torch.arange(4.0), **kept)
    image.output, image.step = 3, "two"
    copied = copy.deepcopy(image)
    assert torch.equal((image * 2).as_subclass(torch.Tensor), torch.tensor([0.0, 2.0, 4.0, 6.0]))
    assert copied.output == 3 and copied.step == "two" and copied.meta == {"of": "meta"} and copied.offset == {
        "of": "offset"}
    image.requires_grad_(True)
    (image * image).sum().backward()
    assert image.grad.tolist() == [0.0, 2.0, 4.0, 6.0]


def test_setting_a_plain_attribute_changes_no_value():
    x = torch.ones(3)
    x.meta, x.step, x.offset = {}, 1, None
    assert (x + 1).tolist() == [2.0, 2.0, 2.0]
