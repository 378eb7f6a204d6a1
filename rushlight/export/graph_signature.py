"""Kinds of inputs and outputs of an exported graph."""
from __future__ import annotations

import dataclasses
import enum
from typing import Any, Optional


class InputKind(enum.Enum):
    USER_INPUT = 1
    PARAMETER = 2
    BUFFER = 3
    CONSTANT_TENSOR = 4
    CUSTOM_OBJ = 5
    TOKEN = 6


class OutputKind(enum.Enum):
    USER_OUTPUT = 1
    LOSS_OUTPUT = 2
    BUFFER_MUTATION = 3
    PARAMETER_MUTATION = 4
    GRADIENT_TO_PARAMETER = 5
    GRADIENT_TO_USER_INPUT = 6
    USER_INPUT_MUTATION = 7
    TOKEN = 8


@dataclasses.dataclass
class TensorArgument:
    """A tensor, by the name of its node."""

    name: str


@dataclasses.dataclass
class SymIntArgument:
    """A size, by the name of its node."""

    name: str


@dataclasses.dataclass
class SymFloatArgument:
    """A number that sizes make, by the name of its node."""

    name: str


@dataclasses.dataclass
class SymBoolArgument:
    """Whether something holds of sizes, by the name of its node."""

    name: str


@dataclasses.dataclass
class TokenArgument:
    """An effect token, which orders calls with effects, by the name of its node."""

    name: str


@dataclasses.dataclass
class CustomObjArgument:
    """An object of a class of the user's, by the name of its node; ``class_fqn`` is the class."""

    name: str
    class_fqn: str
    fake_val: Any = None


@dataclasses.dataclass
class ExportBackwardSignature:
    """Of a graph with its backward pass: which outputs are gradients of what, and which the loss is."""

    gradients_to_parameters: dict
    gradients_to_user_inputs: dict
    loss_output: str


@dataclasses.dataclass
class ConstantArgument:
    """A value that is fixed."""

    name: str
    value: Any


def named(argument):
    """The name of a node, or the value that is fixed."""
    return argument.value if isinstance(argument, ConstantArgument) else argument.name


@dataclasses.dataclass
class InputSpec:
    """One input: what it is, its node, and the name of the parameter, buffer or constant that it stands for."""

    kind: InputKind
    arg: Any
    target: Optional[str] = None
    persistent: Optional[bool] = None


@dataclasses.dataclass
class OutputSpec:
    """One output: what it is, and its node."""

    kind: OutputKind
    arg: Any
    target: Optional[str] = None


def told(spec) -> str:
    """An input or output in words: its name, its kind, and what it stands for."""
    target = "" if spec.target is None else f" target={spec.target!r}"
    persistent = getattr(spec, "persistent", None)
    return f"{spec.arg.name}: {spec.kind.name}{target}" + ("" if persistent is None else f" persistent={persistent}")


@dataclasses.dataclass
class ExportGraphSignature:
    """``input_specs`` and ``output_specs``, in the order of the graph's placeholders and results."""

    input_specs: list
    output_specs: list

    def __str__(self):
        inputs, outputs = ("\n".join(map(told, specs)) for specs in (self.input_specs, self.output_specs))
        return f"\n# inputs\n{inputs}\n\n# outputs\n{outputs}\n"

    def _targets(self, kind):
        return tuple(s.target for s in self.input_specs if s.kind is kind)

    def _names(self, kind):
        return {s.arg.name: s.target for s in self.input_specs if s.kind is kind}

    def _results(self, kind):
        return {s.arg.name: s.target for s in self.output_specs if s.kind is kind}

    parameters = property(lambda self: self._targets(InputKind.PARAMETER))
    buffers = property(lambda self: self._targets(InputKind.BUFFER))
    lifted_tensor_constants = property(lambda self: self._targets(InputKind.CONSTANT_TENSOR))
    inputs_to_parameters = property(lambda self: self._names(InputKind.PARAMETER))
    inputs_to_buffers = property(lambda self: self._names(InputKind.BUFFER))
    inputs_to_lifted_tensor_constants = property(lambda self: self._names(InputKind.CONSTANT_TENSOR))
    non_persistent_buffers = property(lambda self: {s.target for s in self.input_specs if s.kind is InputKind.BUFFER
                                                    and s.persistent is False})
    user_inputs = property(lambda self: tuple(named(s.arg)
                                              for s in self.input_specs if s.kind is InputKind.USER_INPUT))
    user_outputs = property(lambda self: tuple(named(s.arg)
                                               for s in self.output_specs
                                               if s.kind in (OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT)))
    buffers_to_mutate = property(lambda self: self._results(OutputKind.BUFFER_MUTATION))
    parameters_to_mutate = property(lambda self: self._results(OutputKind.PARAMETER_MUTATION))
    user_inputs_to_mutate = property(lambda self: self._results(OutputKind.USER_INPUT_MUTATION))

    @property
    def backward_signature(self) -> Optional[ExportBackwardSignature]:
        """Return the parameters and inputs whose gradients the results are; None for a graph without its backward
        pass."""
        loss = next((s.arg.name for s in self.output_specs if s.kind is OutputKind.LOSS_OUTPUT), None)
        return None if loss is None else ExportBackwardSignature(
            self._results(OutputKind.GRADIENT_TO_PARAMETER), self._results(OutputKind.GRADIENT_TO_USER_INPUT), loss)
