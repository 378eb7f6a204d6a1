"""Transforms of compiled functions give what they give of the functions themselves."""
import pytest
import rushlight as torch
from rushlight.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap


def scaled_in_place(x):
    y = x.sin()
    y.mul_(3)
    return (y * x).sum()


def filled(x):
    y = torch.zeros_like(x)
    y.fill_(2)
    return (y * x * x).sum()


def written_by_index(x):
    y = torch.zeros(3, dtype=x.dtype)
    y[0] = 3
    y[1:] = 2 * x[1:]
    return (y * x.cos()).sum()


def written_through_a_view(x):
    y = x * 2
    y.view(-1)[::2].add_(x[::2])
    return (y * y).sum()


def accumulated(x):
    total = torch.zeros((), dtype=x.dtype)
    for k in range(3):
        total += x[k] ** (k + 1)
    return total


def derived_within(x):
    return grad(lambda x: x.sin().prod())(x).sum()


FUNCTIONS = [scaled_in_place, filled, written_by_index, written_through_a_view, accumulated, derived_within]
TRANSFORMS = {
    "grad": lambda f, x: grad(f)(x),
    "vjp": lambda f, x: vjp(f, x)[1](torch.tensor(1.5, dtype=x.dtype))[0],
    "jvp": lambda f, x: jvp(f, (x,), (torch.ones_like(x),))[1],
    "jacrev": lambda f, x: jacrev(f)(x),
    "jacfwd": lambda f, x: jacfwd(f)(x),
    "hessian": lambda f, x: hessian(f)(x),
    "vmap of grad": lambda f, x: vmap(grad(f))(torch.stack([x, 2 * x])),
}


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_a_compiled_function_that_writes(function, name):
    x = torch.tensor([0.7, 0.2, -0.4], dtype=torch.float64)
    try:
        wanted = TRANSFORMS[name](function, x)
    except RuntimeError:  # a write that vmap refuses is refused there, too
        with pytest.raises(RuntimeError):
            TRANSFORMS[name](torch.compile(function), x)
        return
    torch.testing.assert_close(TRANSFORMS[name](torch.compile(function), x), wanted)


def test_a_compiled_function_of_a_backend_of_the_user():
    compiled = torch.compile(derived_within, backend=lambda module, inputs: module.forward)
    x = torch.tensor([0.7, 0.2, -0.4], dtype=torch.float64)
    torch.testing.assert_close(grad(compiled)(x), grad(derived_within)(x))
    torch.testing.assert_close(vmap(compiled)(torch.stack([x, x]))[1], derived_within(x))


CHECKED = {  # functions that check all elements of what they are given
    "binary_cross_entropy": lambda x: torch.nn.functional.binary_cross_entropy(x, torch.full_like(x, 0.25)),
    "poisson": lambda x: (torch.poisson(x) * 0 + x).sum(),
    "bernoulli": lambda x: (torch.bernoulli(x) * 0 + x * x).sum(),
    "normal": lambda x: (torch.normal(x, x) * 0 + x * x).sum(),
}


@pytest.mark.parametrize("transform", ["grad", "vjp", "jvp", "vmap of grad", "vmap"])
@pytest.mark.parametrize("name", CHECKED)
def test_checks_of_all_elements_within_a_compiled_transform(name, transform):
    """What a transformed function checks is checked when the graph runs, in one graph."""
    x, function = torch.tensor([0.7, 0.2, 0.4], dtype=torch.float64), CHECKED[name]
    made = {**TRANSFORMS, "vmap of grad": lambda f, x: vmap(grad(f), randomness="different")(torch.stack([x, x / 2])),
            "vmap": lambda f, x: vmap(f, randomness="different")(torch.stack([x, x / 2]))}[transform]

    def run(x):
        return made(function, x)

    compiled = torch.compile(run, fullgraph=True)
    assert torch.allclose(compiled(x), run(x))
    for program in (run, compiled):
        with pytest.raises(RuntimeError):
            program(-x)
