"""Whole programs of transforms, beside torch: tangent kernels, learning to learn, gradients of examples of larger
modules."""
import numpy as np
import pytest

from .judge import compare


class Maker:
    """The same tensors and modules for either library."""

    def __init__(self, t):
        self.t, self.generator = t, np.random.default_rng(0)

    def tensor(self, *shape):
        return self.t.from_numpy(self.generator.standard_normal(shape).astype(np.float32))

    def parameters(self, module):
        """The module's parameters, with known values, as a dictionary of plain tensors."""
        with self.t.no_grad():
            for p in module.parameters():
                p.copy_(self.tensor(*p.shape) * 0.3)
        return {k: p.detach() for k, p in module.named_parameters()}

    def network(self):
        nn = self.t.nn
        net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 4, 3), nn.GroupNorm(2, 4),
                            nn.GELU(), nn.Flatten(), nn.Linear(16, 3))
        return net, self.parameters(net)


def single(t, net):
    return lambda p, x: t.func.functional_call(net, p, (x.unsqueeze(0),)).squeeze(0)


def kernel_of_jacobians(t):
    """The neural tangent kernel (Jacot et al. 2018), Jacobians multiplied."""
    make = Maker(t)
    net, p = make.network()
    jacobians = t.vmap(t.func.jacrev(single(t, net)), (None, 0))
    a, b = jacobians(p, make.tensor(3, 1, 10, 10)), jacobians(p, make.tensor(2, 1, 10, 10))
    return sum(t.einsum("Naf,Mbf->NMab", a[k].flatten(2), b[k].flatten(2)) for k in a)


def kernel_of_products(t):
    """The same kernel, column by column: a jvp of what a vjp gives."""
    make = Maker(t)
    net, p = make.network()
    call = single(t, net)

    def block(u, v):
        _, pull = t.func.vjp(lambda q: call(q, u), p)
        return t.vmap(lambda unit: t.func.jvp(lambda q: call(q, v), (p,), pull(unit))[1])(t.eye(3))

    return t.vmap(t.vmap(block, (None, 0)), (0, None))(make.tensor(3, 1, 10, 10), make.tensor(2, 1, 10, 10))


def gradients_of_examples(t):
    make = Maker(t)
    net, p = make.network()
    loss = lambda p, x, y: t.nn.functional.cross_entropy(single(t, net)(p, x)[None], y[None])
    return t.vmap(t.func.grad(loss), (None, 0, 0), chunk_size=3)(p, make.tensor(4, 1, 10, 10), t.tensor([0, 1, 2, 0]))


def learning_to_learn(t):
    """The gradient through a step of gradient descent (Finn et al. 2017)."""
    make = Maker(t)
    net, p = make.network()
    x, y = make.tensor(4, 1, 10, 10), t.tensor([0, 1, 2, 0])
    loss = lambda p: t.nn.functional.cross_entropy(t.func.functional_call(net, p, (x,)), y)

    def after_a_step(p):
        slope = t.func.grad(loss)(p)
        return loss({k: p[k] - 0.1 * slope[k] for k in p})

    return t.func.grad(after_a_step)(p)


def hessian_product(t):
    make = Maker(t)
    net, p = make.network()
    return t.func.jvp(t.func.grad(lambda x: single(t, net)(p, x).pow(2).sum()), (make.tensor(1, 10, 10),),
                      (make.tensor(1, 10, 10),))


def attention(t):
    make = Maker(t)
    module = t.nn.MultiheadAttention(8, 2, batch_first=True)
    loss = lambda p, x: t.func.functional_call(module, p, (x[None], x[None], x[None]))[0].pow(2).sum()
    return t.vmap(t.func.grad(loss), (None, 0))(make.parameters(module), make.tensor(3, 5, 8))


def recurrence(t):
    make = Maker(t)
    module = t.nn.LSTM(4, 3, batch_first=True)
    loss = lambda p, x: t.func.functional_call(module, p, (x[None],))[0].sum()
    return t.vmap(t.func.grad(loss), (None, 0))(make.parameters(module), make.tensor(3, 6, 4))


def embeddings(t):
    rows = Maker(t).tensor(10, 4)
    return t.vmap(t.func.grad(lambda e, i: t.nn.functional.embedding(i, e).pow(2).sum()),
                  (None, 0))(rows, t.tensor([[1, 2, 2], [0, 0, 3]]))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("program", [kernel_of_jacobians, kernel_of_products, gradients_of_examples, learning_to_learn,
                                     hessian_product, attention,
                                     recurrence, embeddings])
def test_as_torch(program):
    compare(program, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("shared", [True, False])
def test_masks_of_gradients_of_examples(shared):
    """Dropout inside of vmap of grad: one mask for all examples, or one for each, in the forward and its backward
    alike."""
    import rushlight as t

    weight = t.ones(64)
    found = t.vmap(t.func.grad(lambda w, x: (t.nn.functional.dropout(w) * x).sum()), (None, 0),
                   randomness="same" if shared else "different")(
        weight, t.ones(4, 64))
    masks = {tuple(row.tolist()) for row in found}
    values = set(found.flatten().tolist())
    assert values == {0.0, 2.0} and len(masks) == (1 if shared else 4)
