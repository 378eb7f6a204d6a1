"""Warnings: what PyTorch warns of is warned of, in the same category, with the program's own line."""
import warnings

import numpy as np
import pytest
import torch

import rushlight
from rushlight._src.core import advice


def inner(torch, **more):
    return {"torch": torch, "nn": torch.nn, "F": torch.nn.functional, "np": np, **more}


def warned(module, code):
    """The warnings of a program, run with one library or the other."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        exec(compile(code, "<program>", "exec"), inner(module))
    return seen


PROGRAMS = [
    "y = torch.randn(2, requires_grad=True) * 2; y.sum().backward(); y.grad",
    "o = torch.optim.SGD(nn.Linear(2, 2).parameters(), 0.1); s = torch.optim.lr_scheduler.StepLR(o, 1); s.step()",
    "o = torch.optim.SGD(nn.Linear(2, 2).parameters(), 0.1); s = torch.optim.lr_scheduler.StepLR(o, 1); o.step(); "
    "s.step(3)",
    "torch.optim.Adam([{'params': [nn.Parameter(torch.ones(1))] * 2}])",
    "F.grid_sample(torch.ones(1, 1, 2, 2), torch.zeros(1, 1, 1, 2))",
    "F.affine_grid(torch.eye(2, 3)[None], (1, 1, 2, 2))",
    "F.upsample(torch.ones(1, 1, 2, 2), scale_factor=2)",
    "F.upsample_bilinear(torch.ones(1, 1, 2, 2), scale_factor=2)",
    "torch.meshgrid(torch.arange(2), torch.arange(3))",
    "torch.ones(2, 3, 4).T",
    "torch.ones(3)[torch.tensor([1, 0, 1], dtype=torch.uint8)]",
    "torch.where(torch.tensor([1, 0, 1, 0, 1, 1, 0], dtype=torch.uint8), torch.ones(7), torch.zeros(7))",
    "F.mse_loss(torch.ones(13, 1), torch.ones(13))",
    "F.l1_loss(torch.ones(13, 1), torch.ones(13))",
    "nn.MSELoss(size_average=False)",
    "F.softmax(torch.ones(3, 3))",
    "a = np.ones(3); a.setflags(write=False); torch.from_numpy(a)",
    "torch.tensor([np.ones(3), np.ones(3)])",
    "torch.frombuffer(b'abcd', dtype=torch.float32)",
    "torch.tensor(torch.ones(2))",
    "torch.ones(1, 17).std(0)",
    "torch.ones(1, 17).var(0)",
    "torch.ones(1).cov()",
    "F.kl_div(torch.zeros(2, 2), torch.ones(2, 2))",
    "x = torch.ones(2, requires_grad=True); (x ** 2).sum().backward(create_graph=True)",
    "m = nn.Linear(2, 2); m.register_full_backward_hook(lambda *a: None); m(torch.ones(2)).sum().backward()",
    "m = nn.Linear(2, 2); m.register_backward_hook(lambda *a: None); m(torch.ones(2)).sum().backward()",
    "torch.utils.data.DataLoader(list(range(4)), num_workers=4096)",
    "torch.cross(torch.ones(3, 3), torch.ones(3, 19).narrow(1, 2, 3))",
    "torch.chain_matmul(torch.eye(2), torch.eye(2))",
    "torch.range(0, 3)",
    "torch.stft(torch.ones(64), 16, return_complex=True)",
    "torch.lu(torch.eye(2))",
    "torch.cholesky(torch.eye(2))",
    "torch.qr(torch.eye(2))",
    "torch.triangular_solve(torch.ones(2, 1), torch.eye(2))",
    "nn.init.xavier_normal(torch.empty(2, 2))",
    "nn.init.kaiming_uniform_(torch.empty(0, 2))",
    "nn.utils.clip_grad_norm(nn.Linear(2, 2).parameters(), 1.0)",
    "nn.utils.weight_norm(nn.Linear(2, 2))",
    "F.dropout2d(torch.ones(2, 3, 4))",
    "F.dropout3d(torch.ones(2, 3, 4))",
    "F.gumbel_softmax(torch.ones(3), eps=1e-5)",
    "nn.NLLLoss2d()",
    "nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2), 1)",
    "nn.InstanceNorm1d(2)(torch.randn(1, 3, 4))",
    "torch.ones(2, dtype=torch.complex64).float()",
    "float(torch.ones(1, requires_grad=True))",
    "torch.set_default_tensor_type(torch.FloatTensor)",
    "torch.cuda.amp.GradScaler(enabled=False)",
    "torch.cpu.amp.autocast()",
    "torch.searchsorted(torch.arange(4), torch.tensor([1, 2, 3, 4])[::2])",
    "torch.distributions.Normal(0.0, 1.0).sample_n(2)",
    "torch.autograd.gradcheck(lambda x: x, torch.ones(2, requires_grad=True), raise_exception=False)",
    "torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])",
]


@pytest.fixture
def always():
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    yield
    torch.set_warn_always(before)


@pytest.mark.parametrize("code", PROGRAMS)
def test_what_pytorch_warns_of(code, always):
    theirs, ours = warned(torch, code), warned(rushlight, code)
    assert theirs, "the judge says nothing: the program does not belong here"
    assert {w.category for w in theirs} == {w.category for w in ours}
    assert all(w.filename == "<program>" for w in ours)


@pytest.mark.parametrize("code", [
    "torch.ones(2, 3).T; torch.ones(3, 4).var(0); torch.meshgrid(torch.arange(2), torch.arange(3), indexing='ij')",
    "o = torch.optim.SGD(nn.Linear(2, 2).parameters(), 0.1); s = torch.optim.lr_scheduler.StepLR(o, 1); o.step(); "
    "s.step()",
    "S = torch.optim.lr_scheduler; o = torch.optim.SGD(nn.Linear(2, 2).parameters(), 0.1); s = S.SequentialLR(o, "
    "[S.ConstantLR(o), S.StepLR(o, 2)], [2]); o.step(); s.step(); s.step()",
    "y = torch.randn(2, requires_grad=True) * 2; y.retain_grad(); y.sum().backward(); y.grad",
    "x = torch.ones(2, requires_grad=True); torch.autograd.grad((x ** 2).sum(), x, create_graph=True); x.item if 0 "
    "else x.detach()[0].item()",
    "m = nn.Linear(2, 2); m.register_full_backward_hook(lambda *a: None); m(torch.ones(2, "
    "requires_grad=True)).sum().backward()",
    "torch.nn.functional.interpolate(torch.ones(1, 1, 2, 2), scale_factor=2.0, mode='bilinear'); "
    "F.dropout2d(torch.ones(1, 2, 3, 4))",
])
def test_what_is_right_is_not_warned_of(code, always):
    assert not warned(torch, code) and not warned(rushlight, code)


def test_h_is_of_matrices():
    for module in (torch, rushlight):
        with pytest.raises(RuntimeError, match="matrices"):
            module.ones(2, 3, 4).H


def test_a_plan_that_warns_is_not_kept_on_disk(monkeypatch):
    kept = []
    monkeypatch.setattr("rushlight._src.eager.store.put", lambda entry, plan: kept.append(plan.op.name))
    with pytest.warns(UserWarning, match="degrees of freedom"):
        rushlight.ones(1, 23, 2).var(0)
    assert "var" not in kept


def test_a_warning_names_the_line_of_the_program():
    with pytest.warns(UserWarning) as seen:
        rushlight.ones(2, 3, 4).T
    assert seen[0].filename == __file__
    assert not advice.caller().f_code.co_filename.startswith(advice.INSIDE)
