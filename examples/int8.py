"""Trains the network of ``digits.py`` on 797 pictures, has it compute with bytes in three ways, and says of how many
of the other 1,000 pictures each finds the class that float32 finds.

    python -m rushlight examples/int8.py           # or: python examples/int8.py, with PyTorch

*fx* and *pt2e* make bytes of convolutions and of the linear layer, with scales chosen from 256 pictures of training;
*dynamic* of the linear layer, whose scales are chosen as it runs.  *pt2e* needs torchao (``pip install torchao``).
"""
import argparse
import importlib.util
import pathlib
import sys
import warnings

import torch
from torch.ao.quantization import get_default_qconfig_mapping, quantize_dynamic
from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "web"))
from make import data, trained  # noqa: E402

TRAINING, CALIBRATION = 797, 256


def fx(model, examples):
    """Each layer that PyTorch's x86 engine knows computes with bytes."""
    prepared = prepare_fx(model, get_default_qconfig_mapping("x86"), (examples[:1],))
    prepared(examples)
    return convert_fx(prepared)


def pt2e(model, examples):
    """The exported program, quantized by torchao."""
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
    from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86
    quantizer = x86.X86InductorQuantizer().set_global(x86.get_default_x86_inductor_quantization_config())
    batch = torch.export.Dim("batch", min=2, max=2048)
    program = torch.export.export(model, (examples,), dynamic_shapes=({0: batch},)).module()
    prepared = prepare_pt2e(program, quantizer)
    prepared(examples)
    return convert_pt2e(prepared)


def dynamic(model, examples):
    """The linear layer computes with bytes."""
    return quantize_dynamic(model, {torch.nn.Linear})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.manual_seed(options.seed)
    images, labels = data()
    model, images, labels, known = (trained(images[:TRAINING], labels[:TRAINING], options.epochs),
                                    images[TRAINING:], labels[TRAINING:], images[:CALIBRATION])
    forms = [fx, pt2e, dynamic] if importlib.util.find_spec("torchao") else [fx, dynamic]
    with torch.no_grad():
        scores = model(images)
        classes = scores.argmax(1)
        print(f"float32  {(classes == labels).float().mean().item():.2%} of {len(labels)} right")
        for form in forms:
            found = form(model, known)(images)
            noise = 10 * torch.log10(scores.square().sum() / (scores - found).square().sum()).item()
            print(f"{form.__name__:8} {(found.argmax(1) == labels).float().mean().item():.2%} right, "
                  f"{(found.argmax(1) == classes).float().mean().item():.2%} as float32, SQNR {noise:.1f} dB")


if __name__ == "__main__":
    main()
