"""Functions and modules as one operator, without capture: their bodies are traced."""
import inspect

from rushlight._src.core.op import make

ANY = inspect.Signature([inspect.Parameter("values", inspect.Parameter.VAR_POSITIONAL)])


def whole(function, name="program"):
    """A function of tensors as one operator."""
    return make(name, function, None, ANY)


def whole_module(module):
    """A module's forward as one operator, called with its parameters and buffers."""
    tensors = dict(module.named_parameters()) | dict(module.named_buffers())
    homes = [(module.get_submodule(path.rpartition(".")[0]), path.rpartition(".")[2]) for path in tensors]

    def put(values):
        for (owner, key), value in zip(homes, values):
            (owner._parameters if key in owner._parameters else owner._buffers)[key] = value

    def body(*values):
        try:
            put(values)
            return module(*values[len(homes):])
        finally:
            put(tensors.values())

    operator = whole(body, type(module).__name__)
    return lambda *inputs: operator(*tensors.values(), *inputs)
