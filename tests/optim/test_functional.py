"""Optimizers as functions over lists: each beside PyTorch's, with the states that its class keeps."""
import importlib
import inspect

import pytest
import torch as judge

import rushlight as torch

LISTS = {  # list of the function -> what the class calls its elements
    "exp_avgs": "exp_avg", "exp_avg_sqs": "exp_avg_sq", "max_exp_avg_sqs": "max_exp_avg_sq", "exp_infs": "exp_inf",
    "mu_products": "mu_product", "state_sums": "sum", "square_avgs": "square_avg",
    "acc_deltas": "acc_delta", "grad_avgs": "grad_avg", "momentum_buffer_list": "momentum_buffer", "prevs": "prev",
    "step_sizes": "step_size", "axs": "ax", "mus": "mu", "etas": "eta",
    "row_vars": "row_var", "col_vars": "col_var", "variances": "variance", "state_steps": "step"}
CASES = [
    ("adam", "Adam", dict(amsgrad=True, weight_decay=0.1)), ("adam", "Adam", dict(maximize=True)),
    ("adamw", "AdamW", {}), ("adamax", "Adamax", dict(weight_decay=0.1)), ("nadam", "NAdam", {}),
    ("radam", "RAdam", {}), ("adagrad", "Adagrad", dict(lr_decay=0.1)), ("adadelta", "Adadelta", {}),
    ("rmsprop", "RMSprop", dict(momentum=0.5, centered=True)), ("rmsprop", "RMSprop", {}),
    ("rprop", "Rprop", {}), ("asgd", "ASGD", {}), ("sgd", "SGD", dict(momentum=0.9, dampening=0.1)), ("sgd", "SGD", {}),
    ("_adafactor.adafactor", "Adafactor", {})]


def stepped(lib, path, name, options):
    """Parameters and lists after one step of the class and two of the function."""
    params = [lib.tensor([[1.0, -2.0], [0.5, 3.0]], requires_grad=True),
              lib.tensor([0.3, 0.7, -1.0], requires_grad=True)]
    optimizer = getattr(lib.optim, name)(params, **options)
    for p in params:
        p.grad = p.detach() * 0.5 + 0.25
    optimizer.step()
    module, _, function = path.rpartition(".")
    function = getattr(importlib.import_module(f"{lib.__name__}.optim.{module or path}"), function)
    group = dict(optimizer.param_groups[0])
    for pair, names in {"betas": ("beta1", "beta2"), "etas": ("etaminus", "etaplus"),
                        "step_sizes": ("step_size_min", "step_size_max")}.items():
        group.update(zip(names, group.get(pair, ())))
    if name == "Adafactor":
        group["eps1"], group["eps2"] = 1e-7, group["eps"][1]
    parameters = list(inspect.signature(function).parameters.values())
    lists = {p.name: [optimizer.state[q].get(LISTS[p.name]) for q in params] for p in parameters if p.name in LISTS}
    lists = {k: [v for v in values if v is not None] if k not in ("momentum_buffer_list", "row_vars", "col_vars",
                                                                  "variances") or all(v is None for v in values)
             and name == "RMSprop" else values
             for k, values in lists.items()}
    if name == "SGD" and not options:
        lists["momentum_buffer_list"] = [None, None]
    settings = {p.name: group[p.name] for p in parameters if p.kind is p.KEYWORD_ONLY}
    with lib.no_grad():
        for _ in range(2):
            function(params, [p.grad for p in params], **lists, **settings)
    return [p.detach().numpy() for p in params], {k: [v if v is None else v.numpy() for v in values]
                                                  for k, values in lists.items()}


@pytest.mark.parametrize("path,name,options", CASES)
def test_steps_are_pytorchs(path, name, options):
    ours, theirs = stepped(torch, path, name, options), stepped(judge, path, name, options)
    judge.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["adam.adam", "adam._single_tensor_adam", "sgd._multi_tensor_sgd", "adamw.adamw",
                                  "nadam.nadam", "rprop.rprop", "asgd.asgd", "_functional.sparse_adam"])
def test_parameters_are_pytorchs(name):
    module, _, function = name.rpartition(".")
    ours, theirs = (inspect.signature(getattr(importlib.import_module(f"{lib}.optim.{module}"), function))
                    for lib in ("rushlight", "torch"))
    assert [(p.name, p.kind, p.default) for p in ours.parameters.values()] == [(p.name, p.kind, p.default)
                                                                               for p in theirs.parameters.values()]


def test_the_first_momentum_is_kept_in_the_list():
    from rushlight.optim.sgd import sgd
    buffers = [None]
    sgd([torch.ones(2)], [torch.ones(2)], buffers, weight_decay=0, momentum=0.9, lr=0.1, dampening=0.5, nesterov=False,
        maximize=False)
    assert buffers[0].tolist() == [1, 1]


def test_sparse_gradients():
    results = []
    for lib in (torch, judge):
        p, first, second = lib.ones(4), lib.zeros(4), lib.zeros(4)
        gradient = lib.sparse_coo_tensor([[1, 3]], [0.5, -2.0], (4,))
        importlib.import_module(f"{lib.__name__}.optim._functional").sparse_adam([p], [gradient], [first], [second],
                                                                                 [1], eps=1e-8, beta1=0.9, beta2=0.999,
                                                                                 lr=0.1, maximize=False)
        results.append([x.numpy() for x in (p, first, second)])
    judge.testing.assert_close(*results)
