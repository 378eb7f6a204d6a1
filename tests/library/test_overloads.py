"""Overloads of one name that a program defines: which one a call means, beside torch."""
import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")


def test_overloads_of_one_name():
    def run(lib):
        with lib.library._scoped_library("overloads", "FRAGMENT") as fragment:
            lib.library.define("overloads::part.tensor", "(Tensor x) -> Tensor", lib=fragment)
            fragment.define("part.int(Tensor x, int dim) -> Tensor")
            fragment.define("part(Tensor x, Tensor y, *, float by=1.0) -> Tensor")
            lib.library.impl("overloads::part.tensor", "CompositeImplicitAutograd", lib.sin, lib=fragment)
            fragment.impl("part.int", lambda x, dim: x.sum(dim), "CPU")
            fragment.impl("part", lambda x, y, by=1.0: x * y * by, "CPU")
            lib.library.register_fake("overloads::part", lambda x, y, by=1.0: lib.empty_like(x), lib=fragment)
            lib.library.register_fake("overloads::part.int", lambda x, dim: x.new_empty(x.shape[1:]), lib=fragment)
            packet, x = lib.ops.overloads.part, lib.arange(6.0).reshape(2, 3)
            found = [packet(x), packet(x, 0), packet(x, x + 1, by=2.0), packet.tensor(x), packet.int(x, 0),
                     packet.default(x, x), *lib.compile(lambda x: (packet(x, 0) + 1, packet(x, x), packet.tensor(x)),
                                                        backend="aot_eager", fullgraph=True)(x)]
            texts = [packet.overloads(), packet.int.name(), packet.default.name(), hasattr(packet, "Scalar")]
            with pytest.raises(RuntimeError, match="failed to match any schema"):
                packet(x, x, x)
        with pytest.raises(AttributeError):
            lib.ops.overloads.part
        return [value.tolist() for value in found], sorted(texts[0]), texts[1:]

    ours, theirs = run(rl), run(torch)
    assert np.allclose(sum(map(flat, ours[0]), []), sum(map(flat, theirs[0]), []), rtol=1e-5)
    assert ours[1:] == theirs[1:]


def flat(values) -> list:
    return np.asarray(values).reshape(-1).tolist()
