"""L-BFGS (Liu & Nocedal 1989), with an optional line search under the strong Wolfe conditions (Nocedal & Wright 2006,
ch. 3)."""
from __future__ import annotations

from .._src import flat as torch
from .._src.autograd.mode import enable_grad, no_grad
from .optimizer import Optimizer, at_least_zero, number


def cubic(x1, f1, g1, x2, f2, g2, bounds=None):
    """The minimum of the cubic through two points with slopes, within bounds."""
    low, high = bounds if bounds is not None else (min(x1, x2), max(x1, x2))
    d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2)
    square = d1 * d1 - g1 * g2
    if square < 0:
        return (low + high) / 2.0
    d2 = square**0.5
    at = x2 - (x2 - x1) * ((g2 + d2 - d1) / (g2 - g1 + 2 * d2)) if x1 <= x2 else x1 - (x1 - x2) * ((g1 + d2 - d1)
                                                                                                   / (g1 - g2 + 2 * d2))
    return min(max(at, low), high)


def strong_wolfe(evaluate, x, t, d, f, g, slope, c1=1e-4, c2=0.9, tolerance_change=1e-9, max_ls=25):
    """A step t along d that satisfies the strong Wolfe conditions: (f, g, t, evaluations).  Points are (step, value,
    gradient, slope)."""
    largest = d.abs().max().item()
    g = g.clone()
    f_new, g_new = evaluate(x, t, d)
    count, slope_new = 1, g_new.dot(d).item()
    t_prev, f_prev, g_prev, slope_prev = 0.0, f, g, slope
    done, k = False, 0
    while k < max_ls:
        if f_new > f + c1 * t * slope or (k > 1 and f_new >= f_prev):
            bracket = [(t_prev, f_prev, g_prev.clone(), slope_prev), (t, f_new, g_new.clone(), slope_new)]
            break
        if abs(slope_new) <= -c2 * slope:
            bracket, done = [(t, f_new, g_new, slope_new)], True
            break
        if slope_new >= 0:
            bracket = [(t_prev, f_prev, g_prev.clone(), slope_prev), (t, f_new, g_new.clone(), slope_new)]
            break
        low, high = t + 0.01 * (t - t_prev), t * 10
        before = t
        t = cubic(t_prev, f_prev, slope_prev, t, f_new, slope_new, (low, high))
        t_prev, f_prev, g_prev, slope_prev = before, f_new, g_new.clone(), slope_new
        f_new, g_new = evaluate(x, t, d)
        count, slope_new, k = count + 1, g_new.dot(d).item(), k + 1
    else:
        bracket = [(0.0, f, g, slope), (t, f_new, g_new, slope_new)]
    little = False
    low, high = (0, 1) if bracket[0][1] <= bracket[-1][1] else (1, 0)
    while not done and k < max_ls:
        if abs(bracket[1][0] - bracket[0][0]) * largest < tolerance_change:
            break
        t = cubic(*(bracket[0][i] for i in (0, 1, 3)), *(bracket[1][i] for i in (0, 1, 3)))
        edges = bracket[0][0], bracket[1][0]
        margin = 0.1 * (max(edges) - min(edges))
        if min(max(edges) - t, t - min(edges)) < margin:
            if little or t >= max(edges) or t <= min(edges):
                t = max(edges) - margin if abs(t - max(edges)) < abs(t - min(edges)) else min(edges) + margin
                little = False
            else:
                little = True
        else:
            little = False
        f_new, g_new = evaluate(x, t, d)
        count, slope_new, k = count + 1, g_new.dot(d).item(), k + 1
        point = (t, f_new, g_new.clone(), slope_new)
        if f_new > f + c1 * t * slope or f_new >= bracket[low][1]:
            bracket[high] = point
            low, high = (0, 1) if bracket[0][1] <= bracket[1][1] else (1, 0)
        else:
            if abs(slope_new) <= -c2 * slope:
                done = True
            elif slope_new * (bracket[high][0] - bracket[low][0]) >= 0:
                bracket[high] = bracket[low]
            bracket[low] = point
    best = bracket[0] if len(bracket) == 1 else bracket[low]
    return best[1], best[2], best[0], count


class LBFGS(Optimizer):
    """Limited-memory BFGS; ``step`` needs a closure that computes the loss and its gradients again."""

    def __init__(self, params, lr=1, max_iter=20, max_eval=None, tolerance_grad=1e-7, tolerance_change=1e-9,
                 history_size=100, line_search_fn=None):
        at_least_zero(**{"learning rate": number(lr)})
        super().__init__(params, dict(lr=lr, max_iter=max_iter, max_eval=max_iter * 5 // 4 if max_eval is None
                                      else max_eval, tolerance_grad=tolerance_grad,
                                      tolerance_change=tolerance_change, history_size=history_size,
                                      line_search_fn=line_search_fn))
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        if line_search_fn not in (None, "strong_wolfe"):
            raise RuntimeError("only 'strong_wolfe' is supported")
        self._params = self.param_groups[0]["params"]

    def _rush_gradient(self):
        return torch.cat([p.grad.reshape(-1) if p.grad is not None else p.new_zeros(p.numel()) for p in self._params])

    def _rush_move(self, t, direction):
        start = 0
        for p in self._params:
            p.add_(direction[start:start + p.numel()].view(p.shape), alpha=t)
            start += p.numel()

    def _rush_evaluate(self, closure, x, t, direction):
        self._rush_move(t, direction)
        loss, gradient = float(closure()), self._rush_gradient()
        for p, old in zip(self._params, x):
            p.copy_(old)
        return loss, gradient

    def step(self, closure):
        """Up to ``max_iter`` iterations; returns the first loss."""
        compute = enable_grad()(closure)
        with no_grad():
            return self._rush_iterate(compute)

    def _rush_iterate(self, closure):
        group, state = self.param_groups[0], self.state[self._params[0]]
        first = closure()
        loss, gradient = float(first), self._rush_gradient()
        state["func_evals"], state["n_iter"] = state.get("func_evals", 0) + 1, state.get("n_iter", 0)
        evaluations = 1
        if gradient.abs().max() <= group["tolerance_grad"]:
            return first
        for iteration in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            d = self._rush_direction(gradient)
            before = loss
            state["prev_flat_grad"], state["prev_loss"] = gradient.clone(), loss
            lr = number(group["lr"])
            t = state["t"] = min(1.0, 1.0 / gradient.abs().sum().item()) * lr if state["n_iter"] == 1 else lr
            slope = gradient.dot(d).item()
            if slope > -group["tolerance_change"]:
                break
            loss, gradient, t, used = self._rush_advance(closure, loss, gradient, t, d, slope,
                                                    iteration == group["max_iter"], group["max_eval"] - evaluations)
            state["t"] = t
            evaluations += used
            state["func_evals"] += used
            if evaluations >= group["max_eval"] or used and bool(gradient.abs().max() <= group["tolerance_grad"]):
                break
            if d.mul(t).abs().max() <= group["tolerance_change"] or abs(loss - before) < group["tolerance_change"]:
                break
        return first

    def _rush_direction(self, gradient):
        """The direction of the next step: the gradient times the inverse Hessian that past steps suggest (two loops
        over them)."""
        state = self.state[self._params[0]]
        if state["n_iter"] == 1:
            state.update(d=gradient.neg(), old_dirs=[], old_stps=[], ro=[], H_diag=1)
            return state["d"]
        changes, steps, factors = state["old_dirs"], state["old_stps"], state["ro"]
        change, step = gradient.sub(state["prev_flat_grad"]), state["d"].mul(state["t"])
        curvature = change.dot(step).item()
        if curvature > 1e-10:
            if len(changes) == self.param_groups[0]["history_size"]:
                for past in (changes, steps, factors):
                    past.pop(0)
            changes.append(change)
            steps.append(step)
            factors.append(1.0 / curvature)
            state["H_diag"] = curvature / change.dot(change).item()
        d, weights = gradient.neg(), [None] * len(changes)
        for k in reversed(range(len(changes))):
            weights[k] = steps[k].dot(d).item() * factors[k]
            d.add_(changes[k], alpha=-weights[k])
        d = state["d"] = d.mul(state["H_diag"])
        for k in range(len(changes)):
            d.add_(steps[k], alpha=weights[k] - changes[k].dot(d).item() * factors[k])
        return d

    def _rush_advance(self, closure, loss, gradient, t, d, slope, last, left):
        """Move the parameters along d: (loss, gradient, step, evaluations; ``left`` remain).  A last step without a
        search is not evaluated."""
        if self.param_groups[0]["line_search_fn"] is None:
            self._rush_move(t, d)
            return (loss, gradient, t, 0) if last else (float(closure()), self._rush_gradient(), t, 1)
        x = [p.clone() for p in self._params]
        loss, gradient, t, used = strong_wolfe(lambda x, t, d: self._rush_evaluate(closure, x, t, d), x, t, d, loss,
                                               gradient, slope, max_ls=left)
        self._rush_move(t, d)
        return loss, gradient, t, used
