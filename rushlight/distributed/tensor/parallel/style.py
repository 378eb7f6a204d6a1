"""Styles of tensor parallelism for a layer."""
from __future__ import annotations

import abc

import rushlight as torch

from .._api import DTensor, distribute_tensor
from .._modules import distribute_module
from ..placement_types import Placement, Replicate, Shard

__all__ = ["ParallelStyle", "RowwiseParallel", "SequenceParallel", "ColwiseParallel", "PrepareModuleInput",
           "PrepareModuleInputOutput", "PrepareModuleOutput"]


class ParallelStyle(abc.ABC):
    """Placements of a layer's parameters, inputs and outputs."""

    src_data_rank: int | None = 0

    @abc.abstractmethod
    def _apply(self, module, device_mesh): ...

    def hold(self, module, mesh, **placements):
        """Makes parameters DTensors, by name."""
        for name, parameter in list(module.named_parameters(recurse=False)):
            laid = distribute_tensor(parameter.detach(), mesh, [placements.get(name, Replicate())],
                                     src_data_rank=self.src_data_rank)
            module.register_parameter(name, torch.nn.Parameter(laid, parameter.requires_grad))


def entered(value, mesh, layout, desired):
    """Return a tensor as a DTensor, redistributed from its layout to the desired one."""
    if not isinstance(value, DTensor):
        value = DTensor.from_local(value, mesh, (layout,), run_check=False)
    return value.redistribute(mesh, (desired,)) if value.placements != (desired,) else value


def left(value, mesh, layout, local: bool):
    """Return a DTensor in the desired layout, or this process's part of it."""
    if isinstance(value, DTensor) and value.placements != (layout,):
        value = value.redistribute(mesh, (layout,))
    return value.to_local() if local and isinstance(value, DTensor) else value


class LayerParallel(ParallelStyle):
    """A layer with weights.  ``input_layouts``: placements of its input; ``output_layouts``: those of its output."""

    wanted: Placement
    given: Placement
    result: Placement

    def __init__(self, *, input_layouts=None, output_layouts=None, use_local_output: bool = True):
        self.input_layouts, self.output_layouts = (input_layouts or self.given,), (output_layouts or self.result,)
        self.use_local_output = use_local_output

    def weights(self, module) -> tuple:
        """({parameter: placement}, how the input is wanted).  NotImplementedError for other layers."""
        raise NotImplementedError

    def _apply(self, module, device_mesh):
        placements, desired = self.weights(module)

        def partition(name, submodule, mesh):
            self.hold(submodule, mesh, **placements)

        def before(mod, inputs, mesh):
            return (entered(inputs[0], mesh, self.input_layouts[0], desired), *inputs[1:])

        def after(mod, outputs, mesh):
            return left(outputs, mesh, self.output_layouts[0], self.use_local_output)

        return distribute_module(module, device_mesh, partition, before, after)



class ColwiseParallel(LayerParallel):
    """Shards the output features of a Linear, or the columns of an Embedding.  By default the input is replicated and
    the output sharded in the last dimension."""

    given, result = Replicate(), Shard(-1)

    def weights(self, module):
        if isinstance(module, torch.nn.Linear):
            return {"weight": Shard(0), "bias": Shard(0)}, Replicate()
        if isinstance(module, torch.nn.Embedding):
            return {"weight": Shard(1)}, Replicate()
        raise NotImplementedError("ColwiseParallel currently only support nn.Linear and nn.Embedding!")


class RowwiseParallel(LayerParallel):
    """Shards the input features of a Linear, or the rows of an Embedding.  By default the input is sharded in the last
    dimension and the output replicated."""

    given, result = Shard(-1), Replicate()

    def weights(self, module):
        if isinstance(module, torch.nn.Linear):
            return {"weight": Shard(1), "bias": Replicate()}, Shard(-1)
        if isinstance(module, torch.nn.Embedding):
            return {"weight": Shard(0)}, Replicate()
        raise NotImplementedError("RowwiseParallel currently only support nn.Linear and nn.Embedding!")


class SequenceParallel(ParallelStyle):
    """A layer with replicated weights, and an input that is sharded along the sequence."""

    def __init__(self, *, sequence_dim: int = 1, use_local_output: bool = False):
        self.sequence_sharding, self.use_local_output = (Shard(sequence_dim),), use_local_output

    def _apply(self, module, device_mesh):
        layout = self.sequence_sharding[0]

        def before(mod, inputs, mesh):
            value = inputs[0]
            if not isinstance(value, (DTensor, torch.Tensor)):
                raise ValueError(f"expecting input of {mod} to be a torch.Tensor or DTensor, but got {value}")
            return (entered(value, mesh, layout, layout), *inputs[1:])

        return distribute_module(module, device_mesh, lambda name, submodule, mesh: self.hold(submodule, mesh), before,
                                 lambda mod, outputs, mesh: outputs.to_local() if self.use_local_output else outputs)


def listed(layouts) -> tuple:
    return (layouts,) if isinstance(layouts, Placement) else tuple(layouts or ())


class PrepareModuleInputOutput(ParallelStyle):
    """Redistributes the inputs and outputs of a module to the desired layouts."""

    def __init__(self, *, input_layouts=None, desired_input_layouts=None, input_kwarg_layouts=None,
                 desired_input_kwarg_layouts=None, use_local_input: bool = False,
                 output_layouts=None, desired_output_layouts=None, use_local_output: bool = True):
        self.input_layouts, self.desired_input_layouts = listed(input_layouts), listed(desired_input_layouts)
        self.input_kwarg_layouts, self.desired_input_kwarg_layouts = (input_kwarg_layouts or {},
                                                                      desired_input_kwarg_layouts or {})
        self.output_layouts, self.desired_output_layouts = listed(output_layouts), listed(desired_output_layouts)
        self.use_local_input, self.use_local_output = use_local_input, use_local_output
        for kind, given, wanted in (("input", self.input_layouts, self.desired_input_layouts),
                                    ("output", self.output_layouts, self.desired_output_layouts)):
            if len(given) != len(wanted):
                raise AssertionError(f"{kind}_layouts and desired_{kind}_layouts should have same length!")
        if self.input_kwarg_layouts.keys() != self.desired_input_kwarg_layouts.keys():
            raise AssertionError("input_kwarg_layouts and desired_input_kwarg_layouts should have the same keys!")

    def one(self, value, mesh, layout, desired, local):
        if layout is None or not isinstance(value, torch.Tensor):
            return value
        found = entered(value, mesh, layout, desired if desired is not None else layout)
        return found.to_local() if local else found

    def several(self, values, mesh, given, wanted, local, what):
        if len(values) != len(given):
            raise ValueError(f"module {what} and {what}_layouts should have same length!")
        return tuple(self.one(v, mesh, a, b, local) for v, a, b in zip(values, given, wanted))

    def _apply(self, module, device_mesh):
        def before(mod, inputs, keywords):
            if self.input_layouts:
                inputs = self.several(inputs, device_mesh, self.input_layouts, self.desired_input_layouts,
                                      self.use_local_input, "inputs")
            return inputs, {k: self.one(v, device_mesh, self.input_kwarg_layouts.get(k),
                                        self.desired_input_kwarg_layouts.get(k), self.use_local_input)
                            for k, v in keywords.items()}

        def after(mod, inputs, outputs):
            values = outputs if isinstance(outputs, (tuple, list)) else (outputs,)
            found = self.several(values, device_mesh, self.output_layouts, self.desired_output_layouts,
                                 self.use_local_output, "outputs")
            return found if isinstance(outputs, (tuple, list)) else found[0]

        if self.input_layouts or self.input_kwarg_layouts:
            module.register_forward_pre_hook(before, with_kwargs=True)
        if self.output_layouts:
            module.register_forward_hook(after)
        return module


class PrepareModuleInput(PrepareModuleInputOutput):
    """Redistributes the inputs of a module to the desired layouts: plain tensors are parts, by ``input_layouts``.  None
    leaves an input unchanged."""

    def __init__(self, *, input_layouts=None, desired_input_layouts=None, input_kwarg_layouts=None,
                 desired_input_kwarg_layouts=None, use_local_output: bool = False):
        super().__init__(input_layouts=input_layouts, desired_input_layouts=desired_input_layouts,
                         input_kwarg_layouts=input_kwarg_layouts,
                         desired_input_kwarg_layouts=desired_input_kwarg_layouts, use_local_input=use_local_output)


class PrepareModuleOutput(PrepareModuleInputOutput):
    """Redistributes the outputs of a module to the desired layouts."""

    def __init__(self, *, output_layouts, desired_output_layouts, use_local_output: bool = True):
        super().__init__(output_layouts=output_layouts, desired_output_layouts=desired_output_layouts,
                         use_local_output=use_local_output)
