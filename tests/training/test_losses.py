"""Training the same model from the same weights on the same batches gives torch's losses."""
import pathlib

import numpy as np
import pytest

import rushlight

torch = pytest.importorskip("torch")
EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"


def transformer(t):
    F, nn = t.nn.functional, t.nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.token, self.norm, self.head = nn.Embedding(31, 32), nn.LayerNorm(32), nn.Linear(32, 31, bias=False)
            self.qkv, self.out, self.up, self.down = nn.Linear(32, 96), nn.Linear(32, 32), nn.Linear(32, 64), nn.Linear(
                64, 32)
            self.norm1, self.norm2 = nn.LayerNorm(32), nn.LayerNorm(32)

        def forward(self, ids, targets):
            x = self.token(ids)
            b, n, c = x.shape
            q, k, v = (y.view(b, n, 4, 8).transpose(1, 2) for y in self.qkv(self.norm1(x)).split(c, dim=2))
            x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, n, c))
            x = x + self.down(F.gelu(self.up(self.norm2(x))))
            return F.cross_entropy(self.head(self.norm(x)).view(-1, 31), targets.view(-1))

    return Model()


def residual(t):
    F, nn = t.nn.functional, t.nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem, self.bn = nn.Conv2d(1, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
            self.conv1, self.bn1 = nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
            self.conv2, self.bn2 = nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16)
            self.head = nn.Linear(16, 10)

        def forward(self, x, y):
            x = F.relu(self.bn(self.stem(x)))
            x = F.relu(x + self.bn1(self.conv1(x)))
            x = F.max_pool2d(F.relu(self.bn2(self.conv2(x))), 2)
            return F.cross_entropy(self.head(F.adaptive_avg_pool2d(x, 1).flatten(1)), y)

    return Model()


def losses(t, build, weights, batches, optimizer):
    model = build(t)
    model.load_state_dict({k: t.tensor(v) for k, v in weights.items()})
    step = optimizer(t, model.parameters())
    out = []
    for x, y in batches:
        loss = model(t.tensor(x), t.tensor(y))
        step.zero_grad()
        loss.backward()
        step.step()
        out.append(loss.item())
    return np.array(out)


CASES = {
    "transformer, AdamW": (transformer, lambda g: (g.integers(0, 31, (4, 16)), g.integers(0, 31, (4, 16))),
                           lambda t, p: t.optim.AdamW(p, lr=1e-3)),
    "residual, SGD": (residual, lambda g: (g.standard_normal((8, 1, 12, 12)).astype(np.float32),
                                           g.integers(0, 10, (8,))),
                      lambda t, p: t.optim.SGD(p, lr=0.02, momentum=0.9)),
}


@pytest.mark.parametrize("case", CASES)
def test_losses_are_torchs(case):
    build, batch, optimizer = CASES[case]
    torch.manual_seed(0)
    weights = {k: v.numpy().copy() for k, v in build(torch).state_dict().items()}
    generator = np.random.default_rng(0)
    batches = [batch(generator) for _ in range(50)]
    ours, theirs = (losses(t, build, weights, batches, optimizer) for t in (rushlight, torch))
    np.testing.assert_allclose(ours, theirs, rtol=1e-4)


@pytest.mark.long
def test_example_runs_under_the_name_torch(tmp_path):
    import subprocess
    import sys

    text = tmp_path / "text.txt"
    text.write_text("the quick brown fox jumps over the lazy dog. " * 200)
    command = [sys.executable, "-m", "rushlight", str(EXAMPLES / "gpt.py"), "--text", str(text), "--steps", "3",
               "--layers", "1", "--width", "16", "--context", "16",
               "--sample", "5", "--picture", str(tmp_path / "loss.png")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=1500)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "loss.png").stat().st_size > 1000
    missing = subprocess.run([*command[:4], "--text", str(tmp_path / "none.txt")], capture_output=True, text=True,
                             timeout=1500)
    assert missing.returncode != 0 and "can't read the text" in missing.stderr and "Traceback" not in missing.stderr
