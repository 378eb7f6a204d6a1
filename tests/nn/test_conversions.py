"""Modules converted and loaded under the switches of ``torch.__future__``; hooks of all modules by PyTorch's names."""
import gc
import pickle
import weakref
from collections import OrderedDict, namedtuple

import pytest
import torch as judge

import rushlight as torch

BOTH = (judge, torch)


@pytest.fixture(params=["overwrite", "swap"])
def switched(request):
    name = f"set_{request.param}_module_params_on_conversion"
    for t in BOTH:
        getattr(t.__future__, name)(True)
    yield request.param
    for t in BOTH:
        getattr(t.__future__, name)(False)


def converted(t):
    m = t.nn.Linear(2, 3)
    weight = m.weight
    m(t.ones(1, 2)).sum().backward()
    gradient = weight.grad
    m.to(t.float64)
    return (m.weight is weight, str(m.weight.dtype), str(weight.dtype), str(m.weight.grad.dtype),
            m.weight.grad is gradient, m.weight.requires_grad, type(m.weight).__name__)


def test_conversion(switched):
    assert converted(torch) == converted(judge)


def test_conversion_without_switches():
    assert converted(torch)[:4] == converted(judge)[:4]


@pytest.mark.parametrize("assign", [False, True])
def test_loading_exchanges(switched, assign):
    def loaded(t):
        m, other = t.nn.Linear(2, 3), t.nn.Linear(2, 3)
        weight = m.weight
        m.load_state_dict(other.state_dict(), assign=assign)
        return (m.weight is weight, bool((m.weight == other.weight).all()), m.weight.requires_grad,
                type(m.weight).__name__)
    assert loaded(torch) == loaded(judge)


def test_loading_leaves_no_cycle_and_keeps_the_wish_for_a_gradient():
    m = torch.nn.LSTM(4, 4)

    def state():
        return {k: torch.nn.Parameter(v.clone(), requires_grad=False) for k, v in m.state_dict().items()}
    given = state()
    known = [weakref.ref(v) for v in given.values()]
    gc.disable()
    try:
        m.load_state_dict(given)
        del given
        assert not any(r() is not None for r in known)
    finally:
        gc.enable()
    m.load_state_dict(state(), assign=True)
    assert all(p.requires_grad for p in m.parameters())


def test_meta_parameters_say_that_nothing_is_copied():
    for t in BOTH:
        with pytest.warns(UserWarning, match="which is a no-op"):
            t.nn.Linear(2, 2, device="meta").load_state_dict(t.nn.Linear(2, 2).state_dict())


def test_memory_format_of_modules():
    for t in BOTH:
        m = t.nn.Sequential(t.nn.Conv2d(3, 4, 2), t.nn.Linear(2, 2)).to(memory_format=t.channels_last)
        assert m[0].weight.is_contiguous(memory_format=t.channels_last) and m[0].weight.stride() == (12, 1, 6, 3)


def test_hooks_of_all_modules_are_replaced_by_assignment():
    for t in BOTH:
        home, seen = t.nn.modules.module, []
        handle = home.register_module_forward_hook(lambda m, i, o: seen.append(1), always_call=True)
        assert len(home._global_forward_hooks) == len(home._global_forward_hooks_always_called) == 1
        assert handle.hooks_dict_ref() is home._global_forward_hooks
        before, home._global_forward_hooks = home._global_forward_hooks, OrderedDict()
        t.nn.ReLU()(t.ones(1))
        assert seen == []
        home._global_forward_hooks = before
        t.nn.ReLU()(t.ones(1))
        handle.remove()
        t.nn.ReLU()(t.ones(1))
        assert seen == [1] and not home._global_forward_hooks


@pytest.mark.parametrize("kind, answer", [
    ("forward_pre", lambda m, i: (i[0] * 3,)), ("forward", lambda m, i, o: o * 3),
    ("backward_pre", lambda m, g: (g[0] * 3,)), ("backward", lambda m, i, o: (i[0] * 3,))])
@pytest.mark.parametrize("assigned", [False, True])
def test_hooks_of_all_modules_are_filled_by_name(kind, answer, assigned):
    for t in BOTH:
        home, name = t.nn.modules.module, f"_global_{kind}_hooks"
        before, full = getattr(home, name), home._global_is_full_backward_hook
        home._global_is_full_backward_hook = True
        if assigned:
            setattr(home, name, OrderedDict())
        getattr(home, name)[-1] = answer
        try:
            x = t.ones(2, requires_grad=True)
            y = t.nn.ReLU()(x)
            y.sum().backward()
            assert home._has_any_global_hook()
        finally:
            del getattr(home, name)[-1]
            setattr(home, name, before)
            home._global_is_full_backward_hook = full
        assert y.tolist() == [3.0 if kind.startswith("forward") else 1.0] * 2 and x.grad.tolist() == [3.0, 3.0]
        assert t.nn.ReLU()(x).tolist() == [1.0, 1.0]


def test_a_hook_by_name_ends_the_fast_path_of_an_encoder():
    for t in BOTH:
        home, seen = t.nn.modules.module, set()
        layer = t.nn.TransformerEncoderLayer(4, 1, 8, batch_first=True).eval()
        home._global_forward_hooks[-1] = lambda m, i, o: seen.add(type(m).__name__)
        try:
            with t.no_grad():
                layer(t.ones(1, 2, 4))
        finally:
            del home._global_forward_hooks[-1]
        assert {"TransformerEncoderLayer", "Linear", "LayerNorm", "Dropout"} <= seen


def test_backward_hooks_keep_named_tuples():
    Pair = namedtuple("Pair", "a b")
    for t in BOTH:
        class Twice(t.nn.Module):
            def forward(self, x):
                return Pair(x * 2, x * 3)
        m = Twice()
        m.register_full_backward_hook(lambda m, i, o: None)
        assert m(t.ones(1, requires_grad=True)).b.item() == 3


def test_a_hook_does_not_keep_its_module():
    for t in BOTH:
        m = t.nn.Linear(2, 2)
        m.register_load_state_dict_pre_hook(loading)
        assert pickle.loads(pickle.dumps(m)).load_state_dict(m.state_dict()) is not None


def loading(module, *args):
    assert type(module).__name__ == "Linear"


def test_packed_sequences_keep_whole_numbers():
    for t in BOTH:
        utils = t.nn.utils.rnn
        packed = utils.pack_sequence([t.tensor([1, 2, 3]), t.tensor([4, 5])], enforce_sorted=False)
        assert [p.tolist() for p in utils.unpack_sequence(packed)] == [[1, 2, 3], [4, 5]]
        assert utils.unpack_sequence(packed)[0].dtype is t.int64
        assert packed.double().data.dtype is t.float64 and packed.to("cpu") is packed and not packed.is_cuda
        with pytest.raises(RuntimeError, match="Expected iterable"):
            utils.pad_sequence(5)
        with pytest.raises(RuntimeError, match="empty tensors"):
            utils.pack_padded_sequence(t.zeros(0, 2), t.tensor([1, 1]))


def test_parameters_without_a_shape_are_pickled_and_refuse_the_rest():
    for t in BOTH:
        m = pickle.loads(pickle.dumps(t.nn.LazyLinear(3)))
        assert isinstance(m.weight, t.nn.parameter.UninitializedParameter)
        assert m(t.ones(2, 4)).shape == (2, 3)
        lazy = t.nn.LazyLinear(3)
        with pytest.raises(RuntimeError, match="share memory on an uninitialized"):
            lazy.share_memory()
        with pytest.raises(ValueError, match="have uninitialized parameters"):
            t.nn.utils.spectral_norm(lazy)
        single = t.nn.parameter.UninitializedParameter()
        single.materialize(3)
        assert single.shape == (3,)


def test_a_parametrization_on_top_of_another_inverts_its_own_result():
    class Half(torch.nn.Module):
        def forward(self, x):
            return x / 2

        def right_inverse(self, x):
            assert float(x.max()) <= 0.5
            return x * 2
    m = torch.nn.Linear(2, 2)
    torch.nn.init.ones_(m.weight)
    torch.nn.utils.parametrize.register_parametrization(m, "weight", torch.nn.Identity())
    torch.nn.utils.parametrize.register_parametrization(m, "weight", Half())
    assert float(m.weight.max()) == 0.5


def test_weights_of_recurrent_networks_in_order():
    for t in BOTH:
        m = t.nn.LSTM(3, 4, num_layers=2, bidirectional=True)
        assert [id(w) for w in m._flat_weights] == [id(w) for w in m.parameters()]
        assert m._flat_weights_names == [n for n, _ in m.named_parameters()]
