"""Memory of sparse operators: it depends on the number of elements, not on the product of the sizes."""
import subprocess
import sys
import textwrap

import pytest

resource = pytest.importorskip("resource")
SIZE = 50_000
CALLS = {  # by the operator that has a rule; A is a square tensor of each layout, x a vector, X a matrix of a column
    "add": "A + A, A - B, torch.add(A, B, alpha=2)", "sub": "A - A", "sum": "A.sum(), A.sum(1, keepdim=True)",
    "mul": "A * A, A * B, A * x, A * X, A * 2, x * A", "div": "A / 2",
    "mm": "torch.mm(A, X), torch.mm(A.t(), X), torch.mm(X.t(), A), torch.mm(A, A), torch.sparse.mm(A, X)",
    "matmul": "A @ X, A @ x, x @ A, A.t() @ x, x @ A.t(), A @ X.expand(2, -1, -1), X.t().expand(2, -1, -1) @ A, A @ B",
    "mv": "torch.mv(A, x), torch.mv(A.t(), x)", "bmm": "torch.bmm(torch.stack([C, C]), torch.stack([X, X]))",
    "nn.functional.linear": "torch.nn.functional.linear(x[None], A), torch.nn.functional.linear(x, A, x)",
    "addmm": "torch.addmm(X, A, X), torch.addmm(X, A.t(), X, beta=2), torch.addmm(A, A, A)",
    "addmv": "torch.addmv(x, A, x)", "transpose": "A.transpose(0, 1), A.mT", "adjoint": "A.adjoint()", "t": "A.t()",
    "permute": "A.permute(1, 0)", "cat": "torch.cat([C, C]), torch.cat([C, C], 1)", "stack": "torch.stack([C, C])",
    "index_select": "A.index_select(0, torch.arange(n)), A.index_select(1, torch.arange(n))",
    "select": "A[0], A[:, 1], A.select(1, 2)", "unbind": "narrow.unbind(1)", "unsqueeze": "A.unsqueeze(0), C[None]",
    "narrow_copy": "A.narrow_copy(0, 1, n - 2)", "narrow": "A.narrow(0, 1, n - 2)", "norm": "A.norm()",
    "any": "A.any()", "clone": "A.clone()", "detach": "A.detach()", "neg": "-A", "positive": "+A",
    "zero_": "A.detach().clone().zero_()", "fill_": "R.detach().clone().fill_(2.0)", "ones_like": "torch.ones_like(R)",
    "full_like": "torch.full_like(R, 3.0)", "zeros_like": "torch.zeros_like(A)", "empty_like": "torch.empty_like(A)",
    "randn_like": "torch.randn_like(R)",
    "new_zeros": "A.new_zeros((n, n))", "new_empty": "A.new_empty((n, n))",
    "copy_": "A.detach().clone().copy_(A.detach())",
    "resize_as_": "torch.sparse_coo_tensor((n, n), dtype=x.dtype).resize_as_(C)",
}
WITHOUT_RULE = (
    "A.to_sparse_coo(), A.to_sparse_csr(), A.to_sparse_csc(), A.to_sparse_bsr((2, 2)), A.to_sparse_bsc((4, 2))",
    "A.to_sparse_csc().to_sparse_csr(), A.t().to_sparse_bsr((5, 5)).t().to_sparse_coo().coalesce()",
    "A.relu(), A.sin(), A.abs(), A ** 2, torch.sqrt(A * A)", "A.sparse_mask(A), C.sparse_mask(A), C.sparse_mask(R)",
    "torch.sparse.softmax(C, 1), torch.sparse.log_softmax(C, 0)", "torch.sparse.sum(C, 0), torch.sparse.sum(C, (0, 1))",
    "torch.sparse.sampled_addmm(R, X, X.t())", "torch.sparse.mm(R, X, 'mean'), torch.sparse.mm(R, X, 'amax')",
    "torch.smm(C, X), torch.hspmm(C, X), torch.sspaddmm(narrow, C, X.expand(-1, 2))",
    "torch.zeros(n, n, layout=torch.sparse_coo), torch.zeros(n, n, layout=torch.sparse_csr)",
    "torch.empty(n, n, layout=torch.sparse_csc), torch.zeros_like(x[:, None].expand(n, n), layout=torch.sparse_coo)",
    "A.to(torch.float32), A.float(), A.real, A.clone().mul_(2), A.clone().add_(A)",
    "C.sum(0), C.sum(1), C.sum((0, 1)), C.sum(0, keepdim=True)", "repr(A), copy.deepcopy(A.detach())",
)
MASKED = {  # what follows the tensor in calls of masked operators
    **{name: "1" for name in ("sum", "prod", "amax", "amin", "argmax", "argmin", "mean", "median", "logsumexp", "var",
                              "std", "softmax", "log_softmax", "softmin", "cumsum", "cumprod")},
    "norm": "2.0, 1", "normalize": "2.0, 1",
}
MASKED_CALLS = [f"torch.masked.{name}({x}, {given}, mask={mask}{kept})" for name, given in MASKED.items()
                for x, mask in (("C", "M"), ("R", "M.to_sparse_csr()"))
                for kept in [", keepdim=True" if name not in ("softmax", "log_softmax", "softmin", "cumsum", "cumprod",
                                                              "normalize") else ""]]
PROGRAM = """
import copy, resource
import rushlight as torch

n, small = {size}, 40
kinds = {{"coo": lambda a: a, "csr": lambda a: a.to_sparse_csr(), "csc": lambda a: a.to_sparse_csc(),
         "bsr": lambda a: a.to_sparse_bsr((2, 2)), "bsc": lambda a: a.to_sparse_bsc((2, 2))}}


def run(n, layout, calls):
    at = torch.arange(2 * n) // 2
    places = torch.stack([at, (at * 7 + torch.arange(2 * n)) % n])
    values = torch.ones(2 * n, dtype=torch.float64, requires_grad=True)
    C = torch.sparse_coo_tensor(places, values, (n, n)).coalesce()
    A, R = kinds[layout](C), C.to_sparse_csr()
    B = kinds[layout](torch.sparse_coo_tensor(places.flip(0), values, (n, n)).coalesce())
    M = torch.sparse_coo_tensor(places, torch.ones(2 * n, dtype=torch.bool), (n, n)).coalesce()
    narrow = torch.sparse_coo_tensor(torch.stack([places[0], places[1] % 2]), values, (n, 2))
    x = torch.ones(n, dtype=torch.float64, requires_grad=True)
    X, refused = x[:, None], set()
    for source in calls:
        try:
            found = eval(source)
        except (RuntimeError, NotImplementedError):
            refused.add(source)
            continue
        for one in found if isinstance(found, tuple) else (found,):
            if isinstance(one, torch.Tensor) and one.requires_grad:
                (one if one.layout is torch.strided else one.inner).sum().backward(retain_graph=True)
    return refused


refused = run(small, "{layout}", {calls!r})  # what is imported and compiled counts before the limit
taken = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (taken + ({limit} << 20),) * 2)
assert run(n, "{layout}", {calls!r}) == refused, "refused for want of memory"
print("done", sorted(refused))
"""


def split(calls):
    """The calls of a tuple as source text."""
    import ast
    return [ast.unparse(call) for text in calls for call in ast.parse(f"({text},)", mode="eval").body.elts]


def test_every_rule_is_called():
    from rushlight.sparse.rules import RULES
    from rushlight._src.core.op import OPS
    assert {OPS[name] for name in (*CALLS, *(f"masked.{name}" for name in MASKED))} == set(RULES)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc, and RLIMIT_AS limits nothing elsewhere")
@pytest.mark.parametrize("layout", ["coo", "csr", "csc", "bsr", "bsc"])
def test_memory_is_bounded(layout):
    source = textwrap.dedent(PROGRAM).format(size=SIZE, layout=layout, limit=800,
                                             calls=split([*CALLS.values(), *WITHOUT_RULE,
                                                    *(MASKED_CALLS if layout == "coo" else ())]))
    found = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=600)
    assert found.returncode == 0 and found.stdout.startswith("done"), found.stderr[-3000:]
