"""The optimizers: each says what one step does to one parameter."""
from __future__ import annotations

import math

from ..ops.updates import adam_step, sgd_step
from .optimizer import Optimizer, at_least_zero, counted, fraction, number


def zeros_like(p):
    import rushlight

    return rushlight.zeros_like(p)


def scalar(value):
    import rushlight

    return rushlight.tensor(float(value))


def decayed(gradient, p, group):
    """The gradient with weight decay added."""
    return gradient.add(p, alpha=group["weight_decay"]) if group["weight_decay"] != 0 else gradient


class SGD(Optimizer):
    """Stochastic gradient descent with momentum (Sutskever et al. 2013)."""

    def __init__(self, params, lr=1e-3, momentum=0, dampening=0, weight_decay=0, nesterov=False, *, maximize=False, foreach=None, differentiable=False, fused=None):
        at_least_zero(**{"learning rate": number(lr), "momentum": momentum, "weight_decay": weight_decay})
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(params, dict(lr=lr, momentum=momentum, dampening=dampening, weight_decay=weight_decay, nesterov=nesterov, maximize=maximize, foreach=foreach,
                                      differentiable=differentiable, fused=fused))

    def update(self, p, gradient, state, group):
        momentum, weight, decay = group["momentum"], 1 - group["dampening"], group["weight_decay"]
        buffer = state.setdefault("momentum_buffer", None)
        if momentum != 0 and buffer is None:
            buffer = state["momentum_buffer"] = zeros_like(gradient)
            weight = 1.0  # the first step takes the gradient whole
        sgd_step(p, gradient, buffer if momentum != 0 else None, -float(number(group["lr"])), float(decay), float(momentum), float(weight), decay != 0,
                 bool(group["nesterov"]))


class Adam(Optimizer):
    """Adam (Kingma & Ba 2014); ``decoupled_weight_decay`` makes it AdamW (Loshchilov & Hutter 2019)."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, amsgrad=False, *, foreach=None, maximize=False, capturable=False,
                 differentiable=False, fused=None, decoupled_weight_decay=False):
        at_least_zero(**{"learning rate": number(lr), "epsilon": eps, "weight_decay": weight_decay})
        fraction(**{"beta parameter at index 0": number(betas[0]), "beta parameter at index 1": number(betas[1])})
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, amsgrad=amsgrad, maximize=maximize, foreach=foreach, capturable=capturable,
                                      differentiable=differentiable, fused=fused, decoupled_weight_decay=decoupled_weight_decay))

    def update(self, p, gradient, state, group):
        if not state:
            state["step"] = scalar(0)
            state["exp_avg"], state["exp_avg_sq"] = zeros_like(p), zeros_like(p)
            if group["amsgrad"]:
                state["max_exp_avg_sq"] = zeros_like(p)
        lr, (beta1, beta2) = number(group["lr"]), map(number, group["betas"])
        step = counted(state)
        decay = group["weight_decay"]
        decoupled = bool(group["decoupled_weight_decay"]) if decay != 0 else None
        adam_step(p, gradient, state["exp_avg"], state["exp_avg_sq"], state.get("max_exp_avg_sq"), 1.0 - lr * decay, float(decay), 1.0 - beta1, float(beta2),
                  1.0 - beta2, math.sqrt(1 - beta2**step), float(group["eps"]), -lr / (1 - beta1**step), decoupled)


class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov & Hutter 2019)."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2, amsgrad=False, *, maximize=False, foreach=None, capturable=False, differentiable=False, fused=None):
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize, capturable=capturable, differentiable=differentiable, fused=fused,
                         decoupled_weight_decay=True)


class Adamax(Optimizer):
    """Adam with the infinity norm (Kingma & Ba 2014)."""

    def __init__(self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, foreach=None, *, maximize=False, differentiable=False, capturable=False):
        at_least_zero(**{"learning rate": number(lr), "epsilon": eps, "weight_decay": weight_decay})
        fraction(**{"beta parameter at index 0": betas[0], "beta parameter at index 1": betas[1]})
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, foreach=foreach, maximize=maximize, differentiable=differentiable, capturable=capturable))

    def update(self, p, gradient, state, group):
        if not state:
            state.update(step=scalar(0), exp_avg=zeros_like(p), exp_inf=zeros_like(p))
        step = counted(state)
        beta1, beta2 = group["betas"]
        gradient = decayed(gradient, p, group)
        state["exp_avg"].lerp_(gradient, 1 - beta1)
        state["exp_inf"].copy_((state["exp_inf"] * beta2).maximum(gradient.abs() + group["eps"]))
        p.addcdiv_(state["exp_avg"], state["exp_inf"], value=-number(group["lr"]) / (1 - beta1**step))


class NAdam(Optimizer):
    """Adam with Nesterov momentum (Dozat 2016)."""

    def __init__(self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, momentum_decay=4e-3, decoupled_weight_decay=False, *, foreach=None, maximize=False,
                 capturable=False, differentiable=False):
        at_least_zero(**{"learning rate": number(lr), "epsilon": eps, "weight_decay": weight_decay, "momentum_decay": momentum_decay})
        fraction(**{"beta parameter at index 0": betas[0], "beta parameter at index 1": betas[1]})
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, momentum_decay=momentum_decay, decoupled_weight_decay=decoupled_weight_decay,
                                      maximize=maximize, foreach=foreach, capturable=capturable, differentiable=differentiable))

    def update(self, p, gradient, state, group):
        if not state:
            state.update(step=scalar(0), mu_product=scalar(1), exp_avg=zeros_like(p), exp_avg_sq=zeros_like(p))
        step, lr, (beta1, beta2) = counted(state), number(group["lr"]), group["betas"]
        if group["weight_decay"] != 0:
            if group["decoupled_weight_decay"]:
                p.mul_(1 - lr * group["weight_decay"])
            else:
                gradient = gradient.add(p, alpha=group["weight_decay"])
        mu, following = (beta1 * (1 - 0.5 * 0.96 ** (k * group["momentum_decay"])) for k in (step, step + 1))
        state["mu_product"] *= mu
        product = state["mu_product"].item()
        mean, square = state["exp_avg"], state["exp_avg_sq"]
        mean.lerp_(gradient, 1 - beta1)
        square.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        denominator = square.div(1 - beta2**step).sqrt().add(group["eps"])
        p.addcdiv_(gradient, denominator, value=-lr * (1 - mu) / (1 - product))
        p.addcdiv_(mean, denominator, value=-lr * following / (1 - product * following))


class RAdam(Optimizer):
    """Adam with its variance rectified (Liu et al. 2019)."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, decoupled_weight_decay=False, *, foreach=None, maximize=False, capturable=False, differentiable=False):
        at_least_zero(**{"learning rate": number(lr), "epsilon": eps, "weight_decay": weight_decay})
        fraction(**{"beta parameter at index 0": betas[0], "beta parameter at index 1": betas[1]})
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, maximize=maximize, foreach=foreach, capturable=capturable,
                                      decoupled_weight_decay=decoupled_weight_decay, differentiable=differentiable))

    def update(self, p, gradient, state, group):
        if not state:
            state.update(step=scalar(0), exp_avg=zeros_like(p), exp_avg_sq=zeros_like(p))
        step, lr, (beta1, beta2) = counted(state), number(group["lr"]), group["betas"]
        if group["weight_decay"] != 0:
            if group["decoupled_weight_decay"]:
                p.mul_(1 - lr * group["weight_decay"])
            else:
                gradient = gradient.add(p, alpha=group["weight_decay"])
        mean, square = state["exp_avg"], state["exp_avg_sq"]
        mean.lerp_(gradient, 1 - beta1)
        square.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        corrected, rest = mean / (1 - beta1**step), 1 - beta2**step
        limit = 2 / (1 - beta2) - 1
        length = limit - 2 * step * beta2**step / rest
        if length > 5.0:
            rectified = math.sqrt((length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length))
            p.add_(corrected * lr * (math.sqrt(rest) / square.sqrt().add(group["eps"])) * rectified, alpha=-1.0)
        else:
            p.add_(corrected * lr, alpha=-1.0)


class Adagrad(Optimizer):
    """Adaptive subgradients (Duchi et al. 2011)."""

    def __init__(self, params, lr=1e-2, lr_decay=0, weight_decay=0, initial_accumulator_value=0, eps=1e-10, foreach=None, *, maximize=False, differentiable=False, fused=None):
        at_least_zero(**{"learning rate": number(lr), "lr_decay": lr_decay, "weight_decay": weight_decay, "initial_accumulator_value": initial_accumulator_value, "epsilon": eps})
        super().__init__(params, dict(lr=lr, lr_decay=lr_decay, eps=eps, weight_decay=weight_decay, initial_accumulator_value=initial_accumulator_value, foreach=foreach,
                                      maximize=maximize, differentiable=differentiable, fused=fused))
        import rushlight
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p].update(step=scalar(0), sum=rushlight.full_like(p, initial_accumulator_value))

    def update(self, p, gradient, state, group):
        step = counted(state)
        gradient = decayed(gradient, p, group)
        lr = number(group["lr"]) / (1 + (step - 1) * group["lr_decay"])
        state["sum"].addcmul_(gradient, gradient, value=1)
        p.addcdiv_(gradient, state["sum"].sqrt().add_(group["eps"]), value=-lr)


class Adadelta(Optimizer):
    """Adaptive steps without a learning rate (Zeiler 2012)."""

    def __init__(self, params, lr=1.0, rho=0.9, eps=1e-6, weight_decay=0, foreach=None, *, capturable=False, maximize=False, differentiable=False):
        at_least_zero(**{"learning rate": number(lr), "epsilon": eps, "weight_decay": weight_decay})
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        super().__init__(params, dict(lr=lr, rho=rho, eps=eps, weight_decay=weight_decay, maximize=maximize, capturable=capturable, foreach=foreach, differentiable=differentiable))

    def update(self, p, gradient, state, group):
        if not state:
            state.update(step=scalar(0), square_avg=zeros_like(p), acc_delta=zeros_like(p))
        counted(state)
        rho, eps = group["rho"], group["eps"]
        gradient = decayed(gradient, p, group)
        state["square_avg"].mul_(rho).addcmul_(gradient, gradient, value=1 - rho)
        delta = state["acc_delta"].add(eps).sqrt_().div_(state["square_avg"].add(eps).sqrt_()).mul_(gradient)
        state["acc_delta"].mul_(rho).addcmul_(delta, delta, value=1 - rho)
        p.add_(delta, alpha=-number(group["lr"]))


class RMSprop(Optimizer):
    """Steps divided by a running root mean square (Tieleman & Hinton 2012)."""

    def __init__(self, params, lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0, momentum=0, centered=False, capturable=False, foreach=None, maximize=False, differentiable=False):
        at_least_zero(**{"learning rate": number(lr), "epsilon": eps, "momentum": momentum, "weight_decay": weight_decay, "alpha": alpha})
        super().__init__(params, dict(lr=lr, momentum=momentum, alpha=alpha, eps=eps, centered=centered, weight_decay=weight_decay, capturable=capturable, foreach=foreach,
                                      maximize=maximize, differentiable=differentiable))

    def update(self, p, gradient, state, group):
        if not state:
            state.update(step=scalar(0), square_avg=zeros_like(p))
            if group["momentum"] > 0:
                state["momentum_buffer"] = zeros_like(p)
            if group["centered"]:
                state["grad_avg"] = zeros_like(p)
        counted(state)
        gradient = decayed(gradient, p, group)
        square = state["square_avg"]
        square.mul_(group["alpha"]).addcmul_(gradient, gradient, value=1 - group["alpha"])
        if group["centered"]:
            state["grad_avg"].lerp_(gradient, 1 - group["alpha"])
            root = square.addcmul(state["grad_avg"], state["grad_avg"], value=-1).sqrt_()
        else:
            root = square.sqrt()
        root.add_(group["eps"])
        lr = number(group["lr"])
        if group["momentum"] > 0:
            state["momentum_buffer"].mul_(group["momentum"]).addcdiv_(gradient, root)
            p.add_(state["momentum_buffer"], alpha=-lr)
        else:
            p.addcdiv_(gradient, root, value=-lr)


class Rprop(Optimizer):
    """Resilient backpropagation: only signs of gradients count (Riedmiller & Braun 1993)."""

    def __init__(self, params, lr=1e-2, etas=(0.5, 1.2), step_sizes=(1e-6, 50), *, capturable=False, foreach=None, maximize=False, differentiable=False):
        at_least_zero(**{"learning rate": number(lr)})
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        super().__init__(params, dict(lr=lr, etas=etas, step_sizes=step_sizes, foreach=foreach, maximize=maximize, differentiable=differentiable, capturable=capturable))

    def update(self, p, gradient, state, group):
        import rushlight as rl
        if not state:
            state.update(step=scalar(0), prev=zeros_like(p), step_size=rl.full_like(gradient, number(group["lr"])))
        counted(state)
        down, up = group["etas"]
        sign = gradient.mul(state["prev"]).sign()
        factor = rl.where(sign > 0, up, rl.where(sign < 0, down, 1.0))
        state["step_size"].mul_(factor).clamp_(*group["step_sizes"])
        gradient = rl.where(sign < 0, 0.0, gradient)
        p.copy_(p - gradient.sign() * state["step_size"])
        state["prev"].copy_(gradient)


class ASGD(Optimizer):
    """Averaged stochastic gradient descent (Polyak & Juditsky 1992)."""

    def __init__(self, params, lr=1e-2, lambd=1e-4, alpha=0.75, t0=1e6, weight_decay=0, foreach=None, maximize=False, differentiable=False, capturable=False):
        at_least_zero(**{"learning rate": number(lr), "weight_decay": weight_decay})
        super().__init__(params, dict(lr=lr, lambd=lambd, alpha=alpha, t0=t0, weight_decay=weight_decay, foreach=foreach, maximize=maximize, differentiable=differentiable, capturable=capturable))

    def update(self, p, gradient, state, group):
        if not state:
            state.update(step=scalar(0), eta=scalar(number(group["lr"])), mu=scalar(1), ax=zeros_like(p))
        step = counted(state)
        gradient = decayed(gradient, p, group)
        eta, mu, lr = state["eta"].item(), state["mu"].item(), number(group["lr"])
        p.mul_(1 - group["lambd"] * eta)
        p.add_(gradient, alpha=-eta)
        if mu == 1:
            state["ax"].copy_(p)
        else:
            state["ax"].add_(p.sub(state["ax"]).mul_(mu))
        state["eta"] = scalar(lr / (1 + group["lambd"] * lr * step) ** group["alpha"])
        state["mu"] = scalar(1 / max(1, step - group["t0"]))


class Adafactor(Optimizer):
    """Adam with factored second moments (Shazeer & Stern 2018)."""

    def __init__(self, params, lr=1e-2, beta2_decay=-0.8, eps=(None, 1e-3), d=1.0, weight_decay=0.0, *, foreach=None, maximize=False):
        at_least_zero(**{"learning rate": number(lr), "weight_decay": weight_decay})
        if beta2_decay > 0:
            raise ValueError(f"beta2_decay should be <= 0 but is {beta2_decay}")
        if d < 1.0:
            raise ValueError(f"Clipping threshold d should be >= 1 but is {d}")
        super().__init__(params, dict(lr=lr, beta2_decay=beta2_decay, eps=eps, d=d, weight_decay=weight_decay, foreach=foreach, maximize=maximize))

    def update(self, p, gradient, state, group):
        from ..core.dtypes import finfo
        if not state:
            state["step"] = scalar(0)
            if gradient.dim() > 1:
                state["row_var"] = gradient.new_zeros((*gradient.shape[:-1], 1))
                state["col_var"] = gradient.new_zeros((*gradient.shape[:-2], 1, gradient.size(-1)))
            else:
                state["variance"] = zeros_like(gradient)
        step = counted(state)
        eps1, eps2 = group["eps"]
        eps1 = finfo(p.dtype).eps if eps1 is None else eps1
        fresh = step ** group["beta2_decay"]
        rho = min(number(group["lr"]), 1 / math.sqrt(step))
        scale = max(eps2, p.norm(2).item() / math.sqrt(p.numel())) * rho
        if group["weight_decay"] != 0:
            p.mul_(1 - number(group["lr"]) * group["weight_decay"])
        if gradient.dim() > 1:
            rows = gradient.norm(2, -1, keepdim=True).square().div(gradient.size(-1))
            columns = gradient.norm(2, -2, keepdim=True).square().div(gradient.size(-2))
            state["row_var"].lerp_(rows, fresh)
            state["col_var"].lerp_(columns, fresh)
            estimate = state["row_var"] @ state["col_var"]
            estimate = estimate.div(state["row_var"].mean(-2, keepdim=True).clamp(min=eps1))
        else:
            state["variance"].lerp_(gradient.square(), fresh)
            estimate = state["variance"].clone()
        change = estimate.clamp(min=eps1 * eps1).rsqrt().mul(gradient)
        bound = max(1.0, change.norm(2).item() / (math.sqrt(change.numel()) * group["d"]))
        p.add_(change, alpha=-scale / bound)


class Muon(Optimizer):
    """Momentum whose matrix is made nearly orthogonal by a Newton-Schulz iteration (Jordan et al. 2024)."""

    def __init__(self, params, lr=1e-3, weight_decay=0.1, momentum=0.95, nesterov=True, ns_coefficients=(3.4445, -4.775, 2.0315), eps=1e-7, ns_steps=5, adjust_lr_fn=None):
        at_least_zero(**{"learning rate": number(lr), "momentum": momentum, "weight_decay": weight_decay})
        if adjust_lr_fn is not None and adjust_lr_fn not in ("original", "match_rms_adamw"):
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        super().__init__(params, dict(lr=lr, weight_decay=weight_decay, momentum=momentum, nesterov=nesterov, ns_coefficients=ns_coefficients, eps=eps, ns_steps=ns_steps,
                                      adjust_lr_fn=adjust_lr_fn))
        for group in self.param_groups:
            for p in group["params"]:
                if p.dim() != 2:
                    raise ValueError(f"Muon only supports 2D parameters whereas we found a parameter with size: {p.shape}")

    def update(self, p, gradient, state, group):
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = zeros_like(gradient)
        buffer = state["momentum_buffer"]
        buffer.lerp_(gradient, 1 - group["momentum"])
        change = gradient.lerp(buffer, group["momentum"]) if group["nesterov"] else buffer
        change = orthogonal(change, group["ns_coefficients"], group["ns_steps"], group["eps"])
        rows, columns = p.shape[:2]
        lr = number(group["lr"])
        scaled = lr * 0.2 * math.sqrt(max(rows, columns)) if group["adjust_lr_fn"] == "match_rms_adamw" else lr * math.sqrt(max(1, rows / columns))
        p.mul_(1 - lr * group["weight_decay"])
        p.add_(change, alpha=-scaled)


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
    """Adam for sparse gradients."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, maximize=False):
        at_least_zero(**{"learning rate": number(lr), "epsilon": eps})
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, maximize=maximize))

    def update(self, p, gradient, state, group):
        raise RuntimeError("SparseAdam does not support dense gradients, please consider Adam instead")
