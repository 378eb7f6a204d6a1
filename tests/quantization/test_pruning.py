"""Sparsifiers, their schedulers and quantized functions, beside PyTorch."""
import copy
import warnings

import numpy as np
import pytest
import torch as judge

import rushlight as torch

BOTH = (judge, torch)


def of(t, path):
    return __import__(f"{t.__name__}.{path}", fromlist=["x"])


def model(t, *sizes):
    made = t.nn.Sequential(*(t.nn.Linear(a, b) for a, b in zip(sizes, sizes[1:])))
    for k, p in enumerate(made.parameters()):
        with t.no_grad():
            p.copy_((t.arange(p.numel()) * 7919 % 104729).reshape(p.shape).float().add(k).sin())
    return made


@pytest.mark.parametrize("options", [{}, {"sparsity_level": 0.3, "sparse_block_shape": (1, 1)}, {"norm": 1},
                                     {"sparsity_level": 0.7, "sparse_block_shape": (2, 3)},
                                     {"sparsity_level": 1.0}, {"sparsity_level": 0.0}, {"zeros_per_block": 2},
                                     {"sparsity_level": 1.0, "zeros_per_block": 2}, {"norm": 5},
                                     {"zeros_per_block": 9}], ids=str)
def test_masks_by_norms(options):
    found = []
    for t in BOTH:
        try:
            net = model(t, *((8, 8, 4) if "zeros_per_block" in options else (9, 8, 5)))  # PyTorch wants whole blocks
            sparsifier = of(t, "ao.pruning").WeightNormSparsifier(**options)
            sparsifier.prepare(net, None)
            sparsifier.step()
            y = net(t.ones(2, net[0].in_features)).detach().numpy()
            masks = [g["module"].parametrizations.weight[0].mask.numpy().copy() for g in sparsifier.groups]
            names = [g["tensor_fqn"] for g in sparsifier.groups]
            sparsifier.squash_mask(params_to_keep=("sparsity_level",))
            found.append((names, masks, y, net[0].sparse_params, [n for n, _ in net.named_parameters()],
                          net[0].weight.detach().numpy()))
        except (ValueError, NotImplementedError) as error:
            found.append(type(error))
    if isinstance(found[0], type):
        assert found[0] is found[1]
        return
    for a, b in zip(*found):
        if isinstance(a, np.ndarray) or isinstance(a, list) and isinstance(a[0], np.ndarray):
            for x, y in zip(np.atleast_1d(a) if isinstance(a, np.ndarray) else a, b):
                np.testing.assert_allclose(y, x, atol=1e-6)
        else:
            assert a == b


@pytest.mark.parametrize("nearliness", [1, 3, 2, 9, 0])
def test_masks_near_diagonals(nearliness):
    found = []
    for t in BOTH:
        net = model(t, 6, 6)
        sparsifier = of(t, "ao.pruning").NearlyDiagonalSparsifier(nearliness)
        sparsifier.prepare(net, [{"tensor_fqn": "0.weight"}])
        try:
            sparsifier.step()
            found.append(net[0].parametrizations.weight[0].mask.tolist())
        except ValueError as error:
            found.append(str(error))
    assert found[0] == found[1]


def test_schedules_and_states():
    found = []
    for t in BOTH:
        pruning, levels = of(t, "ao.pruning"), []
        for make in (lambda s: pruning.CubicSL(s, 0.1, 2, 2, 3, True),
                     lambda s: pruning.LambdaSL(s, lambda e: 1.02**e)):
            net = model(t, 8, 8, 4)
            sparsifier = pruning.WeightNormSparsifier()
            sparsifier.prepare(net, [{"tensor_fqn": "0.weight", "sparsity_level": 0.8}, {"tensor_fqn": "1.weight"}])
            scheduler = make(sparsifier)
            for _ in range(9):
                levels.append(scheduler.get_last_sl())
                sparsifier.step()
                scheduler.step()
        state = copy.deepcopy(sparsifier.state_dict())
        other = pruning.WeightNormSparsifier()
        other.prepare(model(t, 8, 8, 4), [{"tensor_fqn": "0.weight"}, {"tensor_fqn": "1.weight"}])
        other.load_state_dict(state)
        masks = [g["module"].parametrizations.weight[0].mask.tolist() for g in other.groups]
        found.append((levels, sorted(state["groups"][0]), masks, pruning.module_to_fqn(net, net[1]),
                      pruning.get_arg_info_from_tensor_fqn(net, "1.weight")["module_fqn"]))
    np.testing.assert_allclose(found[1][0], found[0][0])
    assert found[0][1:] == found[1][1:]


def given(t, low=-2, high=3, shape=(1, 2, 4, 4), dtype="quint8"):
    count = int(np.prod(shape))
    return t.quantize_per_tensor(t.linspace(low, high, count).reshape(shape), 0.05, 40 if dtype == "quint8" else 0,
                                 getattr(t, dtype))


QUANTIZED = [lambda t, q: q.avg_pool2d(given(t), 2), lambda t, q: q.adaptive_avg_pool2d(given(t), (1, 1)),
             lambda t, q: q.max_pool2d(given(t), 2), lambda t, q: q.max_pool1d(given(t, shape=(1, 2, 6)), 2),
             lambda t, q: q.celu(given(t), 0.04, 30), lambda t, q: q.elu(given(t), 0.04, 30, 0.5),
             lambda t, q: q.leaky_relu(given(t), 0.2), lambda t, q: q.leaky_relu(given(t), 0.2, False, 0.03, 60),
             lambda t, q: q.hardtanh(given(t)), lambda t, q: q.hardswish(given(t), 0.04, 30),
             lambda t, q: q.hardsigmoid(given(t)), lambda t, q: q.threshold(given(t), 0.5, 0.0),
             lambda t, q: q.clamp(given(t), -0.5, 1.0), lambda t, q: q.interpolate(given(t), scale_factor=2),
             lambda t, q: q.upsample_bilinear(given(t), scale_factor=2),
             lambda t, q: q.avg_pool2d(t.ones(1, 1, 2, 2), 2),
             lambda t, q: q.linear(given(t, shape=(3, 8)), given(t, shape=(4, 8), dtype="qint8"), t.ones(4), 0.3, 64),
             lambda t, q: q.conv2d(given(t), given(t, shape=(3, 2, 2, 2), dtype="qint8"), t.ones(3), scale=0.3,
                                   zero_point=64),
             lambda t, q: q.conv1d(given(t, shape=(1, 2, 6)), given(t, shape=(3, 2, 2), dtype="qint8"), None, scale=0.3,
                                   zero_point=64),
             lambda t, q: q.conv2d(given(t), given(t, shape=(3, 2, 2, 2), dtype="qint8"), None,
                                   padding_mode="circular")]


@pytest.mark.parametrize("number", range(len(QUANTIZED)))
def test_functions_of_quantized_tensors(number):
    found = []
    for t in BOTH:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                y = QUANTIZED[number](t, of(t, "ao.nn.quantized.functional"))
                found.append((y.q_scale(), y.q_zero_point(), y.int_repr().numpy().astype(int)))
            except (ValueError, NotImplementedError) as error:
                found.append(type(error))
    if isinstance(found[0], type):
        assert found[0] is found[1]
        return
    assert found[0][:2] == pytest.approx(found[1][:2])
    assert np.abs(found[0][2] - found[1][2]).max() <= 1  # a tie may be rounded the other way


def test_names_of_modules():
    for t in BOTH:
        utils = of(t, "ao.pruning.sparsifier.utils")
        model = t.nn.Sequential(t.nn.Linear(2, 2))
        assert utils.fqn_to_module(model, "0") is model[0] and utils.fqn_to_module(model, "0.weight") is model[0].weight
        assert utils.fqn_to_module(model, "5") is None and utils.fqn_to_module(model, "5.weight") is None
