"""PyTorch 2.2's AOTInductor: a model is compiled ahead of time, and loaded in another process.

    python -m rushlight aot_inductor.py compile model.so
    python -m rushlight aot_inductor.py run model.so
"""
import sys

import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = torch.nn.Linear(10, 16)
        self.relu = torch.nn.ReLU()
        self.fc2 = torch.nn.Linear(16, 1)
        self.sigmoid = torch.nn.Sigmoid()

    def forward(self, x):
        x = self.fc1(x)
        x = self.relu(x)
        x = self.fc2(x)
        x = self.sigmoid(x)
        return x


torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
with torch.no_grad():
    model = Model().to(device=device)
    x = torch.randn(8, 10, device=device)
    if sys.argv[1] == "compile":
        batch_dim = torch.export.Dim("batch", min=1, max=1024)
        so_path = torch._export.aot_compile(
            model,
            (x,),
            # Specify the first dimension of the input x as dynamic
            dynamic_shapes={"x": {0: batch_dim}},
            # Specify the generated shared library path
            options={"aot_inductor.output_path": sys.argv[2]},
        )
        print(so_path)
    else:
        compiled = torch._export.aot_load(sys.argv[2], device)
        for given in (x, x[:1], x[:5]):
            torch.testing.assert_close(compiled(given), model(given))
        print(compiled(x).shape)
