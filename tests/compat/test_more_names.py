"""Names of PyTorch's files and older functions: what they compute is what PyTorch computes."""
import importlib

import pytest
import torch

import rushlight

LIBRARIES = (torch, rushlight)


def both(program):
    """What both libraries make of a program, as nested lists."""
    torch.manual_seed(0)
    rushlight.manual_seed(0)
    return [plain(program(library)) for library in LIBRARIES]


def plain(value):
    if isinstance(value, (tuple, list)):
        return [plain(v) for v in value]
    return value.tolist() if hasattr(value, "tolist") else value


def weights(t, module):
    """The parameters of a network, filled alike."""
    return [t.arange(p.numel()).reshape(tuple(p.shape)).float().sin() / 3 for p in module.parameters()]


PROGRAMS = {
    "segments": lambda t: [t.segment_reduce(t.tensor([1.0, 2, 3, 4, 5, 6]), how, lengths=t.tensor([2, 0, 4]),
                                            initial=10) for how in ("sum", "mean", "max", "min", "prod")],
    "segments along 1": lambda t: t.segment_reduce(t.arange(12.0).reshape(2, 6), "max",
                                                   lengths=t.tensor([[1, 5], [3, 3]]), axis=1),
    "lstm": lambda t: [x.mul(1e4).round() for x in t.lstm(t.ones(5, 2, 3), (t.zeros(4, 2, 4), t.zeros(4, 2, 4)),
                                                          weights(t, t.nn.LSTM(3, 4, 2, bidirectional=True)), True, 2,
                                                          0.0,
                                                           False, True, False)],
    "gru": lambda t: [x.mul(1e4).round() for x in t.gru(t.ones(5, 2, 3), t.zeros(1, 5, 4), weights(t, t.nn.GRU(3, 4)),
                                                        True, 1, 0.0, False, False, True)],
    "rnn": lambda t: [x.mul(1e4).round() for x in t.rnn_relu(t.ones(5, 2, 3), t.zeros(1, 2, 4),
                                                             weights(t, t.nn.RNN(3, 4, bias=False)), False, 1, 0.0,
                                                             False, False, False)],
    "packed": lambda t: [x.mul(1e4).round() for x in t.lstm(t.ones(5, 3), t.tensor([2, 2, 1]),
                                                            (t.zeros(1, 2, 4), t.zeros(1, 2, 4)),
                                                            weights(t, t.nn.LSTM(3, 4)), True, 1, 0.0,
                                                            False, False)],
    "losses": lambda t: [t.margin_ranking_loss(t.ones(2), t.zeros(2), t.ones(2)),
                         t.cosine_embedding_loss(t.ones(2, 3), t.ones(2, 3), t.ones(2), 0.0, 1),
                         t.kl_div(t.zeros(2), t.ones(2))],
    "layout": lambda t: [t.ones(2, 3).sparse_dim(), t.ones(2, 3).dense_dim(),
                         t.empty(2, 3, 4).transpose(0, 2).dim_order(), t.ones(2).is_distributed(), t.ones(2).output_nr],
    "copies": lambda t: [t.slice_copy(t.arange(5), 0, 1, 3), t.view_as_real_copy(t.ones(1, dtype=t.complex64)),
                         t.unsafe_split_with_sizes(t.ones(3), [1, 2])],
    "in place": lambda t: [t.tensor([1.0, 2.0]).polygamma_(1).mul(1e3).round(),
                           t.zeros(2).map2_(t.ones(2), t.ones(2), lambda a, b, c: a + b + c)],
    "symbols": lambda t: [t.sym_sum([1, 2, 3]), t.sym_sqrt(4)],
    "typed": lambda t: t.FloatTensor(t.ones(2)),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("ignore")
def test_as_in_torch(name):
    theirs, ours = both(PROGRAMS[name])
    assert ours == theirs


@pytest.mark.parametrize("name", ["symeig", "eig", "solve", "matrix_rank"])
def test_removed_functions_say_what_to_write(name):
    with pytest.raises(RuntimeError, match="torch.linalg"):
        getattr(rushlight, name)(rushlight.eye(2))


@pytest.mark.parametrize("largest", [True, False])
def test_extreme_eigenvalues(largest):
    rushlight.manual_seed(0)
    a = rushlight.randn(30, 30, dtype=rushlight.float64)
    a = (a @ a.mT + rushlight.eye(30, dtype=rushlight.float64)).requires_grad_()
    values, vectors = rushlight.lobpcg(a, k=3, largest=largest)
    expected = rushlight.linalg.eigvalsh(a)
    expected = expected.flip(0)[:3] if largest else expected[:3]
    rushlight.testing.assert_close(values, expected, rtol=1e-5, atol=1e-6)
    values.sum().backward()
    assert rushlight.allclose(a.grad, vectors @ vectors.mT, atol=1e-4)
    with pytest.raises(ValueError, match="3 x"):
        rushlight.lobpcg(a, k=11)


def test_absent_devices():
    for use in (lambda t: t.ones(2, device="cuda"), lambda t: t.ones(2).cuda(), lambda t: t.ones(2).xpu(),
                lambda t: t.cuda.current_device(), lambda t: t.cuda.get_rng_state()):
        for library in LIBRARIES:
            with pytest.raises(AssertionError):
                use(library)
    with pytest.raises(RuntimeError):
        rushlight.cuda.Stream()
    assert rushlight.cuda.memory_stats() == {} and rushlight.cuda.get_rng_state_all() == []
    assert rushlight.xpu.memory_reserved() == 0


@pytest.mark.parametrize("module, names", [
    ("functional", "einsum meshgrid split norm"), ("_tensor", "Tensor"),
    ("_utils", "_flatten_dense_tensors _rebuild_tensor_v2"), ("_VF", "lstm"),
    ("amp.autocast_mode", "autocast custom_fwd"),
    ("amp.grad_scaler", "GradScaler OptState"), ("autograd.grad_mode", "no_grad"),
    ("autograd.anomaly_mode", "detect_anomaly"), ("nn.common_types", "_size_2_t _ratio_any_t"),
    ("utils.weak", "WeakTensorKeyDictionary"), ("utils.deterministic", "fill_uninitialized_memory"),
    ("_dynamo.exc", "Unsupported TorchRuntimeError"),
    ("fx.experimental.symbolic_shapes", "ShapeEnv is_concrete_int statically_known_true"), ("cuda.graphs", "CUDAGraph"),
    ("cuda.streams", "Stream"), ("cuda.amp.grad_scaler", "OptState"),
    ("package", "PackageExporter"), ("monitor", "Stat"), ("quasirandom", "SobolEngine")])
def test_modules(module, names):
    for library in LIBRARIES:
        found = importlib.import_module(f"{library.__name__}.{module}")
        assert all(hasattr(found, name) for name in names.split())


def test_types_of_results():
    import rushlight.return_types as types
    assert isinstance(rushlight.max(rushlight.eye(2), 0),
                      types.max) and isinstance(rushlight.linalg.qr(rushlight.eye(2)), types.linalg_qr)


def test_gradients_of_convolutions():
    for library in LIBRARIES:
        from_name = importlib.import_module(f"{library.__name__}.nn.grad")
        x, w = library.randn(1, 2, 5, 5, requires_grad=True), library.randn(3, 2, 3, 3, requires_grad=True)
        out = library.nn.functional.conv2d(x, w, padding=1)
        by_x, by_w = library.autograd.grad(out, (x, w), library.ones_like(out))
        assert library.allclose(from_name.conv2d_input(x.shape, w, library.ones_like(out), padding=1), by_x, atol=1e-5)
        assert library.allclose(from_name.conv2d_weight(x, w.shape, library.ones_like(out), padding=1), by_w, atol=1e-4)


def test_weak_keys_and_swapped_tensors():
    from rushlight.utils import swap_tensors
    from rushlight.utils.weak import WeakTensorKeyDictionary
    known, x = WeakTensorKeyDictionary(), rushlight.ones(2)
    known[x] = 1
    assert known[x] == 1 and x in known and rushlight.ones(2) not in known and list(known) == [x]
    del x
    assert len(known) == 0
    a, b = rushlight.nn.Parameter(rushlight.ones(2)), rushlight.zeros(3)
    a.grad, a.note = rushlight.ones(2), "mine"
    swap_tensors(a, b)
    assert a.tolist() == [0, 0, 0] and type(
        a) is rushlight.Tensor and not a.requires_grad and a.grad is None and not hasattr(a, "note")
    assert b.tolist() == [1, 1] and type(b) is rushlight.nn.Parameter and b.requires_grad and b.grad.tolist() == [
        1, 1] and b.note == "mine"
    with pytest.raises(RuntimeError, match="view"):
        swap_tensors(a[:1], b)


def test_causal_masks():
    q, k = rushlight.randn(1, 1, 3, 4), rushlight.randn(1, 1, 5, 4)
    from rushlight.nn.attention.bias import causal_lower_right, causal_upper_left
    attend = rushlight.nn.functional.scaled_dot_product_attention
    for bias, below in ((causal_upper_left(3, 5), 0), (causal_lower_right(3, 5), 2)):
        allowed = rushlight.ones(3, 5, dtype=rushlight.bool).tril(below)
        assert rushlight.equal(bias & True, allowed)
        rushlight.testing.assert_close(attend(q, k, k, attn_mask=bias), attend(q, k, k, attn_mask=allowed))
    with pytest.raises(ValueError):
        attend(q, k, k, attn_mask=causal_upper_left(3, 5), is_causal=True)
