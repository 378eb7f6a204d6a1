"""``nn.functional.scaled_mm``: float8 matmuls with scaling recipes."""
from __future__ import annotations

import enum

from .._src.core.dtypes import bfloat16, float32
from .._src.core.errors import NotBuiltError
from .._src.core.op import OPS


class ScalingType(enum.Enum):
    """How far one number of a scale reaches."""

    TensorWise, RowWise, BlockWise1x16, BlockWise1x32, BlockWise1x128, BlockWise128x128 = range(6)


class SwizzleType(enum.Enum):
    """Memory layouts of block scales."""

    NO_SWIZZLE, SWIZZLE_32_4_4 = range(2)


def one(values, what: str):
    """The only value of a list, or the value."""
    if not isinstance(values, (list, tuple)):
        return values
    if len(values) != 1:
        raise NotBuiltError(f"scaled_mm(): {len(values)} levels of {what}: one is built")
    return values[0]


def check(name: str, scale, recipe, wanted: tuple):
    if scale.dtype is not float32:
        raise ValueError(f"{name} must have float32 elements, got {scale.dtype}")
    if recipe is ScalingType.TensorWise and scale.numel() != 1:
        raise ValueError(f"{name} must have 1 Float element, got {scale.numel()}")
    if recipe is ScalingType.RowWise and tuple(scale.shape) != wanted:
        raise ValueError(f"{name} must have the shape {list(wanted)} for RowWise scaling, got {list(scale.shape)}")


def scaled_mm(mat_a, mat_b, scale_a, scale_recipe_a, scale_b, scale_recipe_b, swizzle_a=None, swizzle_b=None, bias=None,
              output_dtype=bfloat16, contraction_dim=(), use_fast_accum=False):
    """(mat_a * scale_a) @ (mat_b * scale_b) + bias of float8 matrices: [m, k], [k, n] -> [m, n].

    Recipes: TensorWise (a number) for both, or RowWise (scale_a [m, 1], scale_b [1, n]) for both, in float32.
    ``output_dtype`` None is the dtype of ``mat_a``.  ValueError for scales that do not fit, NotBuiltError (a
    NotImplementedError) for scales of blocks.

    >>> import rushlight as torch
    >>> a, s = torch.ones(16, 16).to(torch.float8_e4m3fn), torch.tensor(0.5)
    >>> torch.nn.functional.scaled_mm(a, a.t(), s, ScalingType.TensorWise, s, ScalingType.TensorWise)[0, :2]
    tensor([4., 4.], dtype=torch.bfloat16)
    """
    recipes = one(scale_recipe_a, "scale_recipe_a"), one(scale_recipe_b, "scale_recipe_b")
    for recipe in recipes:
        if not isinstance(recipe, ScalingType):
            raise TypeError(f"a recipe of scaled_mm() is a ScalingType, not {type(recipe).__name__}")
        if recipe not in (ScalingType.TensorWise, ScalingType.RowWise):
            raise NotBuiltError(f"scaled_mm(): scales of the recipe {recipe.name} are not built: TensorWise and RowWise "
                                "are")
    if recipes[0] is not recipes[1]:
        raise ValueError(f"Invalid scaling configuration: {recipes[0].name} and {recipes[1].name}")
    for swizzle in (swizzle_a, swizzle_b):
        if one(swizzle, "swizzles") not in (None, SwizzleType.NO_SWIZZLE):
            raise ValueError("scales of these recipes are not swizzled")
    if tuple(contraction_dim) not in ((), (1, 0), (-1, -2), (1, -2), (-1, 0)):
        raise NotBuiltError(f"scaled_mm(): contraction_dim={contraction_dim}: the last of mat_a and the first of mat_b "
                            "are built")
    scale_a, scale_b = one(scale_a, "scale_a"), one(scale_b, "scale_b")
    check("scale_a", scale_a, recipes[0], (mat_a.shape[0], 1))
    check("scale_b", scale_b, recipes[1], (1, mat_b.shape[-1]))
    return OPS["_scaled_mm"](mat_a, mat_b, scale_a, scale_b, bias, out_dtype=output_dtype,
                             use_fast_accum=use_fast_accum)
