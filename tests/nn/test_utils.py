"""nn.utils beside PyTorch's: parametrizations, norms, pruning, fusion."""
import numpy as np
import pytest
import torch
import torch.nn.utils.prune

import rushlight

BOTH = (rushlight, torch)


def twins(build):
    """The same module in both frameworks, with the same state."""
    ours, theirs = build(rushlight), build(torch)
    ours.load_state_dict({k: rushlight.from_numpy(v.numpy().copy()) for k, v in theirs.state_dict().items()})
    return ours, theirs


def close(a, b, tolerance=1e-5):
    """Equal beside the largest number: sums that cancel leave what rounding leaves."""
    a, b = np.asarray(a.detach().tolist()), np.asarray(b.detach().tolist())
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * max(1, np.nan_to_num(np.abs(b)).max(initial=0)))


def compared(ours, theirs, shape, train=False):
    """Output, gradients and state of both for one input."""
    x = torch.randn(*shape)
    for m in (ours, theirs):
        m.train(train)
    a, b = ours(rushlight.from_numpy(x.numpy().copy())), theirs(x)
    close(a, b)
    a.pow(2).sum().backward(), b.pow(2).sum().backward()
    for (n, p), (m, q) in zip(ours.named_parameters(), theirs.named_parameters()):
        assert n == m
        close(p.grad, q.grad, 1e-4)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    for n, q in theirs.state_dict().items():
        close(ours.state_dict()[n], q)


@pytest.mark.parametrize("wrap", [
    lambda t, m: t.nn.utils.parametrizations.weight_norm(m),
    lambda t, m: t.nn.utils.parametrizations.weight_norm(m, dim=None), lambda t, m: t.nn.utils.weight_norm(m),
    lambda t, m: t.nn.utils.parametrizations.spectral_norm(m), lambda t, m: t.nn.utils.spectral_norm(m),
    lambda t, m: t.nn.utils.weight_norm(m, dim=1)])
@pytest.mark.parametrize("train", [False, True])
def test_norms(wrap, train):
    compared(*twins(lambda t: wrap(t, t.nn.Linear(5, 3))), (4, 5), train)
    compared(*twins(lambda t: wrap(t, t.nn.Conv2d(2, 3, 3))), (2, 2, 5, 5), train)


def test_norms_come_off_again():
    for t in BOTH:
        for on, off in ((t.nn.utils.weight_norm, t.nn.utils.remove_weight_norm),
                        (t.nn.utils.spectral_norm, t.nn.utils.remove_spectral_norm)):
            m = on(t.nn.Linear(4, 3))
            before = m.eval()(t.ones(1, 4))
            off(m)
            close(before, m(t.ones(1, 4)))
            assert set(m.state_dict()) == {"weight", "bias"}
            with pytest.raises(ValueError):
                off(m)


@pytest.mark.parametrize("how", ["matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("shape", [(4, 4), (3, 5), (5, 3)])
def test_orthogonal(how, shape):
    t = rushlight
    layer = t.nn.utils.parametrizations.orthogonal(t.nn.Linear(shape[1], shape[0]).double(), orthogonal_map=how)
    for _ in range(2):
        w = layer.weight
        small = w @ w.T if shape[0] <= shape[1] else w.T @ w
        assert t.allclose(small, t.eye(min(shape), dtype=t.float64), atol=1e-9)
        (layer(t.ones(2, shape[1], dtype=t.float64)) ** 2).sum().backward()
        assert bool(layer.parametrizations.weight.original.grad.isfinite().all())
        with t.no_grad():
            layer.parametrizations.weight.original.add_(t.randn(*layer.parametrizations.weight.original.shape,
                                                                dtype=t.float64) * 0.3)
    target = t.linalg.qr(t.randn(max(shape), min(shape), dtype=t.float64))[0]
    target = target if shape[0] >= shape[1] else target.T
    layer.weight = target
    assert t.allclose(layer.weight, target, atol=1e-9)


def symmetric(t):
    class Symmetric(t.nn.Module):
        def forward(self, x):
            return x.triu() + x.triu(1).transpose(-1, -2)

        def right_inverse(self, a):
            return a.triu()
    return Symmetric()


def test_parametrize():
    p = rushlight.nn.utils.parametrize
    ours, theirs = twins(lambda t: t.nn.utils.parametrize.register_parametrization(t.nn.Linear(3, 3), "weight",
                                                                                   symmetric(t)))
    compared(ours, theirs, (2, 3))
    assert repr(ours) == repr(theirs)
    assert p.is_parametrized(ours) and p.is_parametrized(ours, "weight") and not p.is_parametrized(ours, "bias")
    assert p.type_before_parametrizations(ours) is rushlight.nn.Linear
    with p.cached():
        assert ours.weight is ours.weight
    a = rushlight.randn(3, 3)
    ours.weight = a + a.T
    assert rushlight.allclose(ours.weight, a + a.T)
    weight = ours.weight.detach().clone()
    p.remove_parametrizations(ours, "weight")
    assert type(ours) is rushlight.nn.Linear and rushlight.allclose(ours.weight, weight)
    assert isinstance(ours.weight, rushlight.nn.Parameter)
    for t in BOTH:
        with pytest.raises(ValueError):
            t.nn.utils.parametrize.register_parametrization(t.nn.Linear(2, 2), "nothing", symmetric(t))
        with pytest.raises(ValueError):
            t.nn.utils.parametrize.remove_parametrizations(t.nn.Linear(2, 2), "weight")


def test_parametrized_modules_copy():
    import copy
    p = rushlight.nn.utils.parametrize
    made = p.register_parametrization(rushlight.nn.Linear(3, 3), "weight", symmetric(rushlight))
    twin = copy.deepcopy(made)
    with rushlight.no_grad():
        made.parametrizations.weight.original.zero_()
    assert twin.weight.abs().sum() > 0 and made.weight.abs().sum() == 0
    with p.cached():
        assert made.weight.abs().sum() == 0 and twin.weight.abs().sum() > 0


@pytest.mark.parametrize("prune", [
    lambda t, m: t.nn.utils.prune.l1_unstructured(m, "weight", 0.4),
    lambda t, m: t.nn.utils.prune.ln_structured(m, "weight", 1, 2, 0),
    lambda t, m: t.nn.utils.prune.ln_structured(m, "weight", 0.5, 1, -1),
    lambda t, m: t.nn.utils.prune.identity(m, "weight"),
    lambda t, m: t.nn.utils.prune.custom_from_mask(m, "bias", t.tensor([1.0, 0.0, 1.0])),
    lambda t, m: t.nn.utils.prune.l1_unstructured(t.nn.utils.prune.ln_structured(m, "weight", 1, 2, 0), "weight", 3),
    lambda t, m: t.nn.utils.prune.ln_structured(t.nn.utils.prune.ln_structured(m, "weight", 1, 2, 0), "weight", 1, 2,
                                                0),
    lambda t, m: t.nn.utils.prune.global_unstructured([(m, "weight"), (m, "bias")], t.nn.utils.prune.L1Unstructured,
                                                      amount=0.3) or m])
def test_pruning(prune):
    weights = torch.nn.Linear(4, 3).state_dict()
    made = []
    for t in BOTH:
        m = t.nn.Linear(4, 3)
        m.load_state_dict({k: t.from_numpy(v.numpy().copy()) for k, v in weights.items()})
        made.append(prune(t, m))
        assert t.nn.utils.prune.is_pruned(made[-1])
    compared(*made, (2, 4))
    for t, m in zip(BOTH, made):
        names = [n[:-5] for n in m.state_dict() if n.endswith("_mask")]
        for name in names:
            t.nn.utils.prune.remove(m, name)
        assert set(m.state_dict()) == {"weight", "bias"} and not t.nn.utils.prune.is_pruned(m)
    close(made[0].weight, made[1].weight)


def test_pruning_that_fails_leaves_the_module_as_it_was():
    for t in BOTH:
        p, m = t.nn.utils.prune, t.nn.Linear(4, 3)
        for wrong, error in ((lambda: p.ln_structured(m, "bias", 1, 2, 0), ValueError),
                             (lambda: p.ln_structured(m, "weight", 1, 2, 5), IndexError),
                             (lambda: p.l1_unstructured(m, "weight", 100), ValueError),
                             (lambda: p.l1_unstructured(m, "weight", 1, t.ones(2)), AssertionError),
                             (lambda: p.remove(m, "weight"), ValueError),
                             (lambda: p.PruningContainer(3), (TypeError, AttributeError)),
                             (lambda: p.global_unstructured([(m, "weight")], p.RandomStructured, amount=1), TypeError),
                             (lambda: p.global_unstructured(3, p.L1Unstructured, amount=1), TypeError)):
            with pytest.raises(error):
                wrong()
            assert set(dict(m.named_parameters())) == {
                "weight", "bias"} and not m._forward_pre_hooks and not p.is_pruned(m)
    m = rushlight.nn.Linear(4, 3)
    twice = rushlight.nn.utils.prune.identity(rushlight.nn.utils.prune.identity(m, "weight"), "weight")
    (container,) = twice._forward_pre_hooks.values()
    assert len(container) == 2 and container[0] is not container[1] and list(container) == [container[0], container[1]]
    with pytest.raises(ValueError, match="weight"):
        container.add_pruning_method(rushlight.nn.utils.prune.Identity.apply(m, "bias"))


def test_a_tensor_takes_one_norm_of_a_kind():
    for t in BOTH:
        for norm in (t.nn.utils.weight_norm, t.nn.utils.spectral_norm):
            with pytest.raises(RuntimeError, match="two"):
                norm(norm(t.nn.Linear(2, 2)))
        with pytest.raises(ValueError):
            t.nn.utils.spectral_norm(t.nn.Linear(2, 2), n_power_iterations=0)
        with pytest.raises(IndexError):
            t.nn.utils.parametrizations.spectral_norm(t.nn.Linear(2, 2), dim=2)


@pytest.mark.parametrize("inverse", [None, "a", [1, 2], "other dtype"])
def test_wrong_inverses(inverse):
    for t in BOTH:
        class Wrong(t.nn.Module):
            def forward(self, *x):
                return x[0]

            def right_inverse(self, x):
                return x.double() if inverse == "other dtype" else inverse

        with pytest.raises(ValueError):
            t.nn.utils.parametrize.register_parametrization(t.nn.Linear(2, 2), "weight", Wrong())


def test_random_pruning_prunes_as_much_as_asked():
    p = rushlight.nn.utils.prune
    assert (p.random_unstructured(rushlight.nn.Linear(10, 10), "weight", 37).weight == 0).sum() == 37
    assert ((p.random_structured(rushlight.nn.Linear(10, 8), "weight", 3, 0).weight == 0).all(1)).sum() == 3
    for t in BOTH:
        with pytest.raises(ValueError):
            t.nn.utils.prune.random_unstructured(t.nn.Linear(2, 2), "weight", 1.5)
        with pytest.raises(TypeError):
            t.nn.utils.prune.random_unstructured(t.nn.Linear(2, 2), "weight", "half")


def test_fusion():
    t = rushlight
    for layer, bn, shape in ((t.nn.Conv2d(2, 3, 3), t.nn.BatchNorm2d(3), (2, 2, 5, 5)),
                             (t.nn.ConvTranspose2d(2, 3, 3), t.nn.BatchNorm2d(3), (2, 2, 5, 5)),
                             (t.nn.Linear(4, 3), t.nn.BatchNorm1d(3), (5, 4))):
        both = t.nn.Sequential(layer, bn)
        both(t.randn(*shape))
        both.eval()
        x = t.randn(*shape)
        fused = t.nn.utils.fuse_linear_bn_eval(layer, bn) if shape == (5, 4) else t.nn.utils.fuse_conv_bn_eval(
            layer, bn, transpose=isinstance(layer, t.nn.ConvTranspose2d))
        assert t.allclose(fused(x), both(x), atol=1e-5)
        with pytest.raises(ValueError, match="eval"):
            t.nn.utils.fuse_conv_bn_eval(layer.train(), bn)


def test_skip_init_and_stateless():
    t = rushlight
    made = t.nn.utils.skip_init(t.nn.Linear, 3, 2)
    assert made.weight.shape == (2, 3) and made.weight.device.type == "cpu"
    with pytest.raises(RuntimeError, match="device"):
        t.nn.utils.skip_init(t.nn.ReLU)
    linear = t.nn.Linear(2, 1)
    out = t.nn.utils.stateless.functional_call(linear, {"weight": t.ones(1, 2), "bias": t.zeros(1)}, t.ones(1, 2))
    assert out.item() == 2


@pytest.mark.parametrize("make", [lambda t: t.nn.Linear(3, 5), lambda t: t.nn.ConvTranspose2d(2, 3, 2)])
def test_states_of_spectral_norm_without_a_version(make):
    """They hold the computed weight in place of ``weight_v``, which is found from it."""
    for t in BOTH:
        m = t.nn.utils.spectral_norm(make(t))
        x = t.ones(2, 3) if m.weight.dim() == 2 else t.ones(1, 2, 3, 3)
        for _ in range(3):
            m(x)
        state = m.state_dict()
        assert state._metadata[""]["spectral_norm"] == {"weight.version": 1}
        wanted = m.eval()(x)
        del state._metadata[""]["spectral_norm"]
        other = t.nn.utils.spectral_norm(make(t))
        other.load_state_dict(state)  # with weight_v: as of today
        close(other.eval()(x), wanted)
        state["weight"] = m.weight.detach().clone()
        del state["weight_v"]
        other = t.nn.utils.spectral_norm(make(t))
        other.load_state_dict(state)
        close(other.eval()(x), wanted)
        del state["weight_u"], state["weight_orig"]
        with pytest.raises(RuntimeError, match="Missing key"):
            t.nn.utils.spectral_norm(make(t)).load_state_dict(state)
        assert "spectral_norm" not in t.nn.utils.remove_spectral_norm(m).state_dict()._metadata[""]
