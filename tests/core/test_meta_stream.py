"""What is made on the device without data draws nothing from the processor's stream."""
import pytest

import rushlight as torch


@pytest.mark.parametrize("make", [lambda: torch.nn.Linear(3, 3), lambda: torch.rand(3), lambda: torch.randperm(4),
                                  lambda: torch.nn.init.normal_(torch.empty(3))])
def test_numbers_go_on_as_if_nothing_had_been_drawn(make):
    torch.manual_seed(0)
    expected = torch.rand(2)
    torch.manual_seed(0)
    with torch.device("meta"):
        assert make() is not None
    assert torch.equal(torch.rand(2), expected)
