"""PyTorch 2.6's packages of AOTInductor: programs with branches, sizes that depend on data, and random numbers.

    python -m rushlight packages.py compile directory
    python -m rushlight packages.py run directory
"""
import os
import sys

import torch


class Branches(torch.nn.Module):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))


class Selection(torch.nn.Module):
    def forward(self, x):
        return x[x > 0], x.nonzero()


class Noise(torch.nn.Module):
    def forward(self, x):
        return x + torch.randn_like(x)


x = torch.tensor([[1.0, -2, 3], [-4, 5, -7]])
for model in (Branches(), Selection(), Noise()):
    path = os.path.join(sys.argv[2], f"{type(model).__name__}.pt2")
    if sys.argv[1] == "compile":
        program = torch.export.export(model, (x,))
        configs = {"aot_inductor.metadata": {"author": "examples"}}
        torch._inductor.aoti_compile_and_package(program, package_path=path, inductor_configs=configs)
        continue
    compiled = torch._inductor.aoti_load_package(path)
    for given in (x, -x):
        torch.manual_seed(0)
        wanted = model(given)
        torch.manual_seed(0)
        torch.testing.assert_close(compiled(given), wanted)
    print(type(model).__name__, compiled.get_metadata()["author"])
