"""Tests over each database of PyTorch's testing library, written as PyTorch's own are; test_databases.py runs a sample.

References are those that the databases name; gradients are compared with finite differences.
"""
import torch
from torch.testing._internal.autograd_function_db import autograd_function_db
from torch.testing._internal.common_device_type import instantiate_device_type_tests, ops
from torch.testing._internal.common_methods_invocations import op_db, python_ref_db
from torch.testing._internal.common_modules import module_db, modules
from torch.testing._internal.common_optimizers import optim_db, optims
from torch.testing._internal.common_utils import TestCase, gradcheck
from torch.testing._internal.custom_op_db import custom_op_db
from torch.testing._internal.hop_db import hop_db

SAMPLES = 2  # of one entry


def differentiable(database: list) -> list:
    return [info for info in database if info.supports_autograd and info.supports_dtype(torch.float64, "cpu")]


def first_samples(info, **kwargs) -> list:
    return [sample for sample, _ in zip(info.sample_inputs("cpu", torch.float64, **kwargs), range(SAMPLES))]


def check_gradients(op):
    """gradcheck of the first samples whose input is a tensor that can have a gradient."""
    for sample in first_samples(op, requires_grad=True):
        def run(*args, sample=sample):
            found = op.gradcheck_wrapper(op.get_op(), *args, **sample.kwargs)
            return found if sample.output_process_fn_grad is None else sample.output_process_fn_grad(found)

        arguments = sample.input, *sample.args
        if any(isinstance(value, torch.Tensor) and value.requires_grad for value in arguments):
            gradcheck(run, arguments, check_batched_grad=False, fast_mode=op.gradcheck_fast_mode)


def compute_loss(optimizer, weight):
    optimizer.zero_grad()
    loss = (weight * weight).sum()
    loss.backward()
    return loss


class TestDatabases(TestCase):
    @ops([info for info in op_db if info.ref is not None], allowed_dtypes=(torch.float64,))
    def test_operator_agrees_with_its_reference(self, device, dtype, op):
        for sample in first_samples(op):
            self.compare_with_reference(op, op.ref, sample)

    @ops(python_ref_db, allowed_dtypes=(torch.float64,))
    def test_operator_agrees_with_its_decomposition(self, device, dtype, op):
        for sample in first_samples(op):
            arguments = sample.input, *sample.args
            self.assertEqual(op(*arguments, **sample.kwargs), op.torch_opinfo.op(*arguments, **sample.kwargs))

    @ops(differentiable(op_db), allowed_dtypes=(torch.float64,))
    def test_gradient_of_operator(self, device, dtype, op):
        check_gradients(op)

    @ops(differentiable(autograd_function_db + custom_op_db + hop_db), allowed_dtypes=(torch.float64,))
    def test_gradient_of_other_callable(self, device, dtype, op):
        check_gradients(op)

    @modules(module_db, allowed_dtypes=(torch.float64,))
    def test_module_agrees_with_its_reference(self, device, dtype, module_info, training):
        samples = module_info.module_inputs_func(module_info, device=device, dtype=dtype, requires_grad=False,
                                                 training=training)
        for sample in samples[:SAMPLES]:
            built, given = sample.constructor_input, sample.forward_input
            module = module_info.module_cls(*built.args, **built.kwargs).to(device, dtype).train(training)
            found = module(*given.args, **given.kwargs)
            if sample.reference_fn is not None:
                self.assertEqual(found, sample.reference_fn(module, *given.args, **given.kwargs))

    @optims(optim_db, dtypes=[torch.float64])
    def test_optimizer_approaches_minimum(self, device, dtype, optim_info):
        for given in optim_info.optim_inputs_func(device=device)[:SAMPLES]:
            weight = torch.nn.Parameter(torch.tensor([[1.0, -2.0], [3.0, 0.5]], dtype=dtype))
            optimizer = optim_info.optim_cls([weight], **{**given.kwargs, "maximize": False})
            losses = [float(optimizer.step(lambda: compute_loss(optimizer, weight))) for _ in range(5)]
            self.assertLess(losses[-1], losses[0])


instantiate_device_type_tests(TestDatabases, globals(), only_for="cpu")
