"""Samples into batches."""
from ..collate import default_collate, default_convert

default_collate_fn_map: dict = {}
__all__ = ["default_collate", "default_collate_fn_map", "default_convert"]
