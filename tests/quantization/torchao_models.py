"""What torchao makes of models, told in JSON; run by ``python -m rushlight`` in test_torchao.py."""
import json
import warnings

import torch
from torch import nn
from torchao import quantization
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

warnings.simplefilter("ignore")
CONFIGURATIONS = {"int8": quantization.Int8WeightOnlyConfig, "float8": quantization.Float8WeightOnlyConfig,
                  "int8 dynamic": quantization.Int8DynamicActivationInt8WeightConfig}


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


def decibels(real, found):
    return 10 * torch.log10(real.double().square().sum() / (real.double() - found).square().sum()).item()


def exported(model, x, dynamic):
    """(decibels of the converted model, of it compiled against itself, the functions that it calls)."""
    quantizer = x86.X86InductorQuantizer().set_global(x86.get_default_x86_inductor_quantization_config(
        is_dynamic=dynamic))
    prepared = prepare_pt2e(torch.export.export(model, (x,)).module(), quantizer)
    prepared(x)
    made = convert_pt2e(prepared)
    compiled = torch.compile(made, fullgraph=True, options={"freezing": True})
    return decibels(model(x), made(x)), decibels(made(x), compiled(x)), sorted(
        {str(node.target) for node in made.graph.nodes if node.op == "call_function"})


def weights(model, x, make):
    """(decibels of the quantized model, of it compiled against itself, bytes of a weight an element)."""
    made = Block().eval()
    made.load_state_dict(model.state_dict())
    quantization.quantize_(made, make())
    size = made.up.weight.qdata.element_size() if hasattr(made.up.weight, "qdata") else None
    return decibels(model(x), made(x)), decibels(made(x), torch.compile(made)(x)), size


if __name__ == "__main__":
    torch.manual_seed(0)
    given = torch.randn(4, 32)
    block = Block().eval()
    with torch.no_grad():
        print(json.dumps({**{f"exported {d}": exported(block, given, d) for d in (False, True)},
                          **{name: weights(block, given, make) for name, make in CONFIGURATIONS.items()}}))
