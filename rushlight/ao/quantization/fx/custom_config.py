"""Custom configs: per-module options for preparing and converting a graph."""
from __future__ import annotations


class PrepareCustomConfig:
    """Lists of names and classes: standalone modules, quantized inputs and outputs, and preserved attributes.

    >>> PrepareCustomConfig().set_input_quantized_indexes([0]).input_quantized_indexes
    [0]
    """

    def __init__(self):
        self.standalone_module_names, self.standalone_module_classes = {}, {}
        self.float_to_observed_mapping: dict = {}
        self.non_traceable_module_names, self.non_traceable_module_classes = [], []
        self.input_quantized_indexes, self.output_quantized_indexes, self.preserved_attributes = [], [], []

    def set_input_quantized_indexes(self, indexes):
        self.input_quantized_indexes = indexes
        return self

    def set_output_quantized_indexes(self, indexes):
        self.output_quantized_indexes = indexes
        return self

    def set_preserved_attributes(self, attributes):
        self.preserved_attributes = attributes
        return self

    def set_non_traceable_module_names(self, module_names):
        self.non_traceable_module_names = module_names
        return self

    def set_non_traceable_module_classes(self, module_classes):
        self.non_traceable_module_classes = module_classes
        return self


class ConvertCustomConfig:
    """Attributes that are preserved when a graph is converted.

    >>> ConvertCustomConfig().set_preserved_attributes(["version"]).preserved_attributes
    ['version']
    """

    def __init__(self):
        self.observed_to_quantized_mapping, self.preserved_attributes = {}, []

    def set_preserved_attributes(self, attributes):
        self.preserved_attributes = attributes
        return self
