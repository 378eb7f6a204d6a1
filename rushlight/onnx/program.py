"""ONNXProgram: a model written as ONNX, and what it was made of."""

from __future__ import annotations

import os
from functools import partial

import numpy as np

from .._src.core.native import Tensor
from .._src.core.pytree import tree_flatten
from .complex_numbers import real_form
from .writer import library

MOST_INSIDE = (1 << 31) - (1 << 20)  # bytes that one protobuf file may hold


def array_of(value) -> np.ndarray:
    """A tensor, or an int, as an input of onnxruntime."""
    return np.ascontiguousarray(value.numpy()) if isinstance(value, Tensor) else np.asarray(value, np.int64)


class ONNXProgram:
    """``model_proto``, the file's content; ``exported_program``; ``save(path)``; called, it runs in onnxruntime.

    ``outside``: default of ``save`` for external weights.  ``written``: for each mutated input, the output with its
    new value: calls copy it into their argument, and keep buffers for the next call, until ``release()``.
    """

    def __init__(self, model_proto, exported_program, outside=False, written=()):
        self.model_proto, self.exported_program, self.outside = model_proto, exported_program, outside
        self.written, self.state, self._session = dict(written), {}, None

    def __call__(self, *args, **kwargs) -> tuple:
        """The results as tensors, flat; of complex ones the parts are a last dimension of 2, as in the file.
        OnnxExporterError where onnxruntime is not installed."""
        from .._src.core.exchange import from_numpy

        if self._session is None:
            self.initialize_inference_session()
        numbers = {k for k, (_, _, varying) in enumerate(self.exported_program.expected) if None in varying}
        leaves = [x for k, x in enumerate(tree_flatten((args, kwargs))[0]) if isinstance(x, Tensor) or k in numbers]
        wanted = self._session.get_inputs()
        if len(leaves) != len(wanted):
            raise ValueError(
                f"the program takes {len(wanted)} inputs, {', '.join(i.name for i in wanted)}; {len(leaves)} are given"
            )
        given = {i.name: real_form(x.detach()) if isinstance(x, Tensor) else x for i, x in zip(wanted, leaves)}
        feeds = self.state | {name: array_of(x) for name, x in given.items()}
        results = self._session.run(None, feeds)
        after = len(results) - len(self.written)
        for name, result in zip(self.written, results[after:]):
            if name in given:
                given[name].copy_(from_numpy(np.array(result)))
            else:
                self.state[name] = result
        return tuple(from_numpy(np.array(r)) for r in results[:after])

    def initialize_inference_session(self, initializer=None):
        """Makes the session that calls run in; ``initializer``: the file's bytes -> an
        ``onnxruntime.InferenceSession``."""
        if initializer is None:
            runtime = library("onnxruntime")
            options = runtime.SessionOptions()
            options.log_severity_level = 3  # errors: it warns of each buffer that is an input
            initializer = partial(runtime.InferenceSession, sess_options=options)
        self._session = initializer(self.model_proto.SerializeToString())

    def release(self):
        """Release the session, its memory, and the buffers updated by calls."""
        self._session, self.state = None, {}

    def save(self, destination, *, include_initializers=True, keep_initializers_as_inputs=False, external_data=None):
        """Write the file, or into an object with a method ``write``, which then holds the weights, too.
        ``external_data``: weights go to ``<destination>.data`` (required above 2 GB); ``include_initializers=False``
        leaves them out: they are inputs then."""
        onnx = library()
        model = onnx.ModelProto()
        model.CopyFrom(self.model_proto)
        if keep_initializers_as_inputs or not include_initializers:
            there = {given.name for given in model.graph.input}
            model.graph.input.extend(
                onnx.helper.make_tensor_value_info(t.name, t.data_type, list(t.dims)) for t in model.graph.initializer
                if t.name not in there
            )
        if not include_initializers:
            del model.graph.initializer[:]
        if hasattr(destination, "write"):
            destination.write(model.SerializeToString())
            return
        path = os.fspath(destination)
        outside = self.outside if external_data is None else external_data
        if outside or model.ByteSize() > MOST_INSIDE:
            name = os.path.basename(path) + ".data"
            beside = os.path.join(os.path.dirname(path), name)
            if os.path.exists(beside):  # weights are appended to a file that is there
                os.unlink(beside)
            onnx.save_model(model, path, save_as_external_data=True, location=name)
        else:
            onnx.save_model(model, path)

    def __repr__(self):
        graph = self.model_proto.graph
        inputs, outputs = (", ".join(v.name for v in values) for values in (graph.input, graph.output))
        return f"ONNXProgram({len(graph.node)} nodes, {inputs} -> {outputs})"
