"""Programs that write into several views of one base: compiled functions give what they give uncompiled."""
import random

import pytest

import rushlight

VIEWS = {"turned": lambda b: b.t(), "row": lambda b: b[1], "rows": lambda b: b[1:3], "flat": lambda b: b.view(-1),
         "step": lambda b: b[:, ::2], "diagonal": lambda b: b.diagonal(), "part": lambda b: b.narrow(1, 1, 2),
         "shape": lambda b: b.reshape(2, 8), "detached": lambda b: b.detach(), "column": lambda b: b.select(0, 2),
         "unbound": lambda b: b.unbind(0)[3], "split": lambda b: b.split(2)[1], "itself": lambda b: b,
         "strides": lambda b: b.as_strided((2, 2), (4, 1), 5)}
WRITES = {"add": lambda v: v.add_(1.5), "mul": lambda v: v.mul_(2), "fill": lambda v: v.fill_(3.0),
          "item": lambda v: v.__setitem__(0, 7.0), "copy": lambda v: v.copy_(v * 2 + 1), "sin": lambda v: v.sin_(),
          "flip": lambda v: v.__setitem__(Ellipsis, v.flip(0)), "clamp": lambda v: v.clamp_(-1, 1),
          "out": lambda v: rushlight.add(v, 1, out=v), "masked": lambda v: v.masked_fill_(v > 1, 0.25)}


def program(seed):
    """A function of a 4 x 4 tensor that writes into views, made before or between the writes."""
    drawn = random.Random(seed)
    steps = [(drawn.choice([*VIEWS]), drawn.choice([*WRITES])) for _ in range(drawn.randint(2, 4))]
    before, own = drawn.random() < 0.5, drawn.random() < 0.5

    def run(x):
        base, found = x * 1.0 if own else x, []
        views = [VIEWS[name](base) for name, _ in steps] if before else []
        for k, (name, write) in enumerate(steps):
            view = views[k] if before else VIEWS[name](base)
            WRITES[write](view)
            found += [view.sum(), base.sum()]
        return rushlight.stack(found), base

    return run


@pytest.mark.parametrize("seed", range(10))
def test_writes_to_several_views_of_one_base(seed):
    start = rushlight.arange(16.0).mul(0.7).sin().reshape(4, 4)
    found = []
    for run in (program(seed), rushlight.compile(program(seed))):
        x = start.clone()
        found.append([t.flatten().tolist() for t in (*run(x), x)])
    for eager, compiled in zip(*found):
        assert compiled == pytest.approx(eager, rel=1e-5, abs=1e-5)
