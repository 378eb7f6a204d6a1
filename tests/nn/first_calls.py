"""First calls of every layer under the name ``torch``: each runs in a child process of one that imported only the
package, so that no earlier call has imported, registered or cached anything for it.

``python -m rushlight tests/nn/first_calls.py`` prints a JSON line ``[layer, way, error]`` for each; the error is
empty if the call succeeded.
"""
import json
import os
import sys
import traceback

import torch
from torch import nn

X = "torch.randn(2, 4)"
LINE, PLANE, SPACE = "torch.randn(2, 4, 8)", "torch.randn(2, 4, 8, 8)", "torch.randn(2, 4, 4, 4, 4)"
BY_DIMENSIONS = dict(zip("123", (LINE, PLANE, SPACE)))
TWO = f"{X}, {X}"
SIGNS = "torch.tensor([1.0, -1.0])"

ELEMENTWISE = ("CELU", "ELU", "GELU", "GLU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "Identity",
               "LeakyReLU", "LogSigmoid", "Mish", "PReLU", "RReLU", "ReLU", "ReLU6", "SELU", "SiLU", "Sigmoid",
               "Softplus", "Softshrink", "Softsign", "Tanh", "Tanhshrink", "Dropout", "AlphaDropout", "Flatten")
ELEMENTWISE_LOSSES = ("HuberLoss", "L1Loss", "MSELoss", "PoissonNLLLoss", "SmoothL1Loss")
LAYERS = {  # constructor -> arguments of the call
    **{f"{name}()": X for name in ELEMENTWISE},
    **{f"{name}()": TWO for name in ELEMENTWISE_LOSSES},
    **{f"{kind}{d}d({arguments})": x for kind, arguments in {
        "AdaptiveAvgPool": "2", "AdaptiveMaxPool": "2", "AvgPool": "2", "MaxPool": "2", "LPPool": "2, 2",
        "BatchNorm": "4", "InstanceNorm": "4", "LazyBatchNorm": "", "LazyInstanceNorm": "", "Conv": "4, 6, 3",
        "ConvTranspose": "4, 6, 3", "LazyConv": "6, 3", "LazyConvTranspose": "6, 3", "Dropout": "",
        "CircularPad": "1", "ConstantPad": "1, 0.5", "ReflectionPad": "1", "ReplicationPad": "1", "ZeroPad": "1",
    }.items() for d, x in BY_DIMENSIONS.items()},
    **{f"MaxUnpool{d}d(2)": f"*nn.functional.max_pool{d}d({x}, 2, return_indices=True)"
       for d, x in BY_DIMENSIONS.items()},
    "FractionalMaxPool2d(2, output_size=3)": PLANE, "FractionalMaxPool3d(2, output_size=2)": SPACE,
    "AdaptiveLogSoftmaxWithLoss(4, 10, [3, 6])": f"{X}, torch.tensor([1, 7])",
    "KLDivLoss(reduction='sum')": f"{X}, torch.rand(2, 4)",
    "BCELoss()": f"{X}.sigmoid(), {X}.sigmoid()", "BCEWithLogitsLoss()": f"{X}, {X}.sigmoid()",
    "Bilinear(4, 4, 3)": TWO, "ChannelShuffle(2)": PLANE, "CosineSimilarity()": TWO, "PairwiseDistance()": TWO,
    "CTCLoss()": "torch.randn(5, 2, 4).log_softmax(2), torch.tensor([[1, 2], [2, 3]]), torch.tensor([5, 5]), "
                 "torch.tensor([2, 2])",
    "CosineEmbeddingLoss()": f"{TWO}, {SIGNS}", "MarginRankingLoss()": f"torch.randn(2), torch.randn(2), {SIGNS}",
    "CrossEntropyLoss()": f"{X}, torch.tensor([1, 3])", "NLLLoss()": f"{X}, torch.tensor([1, 3])",
    "NLLLoss2d()": f"{PLANE}, torch.zeros(2, 8, 8, dtype=torch.int64)",
    "LinearCrossEntropyLoss(4, 5)": f"{X}, torch.tensor([1, 3])",
    "CrossMapLRN2d(3)": PLANE, "LocalResponseNorm(2)": PLANE, "FeatureAlphaDropout()": PLANE,
    "Embedding(5, 3)": "torch.tensor([1, 3])", "EmbeddingBag(5, 3)": "torch.tensor([[1, 3], [0, 2]])",
    "Fold((4, 4), 2)": "torch.randn(2, 8, 9)", "Unfold(2)": PLANE, "Unflatten(1, (2, 2))": X,
    "GaussianNLLLoss()": f"{TWO}, torch.rand(2, 4) + 0.1", "HingeEmbeddingLoss()": f"torch.randn(2), {SIGNS}",
    "SoftMarginLoss()": f"torch.randn(2), {SIGNS}", "MultiLabelMarginLoss()": f"{X}, torch.tensor([[1, -1, 0, 0]] * 2)",
    "MultiLabelSoftMarginLoss()": f"{X}, torch.ones(2, 4)", "MultiMarginLoss()": f"{X}, torch.tensor([1, 3])",
    "TripletMarginLoss()": f"{TWO}, {X}", "TripletMarginWithDistanceLoss()": f"{TWO}, {X}",
    "GRU(4, 3)": LINE.replace("8", "4"), "LSTM(4, 3)": LINE.replace("8", "4"), "RNN(4, 3)": LINE.replace("8", "4"),
    "GRUCell(4, 3)": X, "LSTMCell(4, 3)": X, "RNNCell(4, 3)": X,
    "GroupNorm(2, 4)": PLANE, "LayerNorm(4)": X, "RMSNorm(4)": X, "SyncBatchNorm(4)": X,
    "Linear(4, 3)": X, "LazyLinear(3)": X, "Threshold(0.1, 20)": X,
    "LogSoftmax(1)": X, "Softmax(1)": X, "Softmin(1)": X, "Softmax2d()": PLANE,
    "PixelShuffle(2)": PLANE, "PixelUnshuffle(2)": PLANE, "Upsample(scale_factor=2)": PLANE,
    "UpsamplingBilinear2d(scale_factor=2)": PLANE, "UpsamplingNearest2d(scale_factor=2)": PLANE,
    "Sequential(nn.Linear(4, 3), nn.ReLU())": X,
    "MultiheadAttention(4, 2)": "*[torch.randn(3, 2, 4)] * 3",
    "TransformerEncoderLayer(4, 2, 8)": "torch.randn(3, 2, 4)",
    "TransformerEncoderLayer(4, 2, 8, batch_first=True)": "torch.randn(3, 2, 4)",
    "TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), 2)": "torch.randn(3, 2, 4)",
    "TransformerDecoderLayer(4, 2, 8)": "torch.randn(3, 2, 4), torch.randn(3, 2, 4)",
    "TransformerDecoder(nn.TransformerDecoderLayer(4, 2, 8), 2)": "torch.randn(3, 2, 4), torch.randn(3, 2, 4)",
    "Transformer(4, 2, 1, 1, 8)": "torch.randn(3, 2, 4), torch.randn(3, 2, 4)",
}
WITHOUT_FORWARD = {"Module", "Container", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "RNNBase",
                   "RNNCellBase"}
IN_ONNX = ("Linear(4, 3)", "Conv2d(4, 6, 3)", "BatchNorm2d(4)", "LayerNorm(4)", "Embedding(5, 3)", "LSTM(4, 3)",
           "MaxPool2d(2)", "MultiheadAttention(4, 2)", "GELU()",
           "TransformerEncoderLayer(4, 2, 8, batch_first=True)")
BREAKS = {  # layers that do not fit one graph -> the number of the break
    "MaxUnpool1d": "RB003", "MaxUnpool2d": "RB003", "MaxUnpool3d": "RB003",  # an error names the invalid index
    "FractionalMaxPool2d": "RB012", "FractionalMaxPool3d": "RB012",  # random numbers decide where windows start
    "AdaptiveLogSoftmaxWithLoss": "RB002",  # targets decide which clusters run
    "TripletMarginWithDistanceLoss": "RB004",  # an operator calls a module
}


def call_compiled(layer, inputs):
    return torch.compile(layer, fullgraph=True, backend="eager")(*inputs)


def call_exported(layer, inputs):
    return torch.export.export(layer, inputs).module()(*inputs)


def write_onnx(layer, inputs):
    torch.onnx.export(layer, inputs, dynamo=True)


WAYS = {"compile": call_compiled, "export": call_exported, "onnx": write_onnx}


def try_layer(text: str, way: str):
    """Makes a layer in evaluation mode and uses it this way, before any eager call of it."""
    torch.manual_seed(0)
    layer = eval(f"nn.{text}").eval()
    inputs = eval(f"({LAYERS[text]},)")
    if way != "compile" and text.startswith("Lazy"):
        layer(*inputs)  # the first batch decides the sizes, which an exported program cannot
    with torch.no_grad():
        found = WAYS[way](layer, inputs)
        if way != "onnx":
            torch.testing.assert_close(found, layer(*inputs))


def try_in_child(text: str, way: str) -> str:
    """Returns the error of a first call in a forked process, as text; empty if there is none."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            try_layer(text, way)
        except BaseException:
            os.write(writing, traceback.format_exc()[-2000:].encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        error = file.read()
    status = os.waitpid(child, 0)[1]
    error = error or (f"ended with status {status}" if status else "")
    number = BREAKS.get(text.partition("(")[0])
    if number is None:
        return error
    return "" if number in error else f"expected the break {number}, got {error or 'none'}"


def find_untried():
    """Returns the layers of ``torch.nn`` that the table does not have."""
    tried = {text.partition("(")[0] for text in LAYERS}
    return sorted(name for name, kind in vars(nn).items() if isinstance(kind, type) and issubclass(kind, nn.Module)
                  and name not in tried | WITHOUT_FORWARD)


def main(chosen):
    """Tries the layers whose name begins as one of ``chosen``, or all."""
    for name in find_untried():
        print(json.dumps([name, "", "it is not in the table"]), flush=True)
    for text in LAYERS:
        if not chosen or text.startswith(chosen):
            for way in WAYS:
                if way != "onnx" or text in IN_ONNX:
                    print(json.dumps([text, way, try_in_child(text, way)]), flush=True)


if __name__ == "__main__":
    main(tuple(sys.argv[1:]))
