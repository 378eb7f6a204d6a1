"""Train, compile, export, save and load: exits with an error if a tree does not work."""
import io
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path.cwd()))
import rushlight  # noqa: E402

assert pathlib.Path(rushlight.__file__).is_relative_to(pathlib.Path.cwd()), rushlight.__file__
nn, functional = rushlight.nn, rushlight.nn.functional
rushlight.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
optimizer = rushlight.optim.Adam(model.parameters(), lr=1e-2)
x, y = rushlight.randn(32, 8), rushlight.randint(0, 4, (32,))


def step(x, y):
    optimizer.zero_grad()
    loss = functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.detach()


losses = [float(run(x, y)) for run in (step, *[rushlight.compile(step)] * 3, step)]
assert losses == sorted(losses, reverse=True), losses
program = rushlight.export.export(model, (x,))
assert rushlight.allclose(program.module()(x), model(x))
program.run_decompositions()
image, conv = rushlight.randn(2, 3, 9, 9), nn.Conv2d(3, 8, 3)
assert rushlight.allclose(rushlight.compile(conv)(image), conv(image), atol=1e-5)
query = rushlight.randn(3, 1, 2, 16, 8)
functional.scaled_dot_product_attention(*query.unbind(0), is_causal=True)
grads = rushlight.func.vmap(rushlight.func.grad(lambda v: (v * v).sum()))(x)
assert rushlight.allclose(grads, 2 * x)
file = io.BytesIO()
rushlight.save(model.state_dict(), file)
file.seek(0)
model.load_state_dict(rushlight.load(file))
print("works:", losses)
