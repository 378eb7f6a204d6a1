"""Models of other libraries train on WebGPU as on the processor, where these libraries are installed.

    python -m rushlight tests/webgpu/libraries.py          # transformers and timm
    python -m rushlight tests/webgpu/libraries.py timm

Prints the largest relative difference of three steps' losses, and what the host computed; ends with an error where the
difference is above 1e-4.
"""
import sys

import torch

from rushlight._src.devices.shared.host import HostStep


def losses(make, loss_of, where: str) -> list:
    """Those of three steps."""
    torch.manual_seed(0)
    model, found = make().to(where).train(False), []
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(3):
        optimizer.zero_grad()
        loss = loss_of(model, where)
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


def of_transformers() -> dict:
    from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

    words = torch.randint(0, 100, (2, 12))

    def loss_of(model, where):
        return model(words.to(where), labels=words.to(where)).loss

    gpt = GPT2Config(n_layer=2, n_head=2, n_embd=32, vocab_size=100, n_positions=32)
    llama = LlamaConfig(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
                        num_key_value_heads=2, vocab_size=100, max_position_embeddings=32)
    return {"gpt2": (lambda: GPT2LMHeadModel(gpt), loss_of), "llama": (lambda: LlamaForCausalLM(llama), loss_of)}


def of_timm() -> dict:
    import timm

    x = torch.randn(2, 3, 32, 32)

    def loss_of(model, where):
        return model(x.to(where)).square().mean()

    return {"vit_tiny": (lambda: timm.create_model("vit_tiny_patch16_224", img_size=32, depth=2, num_classes=5),
                         loss_of),
            "resnet10t": (lambda: timm.create_model("resnet10t", num_classes=5), loss_of)}


LIBRARIES = {"transformers": of_transformers, "timm": of_timm}


def main(*chosen) -> int:
    wrong = 0
    for library in chosen or LIBRARIES:
        for name, (make, loss_of) in LIBRARIES[library]().items():
            wanted, before = losses(make, loss_of, "cpu"), HostStep.runs.copy()
            found = losses(make, loss_of, "webgpu")
            most = max(abs(a - b) / abs(b) for a, b in zip(found, wanted))
            wrong += most > 1e-4
            print(f"{name:12}{most:.1e}  host: {', '.join(HostStep.runs - before) or 'nothing'}", flush=True)
    return wrong


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
