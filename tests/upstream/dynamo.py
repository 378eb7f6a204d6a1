"""Helpers of PyTorch's that Dynamo's tests use: a base class, printed graphs in one form, and the run of a function and
its compiled form."""
from __future__ import annotations

import contextlib
import re


def test_case(torch, base):
    """The class that Dynamo's tests derive from: each test begins and ends with nothing compiled."""
    class TestCase(base):
        @classmethod
        def setUpClass(cls):
            super().setUpClass()
            cls._exit_stack = contextlib.ExitStack()

        @classmethod
        def tearDownClass(cls):
            cls._exit_stack.close()
            super().tearDownClass()

        def setUp(self):
            self.grad_was_enabled = torch.is_grad_enabled()
            super().setUp()
            torch._dynamo.reset()
            torch._dynamo.utils.counters.clear()

        def tearDown(self):
            torch._dynamo.reset()
            super().tearDown()
            torch.set_grad_enabled(self.grad_was_enabled)
    return TestCase


def helpers(torch) -> dict:
    """{name in torch._dynamo.testing: helper}."""
    import torch._dynamo.testing as testing
    config = torch._dynamo.config

    def standard_test(self, fn, nargs, expected_ops=None, expected_ops_dynamic=None, expected_frame_count=1):
        given = [[torch.randn(10, 10) for _ in range(nargs)] for _ in range(2)]
        expected, counter = [fn(*args) for args in given], testing.CompileCounter()
        torch._dynamo.reset()
        compiled = torch.compile(fn, backend=counter, fullgraph=True)
        for args, right in 2 * [*zip(given, expected)]:
            self.assertTrue(testing.same(compiled(*args), right))
        self.assertEqual(counter.frame_count, expected_frame_count)
        ops = expected_ops if config.assume_static_by_default or expected_ops_dynamic is None else expected_ops_dynamic
        if ops is not None:
            self.assertEqual(counter.op_count, ops)

    def requires_bwd_pass(out):
        if isinstance(out, (list, tuple)):
            return any(map(requires_bwd_pass, out))
        return isinstance(out, torch.Tensor) and out.requires_grad

    def collect_results(model, prediction, loss, inputs):
        named = [*model.named_parameters()]
        gradients = {f"{name}.grad": torch.zeros_like(p) if p.grad is None else p.grad for name, p in named}
        return [prediction, loss, gradients, dict(named), dict(model.named_buffers()), [
            leaf.grad for leaf in torch.utils._pytree.tree_leaves(inputs) if isinstance(leaf, torch.Tensor)]]

    return dict(
        standard_test=standard_test, requires_bwd_pass=requires_bwd_pass, collect_results=collect_results,
        unsupported=lambda first, second: first,
        check_dynamic_shape_capture=lambda: not config.assume_static_by_default,
        strip_comment=lambda code: re.sub(r"(?m)^ *#.*\n?", "", str(code)),
        remove_trailing_space=lambda code: re.sub(r"(?m)[ \t]+$", "", code),
        empty_line_normalizer=lambda code: re.sub(r"[\r\n]+", "\n", str(code)),
        normalize_gm=lambda code: re.sub(r"(?m)^ *(#.*)?\n", "", code))
