"""PyTorch 2.0's oneDNN Graph: a traced model is frozen, in float32 and bfloat16, and saved for a process without its
class.

    python -m rushlight onednn_graph.py save model.pt
    python -m rushlight onednn_graph.py load model.pt
"""
import sys

import torch

print(torch.backends.quantized.engine in torch.backends.quantized.supported_engines)
torch.manual_seed(0)
example_input = torch.rand(2, 3, 16, 16)
if sys.argv[1] == "load":
    print(torch.jit.load(sys.argv[2])(example_input).shape)
    sys.exit()


calls = []


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8)
        self.head = torch.nn.Linear(8, 10)

    def forward(self, x):
        calls.append(len(x))
        return self.head(torch.relu(self.norm(self.conv(x))).mean((2, 3)))


model = Network().eval()
# enable oneDNN Graph fusion globally
torch.jit.enable_onednn_fusion(True)
with torch.no_grad():
    traced = torch.jit.trace(model, example_input)
    before = len(calls)
    traced(example_input)
    print(len(calls) == before)  # the Python above does not run again
    frozen = torch.jit.freeze(traced)
    # a couple of warm-up runs
    frozen(example_input)
    frozen(example_input)
    torch.testing.assert_close(frozen(example_input), model(example_input))
print(all("conv" in str(shown) for shown in (traced.graph, traced.code, traced.inlined_graph)))

torch._C._jit_set_autocast_mode(False)
with torch.no_grad(), torch.autocast("cpu", cache_enabled=False, dtype=torch.bfloat16):
    half = torch.jit.freeze(torch.jit.trace(model, example_input))
    print(half(example_input).dtype)
torch.jit.save(traced, sys.argv[2])
