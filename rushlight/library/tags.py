"""PyTorch's data on overloads: the tags of each, and whether it has a decomposition."""
from __future__ import annotations

import functools
import pathlib

from .._src.core.later import facade

OURS = ("composite", "decomposed")  # words of the table that are no tags


@functools.cache
def words() -> dict:
    """"add.Tensor" -> the words that are said of it."""
    lines = (pathlib.Path(__file__).parent / "tags.txt").read_text(encoding="utf-8").splitlines()
    return {name: tuple(rest) for name, *rest in map(str.split, lines)}


def key(name: str, label: str) -> str:
    return name if label == "default" else f"{name}.{label}"


def tags_of(name: str, label: str) -> list:
    """The members of ``torch.Tag`` that an overload of ``aten`` has."""
    found = [word for word in words().get(key(name, label), ()) if word not in OURS]
    return members_of([*found, "pt2_compliant_tag"])


def members_of(tags) -> list:
    """The members of ``torch.Tag`` among which some are given by name."""
    kinds = facade().Tag
    return [kinds[tag] if isinstance(tag, str) else tag for tag in tags]


def is_composite(name: str, label: str) -> bool:
    """Whether an overload is by its definition a program of others (CompositeImplicitAutograd)."""
    return "composite" in words().get(key(name, label), ())


def opened() -> list:
    """(name, label) of every overload that is written as simpler ones, unless a table keeps it."""
    found = (full.partition(".") for full, said in words().items() if not set(OURS).isdisjoint(said))
    return [(name, label or "default") for name, _, label in found]
