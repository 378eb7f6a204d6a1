"""Functional optimizers: one step for a list of parameters, in place, with gradients and states in lists of the same
order."""
from __future__ import annotations

from itertools import repeat

from .._src.compat.absent import signature_of
from .._src.core.native import Tensor
from . import algorithms

# settings of the classes that are two of a function
PAIRS = {"betas": ("beta1", "beta2"), "etas": ("etaminus", "etaplus"), "step_sizes": ("step_size_min", "step_size_max"),
         "eps": ("eps1", "eps2")}


def function_of(name: str, optimizer: type, parameters: str, **states):
    """The function that makes a step of ``optimizer``; ``states``: list of the function -> what the class calls its
    elements."""
    signature = signature_of(f"({parameters})")

    def step(*args, **kwargs):
        given = signature.bind(*args, **kwargs)
        given.apply_defaults()
        params, grads, *_ = given.arguments.values()
        group = settings(given.arguments, states)
        lists = [(kept, given.arguments[listed]) for listed, kept in states.items() if given.arguments[listed]]
        held = [{kept: values[k] for kept, values in lists if values[k] is not None} for k in range(len(params))]
        driver = optimizer.__new__(optimizer)
        driver._rush_due = lambda: zip(params, map(driver._rush_taken, grads), held, repeat(group))
        driver._rush_update_all()
        for k, state in enumerate(held):
            for kept, values in lists:
                if values[k] is None and kept in state:
                    values[k] = state[kept]

    step.__name__ = step.__qualname__ = name
    step.__doc__ = f"One step of ``{optimizer.__name__}``."
    step.__signature__ = signature
    return step


def settings(arguments: dict, states: dict) -> dict:
    """The arguments of a function as a group of its class."""
    group = {"decoupled_weight_decay": False,
             **{name: value for name, value in arguments.items() if name not in states}}
    for pair, (first, second) in PAIRS.items():
        if first in group:
            group[pair] = group.pop(first), group.pop(second)
    return group


ADAM = "params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, "
OWN = "*, amsgrad, beta1, beta2, lr, weight_decay, eps, maximize"
BOTH = ("grad_scale, found_inf, *, amsgrad, has_complex, beta1, beta2, lr, weight_decay, eps, maximize, capturable, "
        "differentiable, decoupled_weight_decay")
DESCENT = "grad_scale, found_inf, *, weight_decay, momentum, lr, dampening, nesterov, maximize, has_sparse_grad"
step = {"state_steps": "step"}
averages = {"exp_avgs": "exp_avg", "exp_avg_sqs": "exp_avg_sq", **step}
moments = {**averages, "max_exp_avg_sqs": "max_exp_avg_sq"}
momentum = {"momentum_buffer_list": "momentum_buffer"}

adam = function_of("adam", algorithms.Adam,
                   f"{ADAM}foreach=None, capturable=False, differentiable=False, fused=None, grad_scale=None, "
                   "found_inf=None, has_complex=False, "
                   f"decoupled_weight_decay=False, {OWN}", **moments)
_single_tensor_adam = function_of("_single_tensor_adam", algorithms.Adam, ADAM + BOTH, **moments)
_multi_tensor_adam = function_of("_multi_tensor_adam", algorithms.Adam, ADAM + BOTH, **moments)
adamax = function_of("adamax", algorithms.Adamax,
                     "params, grads, exp_avgs, exp_infs, state_steps, foreach=None, maximize=False, "
                     "differentiable=False, capturable=False, has_complex=False, "
                     "*, eps, beta1, beta2, lr, weight_decay", exp_avgs="exp_avg", exp_infs="exp_inf", **step)
nadam = function_of("nadam", algorithms.NAdam,
                    "params, grads, exp_avgs, exp_avg_sqs, mu_products, state_steps, decoupled_weight_decay=False, "
                    "foreach=None, capturable=False, differentiable=False, "
                    "has_complex=False, maximize=False, *, beta1, beta2, lr, weight_decay, momentum_decay, eps",
                    mu_products="mu_product", **averages)
radam = function_of("radam", algorithms.RAdam,
                    "params, grads, exp_avgs, exp_avg_sqs, state_steps, decoupled_weight_decay=False, foreach=None, "
                    "differentiable=False, capturable=False, "
                    "has_complex=False, maximize=False, *, beta1, beta2, lr, weight_decay, eps", **averages)
adagrad = function_of("adagrad", algorithms.Adagrad,
                      "params, grads, state_sums, state_steps, fused=None, grad_scale=None, found_inf=None, "
                      "has_sparse_grad=False, foreach=None, differentiable=False, "
                      "has_complex=False, *, lr, weight_decay, lr_decay, eps, maximize", state_sums="sum", **step)
adadelta = function_of("adadelta", algorithms.Adadelta,
                       "params, grads, square_avgs, acc_deltas, state_steps, capturable=False, foreach=None, "
                       "differentiable=False, has_complex=False, "
                       "*, lr, rho, eps, weight_decay, maximize", square_avgs="square_avg", acc_deltas="acc_delta",
                       **step)
rmsprop = function_of("rmsprop", algorithms.RMSprop,
                      "params, grads, square_avgs, grad_avgs, momentum_buffer_list, state_steps, foreach=None, "
                      "maximize=False, differentiable=False, capturable=False, "
                      "has_complex=False, *, lr, alpha, eps, weight_decay, momentum, centered",
                      square_avgs="square_avg", grad_avgs="grad_avg", **momentum, **step)
rprop = function_of("rprop", algorithms.Rprop,
                    "params, grads, prevs, step_sizes, state_steps, foreach=None, capturable=False, maximize=False, "
                    "differentiable=False, has_complex=False, "
                    "*, step_size_min, step_size_max, etaminus, etaplus", prevs="prev", step_sizes="step_size", **step)
asgd = function_of("asgd", algorithms.ASGD,
                   "params, grads, axs, mus, etas, state_steps, foreach=None, maximize=False, differentiable=False, "
                   "capturable=False, has_complex=False, "
                   "*, lambd, lr, t0, alpha, weight_decay", axs="ax", mus="mu", etas="eta", **step)
sgd = function_of("sgd", algorithms.SGD,
                  "params, d_p_list, momentum_buffer_list, has_sparse_grad=False, foreach=None, fused=None, "
                  "grad_scale=None, found_inf=None, "
                  "*, weight_decay, momentum, lr, dampening, nesterov, maximize", **momentum)
_single_tensor_sgd = function_of("_single_tensor_sgd", algorithms.SGD,
                                 f"params, grads, momentum_buffer_list, {DESCENT}", **momentum)
_multi_tensor_sgd = function_of("_multi_tensor_sgd", algorithms.SGD, f"params, grads, momentum_buffer_list, {DESCENT}",
                                **momentum)
adafactor = function_of("adafactor", algorithms.Adafactor,
                        "params, grads, row_vars, col_vars, variances, state_steps, foreach=None, grad_scale=None, "
                        "found_inf=None, has_complex=False, "
                        "*, d, lr, beta2_decay, weight_decay, eps1, eps2, maximize", row_vars="row_var",
                        col_vars="col_var", variances="variance", **step)


def adamw(params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, foreach=None, capturable=False,
          differentiable=False, fused=None, grad_scale=None, found_inf=None,
          has_complex=False, *, amsgrad, beta1, beta2, lr, weight_decay, eps, maximize):
    """One step of ``AdamW``."""
    adam(params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, foreach, capturable, differentiable, fused,
         grad_scale, found_inf, has_complex, True,
         amsgrad=amsgrad, beta1=beta1, beta2=beta2, lr=lr, weight_decay=weight_decay, eps=eps, maximize=maximize)


def sparse_adam(params: list[Tensor], grads: list[Tensor], exp_avgs: list[Tensor], exp_avg_sqs: list[Tensor],
                state_steps: list[int], *, eps: float, beta1: float, beta2: float, lr: float,
                maximize: bool) -> None:
    """One step of ``SparseAdam``; ``state_steps`` count this step, too."""
    driver = algorithms.SparseAdam.__new__(algorithms.SparseAdam)
    group = {"lr": lr, "betas": (beta1, beta2), "eps": eps, "maximize": maximize}
    driver._rush_due = lambda: ((p, g, {"step": n - 1, "exp_avg": average, "exp_avg_sq": square}, group)
                          for p, g, average, square, n in zip(params, grads, exp_avgs, exp_avg_sqs, state_steps))
    driver._rush_update_all()
