"""The optimizers: each says what one step does to one parameter."""
from __future__ import annotations

import math

from .._src import flat as torch
from .._src.ops.updates import (adadelta_step, adagrad_step, adam_step, adamax_step, asgd_step, nadam_step, radam_step,
                                rmsprop_step, rprop_step,
                           sgd_step)
from .optimizer import Optimizer, at_least_zero, fraction, number, square_root


def zeros_like(p):
    return torch.zeros_like(p)


def scalar(value):
    return torch.tensor(float(value))


def decoupled(group):
    """Kind of weight decay: of the parameter (True), of the gradient (False), or none (None)."""
    return bool(group.get("decoupled_weight_decay")) if group["weight_decay"] != 0 else None


class SGD(Optimizer):
    """Stochastic gradient descent with momentum (Sutskever et al. 2013)."""

    _rush_sparse = "as dense ones"

    def __init__(self, params, lr=1e-3, momentum=0, dampening=0, weight_decay=0, nesterov=False, *, maximize=False,
                 foreach=None, differentiable=False, fused=None):
        at_least_zero(**{"learning rate": number(lr), "momentum": momentum, "weight_decay": weight_decay})
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(params, dict(lr=lr, momentum=momentum, dampening=dampening, weight_decay=weight_decay,
                                      nesterov=nesterov, maximize=maximize, foreach=foreach,
                                      differentiable=differentiable, fused=fused))

    _rush_counters = ()

    def _rush_prepare(self, p, gradient, group):
        if group["momentum"] == 0:
            return {"momentum_buffer": None}
        if group["dampening"] != 0:
            self._rush_untouched.add(p)
        return {"momentum_buffer": zeros_like(gradient)}

    @property
    def _rush_untouched(self) -> set:
        """The parameters whose momentum has not begun: their first gradient enters whole, without dampening."""
        return self.__dict__.setdefault("_rush_untouched", set())

    def _rush_standing_for(self, parameter, values):
        if parameter in self._rush_untouched:
            self._rush_untouched.discard(parameter)
            self._rush_untouched.add(values)

    def _rush_numbers(self, group):
        return (), (-number(group["lr"]), number(group["weight_decay"]), number(group["momentum"]),
                    1.0 - number(group["dampening"]))

    def _rush_update(self, p, gradient, state, group, size, decay, momentum, weight):
        buffer = None
        if group["momentum"] != 0:
            if state.get("momentum_buffer") is None:
                state.update(self._rush_prepare(p, gradient, group))
            buffer = state["momentum_buffer"]
            if self._rush_untouched:
                weight = 1.0 if p in self._rush_untouched else weight
                self._rush_untouched.discard(p)
        sgd_step(p, gradient, buffer, size, decay, momentum, weight, bool(group["weight_decay"] != 0),
                 bool(group["nesterov"]))


class Adam(Optimizer):
    """Adam (Kingma & Ba 2014); ``decoupled_weight_decay`` makes it AdamW (Loshchilov & Hutter 2019)."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, amsgrad=False, *, foreach=None,
                 maximize=False, capturable=False,
                 differentiable=False, fused=None, decoupled_weight_decay=False):
        at_least_zero(**{"learning rate": number(lr), "epsilon": eps, "weight_decay": weight_decay})
        fraction(**{"beta parameter at index 0": number(betas[0]), "beta parameter at index 1": number(betas[1])})
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, amsgrad=amsgrad,
                                      maximize=maximize, foreach=foreach, capturable=capturable,
                                      differentiable=differentiable, fused=fused,
                                      decoupled_weight_decay=decoupled_weight_decay))

    def _rush_prepare(self, p, gradient, group):
        state = {"step": scalar(0), "exp_avg": zeros_like(p), "exp_avg_sq": zeros_like(p)}
        return {**state, "max_exp_avg_sq": zeros_like(p)} if group["amsgrad"] else state

    def _rush_numbers(self, group, step):
        step += 1
        lr, decay, (beta1, beta2) = number(group["lr"]), number(group["weight_decay"]), map(number, group["betas"])
        return (step,), (1.0 - lr * decay, decay, 1.0 - beta1, beta2, 1.0 - beta2, square_root(1 - beta2**step),
                         number(group["eps"]), -lr / (1 - beta1**step))

    def _rush_update(self, p, gradient, state, group, *numbers):
        adam_step(p, gradient, state["exp_avg"], state["exp_avg_sq"], state["max_exp_avg_sq"] if group["amsgrad"]
                  else None, *numbers, decoupled(group))


class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov & Hutter 2019)."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2, amsgrad=False, *,
                 maximize=False, foreach=None, capturable=False, differentiable=False, fused=None):
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize,
                         capturable=capturable, differentiable=differentiable, fused=fused,
                         decoupled_weight_decay=True)


class Adamax(Optimizer):
    """Adam with the infinity norm (Kingma & Ba 2014)."""

    def __init__(self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, foreach=None, *, maximize=False,
                 differentiable=False, capturable=False):
        at_least_zero(**{"learning rate": number(lr), "epsilon": eps, "weight_decay": weight_decay})
        fraction(**{"beta parameter at index 0": betas[0], "beta parameter at index 1": betas[1]})
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, foreach=foreach,
                                      maximize=maximize, differentiable=differentiable, capturable=capturable))

    def _rush_prepare(self, p, gradient, group):
        return {"step": scalar(0), "exp_avg": zeros_like(p), "exp_inf": zeros_like(p)}

    def _rush_numbers(self, group, step):
        step += 1
        beta1, beta2 = map(number, group["betas"])
        return (step,), (number(group["weight_decay"]), 1 - beta1, beta2, number(group["eps"]),
                         -number(group["lr"]) / (1 - beta1**step))

    def _rush_update(self, p, gradient, state, group, *numbers):
        adamax_step(p, gradient, state["exp_avg"], state["exp_inf"], *numbers, bool(group["weight_decay"] != 0))


class NAdam(Optimizer):
    """Adam with Nesterov momentum (Dozat 2016)."""

    def __init__(self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, momentum_decay=4e-3,
                 decoupled_weight_decay=False, *, foreach=None, maximize=False,
                 capturable=False, differentiable=False):
        at_least_zero(**{"learning rate": number(lr), "epsilon": eps, "weight_decay": weight_decay,
                         "momentum_decay": momentum_decay})
        fraction(**{"beta parameter at index 0": betas[0], "beta parameter at index 1": betas[1]})
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay,
                                      momentum_decay=momentum_decay, decoupled_weight_decay=decoupled_weight_decay,
                                      maximize=maximize, foreach=foreach, capturable=capturable,
                                      differentiable=differentiable))

    _rush_counters = ("step", "mu_product")

    def _rush_prepare(self, p, gradient, group):
        return {"step": scalar(0), "mu_product": scalar(1), "exp_avg": zeros_like(p), "exp_avg_sq": zeros_like(p)}

    def _rush_numbers(self, group, step, product):
        step, lr, decay, (beta1, beta2) = step + 1, number(group["lr"]), number(group["weight_decay"]), map(
            number, group["betas"])
        mu, following = (beta1 * (1 - 0.5 * 0.96 ** (k * group["momentum_decay"])) for k in (step, step + 1))
        product *= mu
        sizes = -lr * (1 - mu) / (1 - product), -lr * following / (1 - product * following)
        return (step, product), (1 - lr * decay, decay, 1 - beta1, beta2, 1 - beta2, 1 - beta2**step,
                                 number(group["eps"]), *sizes)

    def _rush_update(self, p, gradient, state, group, *numbers):
        nadam_step(p, gradient, state["exp_avg"], state["exp_avg_sq"], *numbers, decoupled(group))


class RAdam(Optimizer):
    """Adam with its variance rectified (Liu et al. 2019)."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, decoupled_weight_decay=False, *,
                 foreach=None, maximize=False, capturable=False, differentiable=False):
        at_least_zero(**{"learning rate": number(lr), "epsilon": eps, "weight_decay": weight_decay})
        fraction(**{"beta parameter at index 0": betas[0], "beta parameter at index 1": betas[1]})
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, maximize=maximize,
                                      foreach=foreach, capturable=capturable,
                                      decoupled_weight_decay=decoupled_weight_decay, differentiable=differentiable))

    def _rush_prepare(self, p, gradient, group):
        return {"step": scalar(0), "exp_avg": zeros_like(p), "exp_avg_sq": zeros_like(p)}

    def _rush_numbers(self, group, step):
        step += 1
        lr, decay, (beta1, beta2) = number(group["lr"]), number(group["weight_decay"]), map(number, group["betas"])
        rest, limit = 1 - beta2**step, 2 / (1 - beta2) - 1
        length = limit - 2 * step * beta2**step / rest
        trusted = bool(length > 5.0)
        rectified = square_root((length - 4) * (length - 2) * limit
                              / ((limit - 4) * (limit - 2) * length)) if trusted else 0.0
        return (step,), (1 - lr * decay, decay, 1 - beta1, beta2, 1 - beta2, 1 - beta1**step, square_root(rest),
                         number(group["eps"]), rectified, 0.0 if trusted else 1.0, -lr)

    def _rush_update(self, p, gradient, state, group, *numbers):
        radam_step(p, gradient, state["exp_avg"], state["exp_avg_sq"], *numbers, decoupled(group))


class Adagrad(Optimizer):
    """Adaptive subgradients (Duchi et al. 2011)."""

    _rush_sparse = "as dense ones"

    def __init__(self, params, lr=1e-2, lr_decay=0, weight_decay=0, initial_accumulator_value=0, eps=1e-10,
                 foreach=None, *, maximize=False, differentiable=False, fused=None):
        at_least_zero(**{"learning rate": number(lr), "lr_decay": lr_decay, "weight_decay": weight_decay,
                         "initial_accumulator_value": initial_accumulator_value, "epsilon": eps})
        super().__init__(params, dict(lr=lr, lr_decay=lr_decay, eps=eps, weight_decay=weight_decay,
                                      initial_accumulator_value=initial_accumulator_value, foreach=foreach,
                                      maximize=maximize, differentiable=differentiable, fused=fused))
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p].update(step=scalar(0), sum=torch.full_like(p, initial_accumulator_value))

    def _rush_numbers(self, group, step):
        step += 1
        return (step,), (number(group["weight_decay"]), number(group["eps"]),
                         -number(group["lr"]) / (1 + (step - 1) * group["lr_decay"]))

    def _rush_update(self, p, gradient, state, group, *numbers):
        adagrad_step(p, gradient, state["sum"], *numbers, bool(group["weight_decay"] != 0))


class Adadelta(Optimizer):
    """Adaptive steps without a learning rate (Zeiler 2012)."""

    def __init__(self, params, lr=1.0, rho=0.9, eps=1e-6, weight_decay=0, foreach=None, *, capturable=False,
                 maximize=False, differentiable=False):
        at_least_zero(**{"learning rate": number(lr), "epsilon": eps, "weight_decay": weight_decay})
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        super().__init__(params, dict(lr=lr, rho=rho, eps=eps, weight_decay=weight_decay, maximize=maximize,
                                      capturable=capturable, foreach=foreach, differentiable=differentiable))

    def _rush_prepare(self, p, gradient, group):
        return {"step": scalar(0), "square_avg": zeros_like(p), "acc_delta": zeros_like(p)}

    def _rush_numbers(self, group, step):
        step += 1
        rho = number(group["rho"])
        return (step,), (number(group["weight_decay"]), rho, 1 - rho, number(group["eps"]), -number(group["lr"]))

    def _rush_update(self, p, gradient, state, group, *numbers):
        adadelta_step(p, gradient, state["square_avg"], state["acc_delta"], *numbers, bool(group["weight_decay"] != 0))


class RMSprop(Optimizer):
    """Steps divided by a running root mean square (Tieleman & Hinton 2012)."""

    def __init__(self, params, lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0, momentum=0, centered=False,
                 capturable=False, foreach=None, maximize=False, differentiable=False):
        at_least_zero(**{"learning rate": number(lr), "epsilon": eps, "momentum": momentum,
                         "weight_decay": weight_decay, "alpha": alpha})
        super().__init__(params, dict(lr=lr, momentum=momentum, alpha=alpha, eps=eps, centered=centered,
                                      weight_decay=weight_decay, capturable=capturable, foreach=foreach,
                                      maximize=maximize, differentiable=differentiable))

    def _rush_prepare(self, p, gradient, group):
        state = {"step": scalar(0), "square_avg": zeros_like(p)}
        if group["momentum"] > 0:
            state["momentum_buffer"] = zeros_like(p)
        return {**state, "grad_avg": zeros_like(p)} if group["centered"] else state

    def _rush_numbers(self, group, step):
        step += 1
        alpha = number(group["alpha"])
        return (step,), (number(group["weight_decay"]), alpha, 1 - alpha, number(group["momentum"]),
                         number(group["eps"]), -number(group["lr"]))

    def _rush_update(self, p, gradient, state, group, *numbers):
        average = state["grad_avg"] if group["centered"] else None
        buffer = state["momentum_buffer"] if group["momentum"] > 0 else None
        rmsprop_step(p, gradient, state["square_avg"], average, buffer, *numbers, bool(group["weight_decay"] != 0))


class Rprop(Optimizer):
    """Resilient backpropagation: only signs of gradients count (Riedmiller & Braun 1993)."""

    def __init__(self, params, lr=1e-2, etas=(0.5, 1.2), step_sizes=(1e-6, 50), *, capturable=False, foreach=None,
                 maximize=False, differentiable=False):
        at_least_zero(**{"learning rate": number(lr)})
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        super().__init__(params, dict(lr=lr, etas=etas, step_sizes=step_sizes, foreach=foreach, maximize=maximize,
                                      differentiable=differentiable, capturable=capturable))

    def _rush_prepare(self, p, gradient, group):
        start = number(group["lr"])
        return {"step": scalar(0), "prev": zeros_like(p),
                "step_size": torch.full_like(gradient, complex(start, start) if p.is_complex() else start)}

    def _rush_numbers(self, group, step):
        step += 1
        return (step,), (*map(number, group["etas"]), *map(number, group["step_sizes"]))

    def _rush_update(self, p, gradient, state, group, *numbers):
        rprop_step(p, gradient, state["prev"], state["step_size"], *numbers)


class ASGD(Optimizer):
    """Averaged stochastic gradient descent (Polyak & Juditsky 1992)."""

    def __init__(self, params, lr=1e-2, lambd=1e-4, alpha=0.75, t0=1e6, weight_decay=0, foreach=None, maximize=False,
                 differentiable=False, capturable=False):
        at_least_zero(**{"learning rate": number(lr), "weight_decay": weight_decay})
        super().__init__(params, dict(lr=lr, lambd=lambd, alpha=alpha, t0=t0, weight_decay=weight_decay,
                                      foreach=foreach, maximize=maximize, differentiable=differentiable,
                                      capturable=capturable))

    _rush_counters = ("step", "eta", "mu")

    def _rush_prepare(self, p, gradient, group):
        return {"step": scalar(0), "eta": scalar(number(group["lr"])), "mu": scalar(1), "ax": zeros_like(p)}

    def _rush_numbers(self, group, step, eta, mu):
        step, lr, lambd = step + 1, number(group["lr"]), number(group["lambd"])
        after = step, lr / (1 + lambd * lr * step) ** group["alpha"], 1 / max(1, step - group["t0"])
        return after, (number(group["weight_decay"]), 1 - lambd * eta, -eta, 1 - mu, mu)

    def _rush_update(self, p, gradient, state, group, *numbers):
        asgd_step(p, gradient, state["ax"], *numbers, bool(group["weight_decay"] != 0))


class Adafactor(Optimizer):
    """Adam with factored second moments (Shazeer & Stern 2018)."""

    def __init__(self, params, lr=1e-2, beta2_decay=-0.8, eps=(None, 1e-3), d=1.0, weight_decay=0.0, *, foreach=None,
                 maximize=False):
        at_least_zero(**{"learning rate": number(lr), "weight_decay": weight_decay})
        if beta2_decay > 0:
            raise ValueError(f"beta2_decay should be <= 0 but is {beta2_decay}")
        if d < 1.0:
            raise ValueError(f"Clipping threshold d should be >= 1 but is {d}")
        super().__init__(params, dict(lr=lr, beta2_decay=beta2_decay, eps=eps, d=d, weight_decay=weight_decay,
                                      foreach=foreach, maximize=maximize))

    def _rush_prepare(self, p, gradient, group):
        if gradient.dim() < 2:
            return {"step": scalar(0), "variance": zeros_like(gradient)}
        return {"step": scalar(0), "row_var": gradient.new_zeros((*gradient.shape[:-1], 1)),
                "col_var": gradient.new_zeros((*gradient.shape[:-2], 1, gradient.size(-1)))}

    def _rush_numbers(self, group, step):
        step += 1
        lr = number(group["lr"])
        return (step,), (step ** group["beta2_decay"], min(lr, 1 / math.sqrt(step)), 1 - lr * group["weight_decay"])

    def _rush_update(self, p, gradient, state, group, fresh, rho, shrink):
        from .._src.core.dtypes import finfo
        least, floor = group["eps"]
        least = finfo(p.dtype).eps if least is None else least
        size = (p.norm(2) / math.sqrt(p.numel())).clamp(min=floor) * rho
        if group["weight_decay"] != 0:
            p.mul_(shrink)
        if gradient.dim() > 1:
            rows = gradient.norm(2, -1, keepdim=True).square().div(gradient.size(-1))
            columns = gradient.norm(2, -2, keepdim=True).square().div(gradient.size(-2))
            state["row_var"].lerp_(rows, fresh)
            state["col_var"].lerp_(columns, fresh)
            estimate = state["row_var"] @ state["col_var"]
            estimate = estimate.div(state["row_var"].mean(-2, keepdim=True).clamp(min=least))
        else:
            state["variance"].lerp_(gradient.square(), fresh)
            estimate = state["variance"].clone()
        change = estimate.clamp(min=least * least).rsqrt().mul(gradient)
        bound = (change.norm(2) / (math.sqrt(change.numel()) * group["d"])).clamp(min=1.0)
        p.sub_(change * (size / bound))


class Muon(Optimizer):
    """Momentum whose matrix is made nearly orthogonal by a Newton-Schulz iteration (Jordan et al. 2024)."""

    def __init__(self, params, lr=1e-3, weight_decay=0.1, momentum=0.95, nesterov=True,
                 ns_coefficients=(3.4445, -4.775, 2.0315), eps=1e-7, ns_steps=5, adjust_lr_fn=None):
        at_least_zero(**{"learning rate": number(lr), "momentum": momentum, "weight_decay": weight_decay})
        if adjust_lr_fn is not None and adjust_lr_fn not in ("original", "match_rms_adamw"):
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        super().__init__(params, dict(lr=lr, weight_decay=weight_decay, momentum=momentum, nesterov=nesterov,
                                      ns_coefficients=ns_coefficients, eps=eps, ns_steps=ns_steps,
                                      adjust_lr_fn=adjust_lr_fn))
        for group in self.param_groups:
            for p in group["params"]:
                if p.dim() != 2:
                    raise ValueError(
                        f"Muon only supports 2D parameters whereas we found a parameter with size: {p.shape}")

    _rush_counters = ()

    def _rush_prepare(self, p, gradient, group):
        return {"momentum_buffer": zeros_like(gradient)}

    def _rush_numbers(self, group):
        lr, momentum = number(group["lr"]), number(group["momentum"])
        return (), (1 - momentum, momentum, lr, 1 - lr * number(group["weight_decay"]))

    def _rush_update(self, p, gradient, state, group, weight, momentum, lr, shrink):
        buffer = state["momentum_buffer"].lerp_(gradient, weight)
        change = gradient.lerp(buffer, momentum) if group["nesterov"] else buffer
        change = orthogonal(change, group["ns_coefficients"], group["ns_steps"], group["eps"])
        rows, columns = p.shape[:2]
        ratio = 0.2 * math.sqrt(max(rows, columns)) if group["adjust_lr_fn"] == "match_rms_adamw" else math.sqrt(
            max(1, rows / columns))
        p.mul_(shrink)
        p.sub_(change.to(p.dtype) * (lr * ratio))  # rounded once, in the precision of the parameter


def orthogonal(matrix, coefficients, steps, eps):
    """Nearly U V^T of the singular value decomposition, in bfloat16."""
    a, b, c = coefficients
    x = matrix.bfloat16()
    turned = matrix.size(0) > matrix.size(1)
    x = x.T if turned else x
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        x = x.addmm(gram.addmm(gram, gram, beta=b, alpha=c), x, beta=a)
    return x.T if turned else x


class SparseAdam(Optimizer):
    """Adam for sparse gradients: averages and parameters change where the gradient has elements, and nowhere else."""

    _rush_counters, _rush_sparse = (), "as it is"

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, maximize=False):
        at_least_zero(**{"learning rate": number(lr), "epsilon": eps})
        fraction(**{f"beta parameter at index {k}": beta for k, beta in enumerate(betas)})
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, maximize=maximize))

    def _rush_prepare(self, p, gradient, group):
        if not gradient.is_sparse:
            raise RuntimeError("SparseAdam does not support dense gradients, please consider Adam instead")
        return {"step": 0, "exp_avg": zeros_like(p), "exp_avg_sq": zeros_like(p)}

    def _rush_numbers(self, group):
        return (), ()

    def _rush_update(self, p, gradient, state, group):
        state["step"] += 1
        gradient, (first, second) = gradient.coalesce(), group["betas"]
        at, g = tuple(gradient.indices()), gradient.values()
        average, square = (state[name][at] for name in ("exp_avg", "exp_avg_sq"))
        average, square = average + (g - average) * (1 - first), square + (g * g - square) * (1 - second)
        state["exp_avg"][at], state["exp_avg_sq"][at] = average, square
        size = number(group["lr"]) * math.sqrt(1 - second ** state["step"]) / (1 - first ** state["step"])
        p[at] = p[at] - size * average / (square.sqrt() + group["eps"])
