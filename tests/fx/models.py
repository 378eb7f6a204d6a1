"""One module that uses most of what tracing records, for Rushlight and for PyTorch."""

from rushlight import fx


def helper(x):
    """A function that cannot be traced through."""
    if x.sum() > 0:
        return x
    return -x


fx.wrap("helper")
fx.wrap("len")


def wrapping(x):
    return helper(x) * len(x)


def model(torch):
    """The module, in either framework, with the same parameters."""
    nn, F = torch.nn, torch.nn.functional

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))
            self.scale = nn.Parameter(torch.ones(4))
            self.register_buffer("shift", torch.ones(4))

        def forward(self, x, flag=True, *, k=3):
            y = self.layers(x) + self.scale * self.shift
            if flag:
                y = F.gelu(y).transpose(0, 1).reshape(-1, y.shape[0])
            a, b = y.chunk(2)
            c = torch.cat([a, b], dim=0)
            d = c[0:2, None] - 1
            c += k
            return {"c": c, "d": (d, F.softmax(d, dim=-1))}

    made = Model()
    with torch.no_grad():
        for p in made.parameters():
            p.copy_(torch.linspace(-1, 1, p.numel()).reshape(p.shape))
    return made
