"""make_tensor."""
from __future__ import annotations

import rushlight as torch


def make_tensor(*shape, dtype, device=None, low=None, high=None, requires_grad=False, noncontiguous=False,
                exclude_zero=False, memory_format=None):
    """A tensor of random values, uniform in [low, high): by default [-9, 9) for floats, [-9, 10) for integers, [0, 2)
    for bool.

    >>> import rushlight as torch
    >>> torch.testing.make_tensor(2, 3, dtype=torch.float32).shape
    torch.Size([2, 3])
    """
    if noncontiguous and memory_format is not None:
        raise ValueError("The parameters `noncontiguous` and `memory_format` are mutually exclusive, but got "
                         f"noncontiguous={noncontiguous} and memory_format={memory_format}")
    if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
        shape = tuple(shape[0])
    wide = (*shape[:-1], shape[-1] * 2) if noncontiguous and shape else shape
    if dtype is torch.bool:
        made = torch.randint(0, 2, wide).bool()
    elif dtype.is_floating_point or dtype.is_complex:
        low, high = -9 if low is None else low, 9 if high is None else high
        real = dtype.to_real() if dtype.to_real().itemsize > 1 else torch.float32  # float8 values are rounded
        made = torch.rand(wide, dtype=real) * (high - low) + low
        made = torch.complex(made, torch.rand(wide, dtype=real) * (high - low) + low) if dtype.is_complex else made
        made = made.to(dtype)
    else:
        low = (0 if dtype is torch.uint8 else -9) if low is None else low
        made = torch.randint(int(low), int(10 if high is None else high), wide, dtype=dtype)
    made = made if device is None else made.to(device)
    if noncontiguous and shape:
        made = made[..., ::2]
    if exclude_zero:
        made = torch.where(made == 0, torch.ones((), dtype=dtype, device=made.device), made)
    made = made if memory_format is None else made.clone(memory_format=memory_format)
    return made.requires_grad_(requires_grad)
