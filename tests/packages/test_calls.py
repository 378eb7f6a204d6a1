"""Calls of packages by those who err, or come all at once: each is right, or refused with a code."""
import ctypes
import shutil
import threading

import numpy as np
import pytest

import rushlight as torch
from rushlight._src.packages.archive import BadPackage
from rushlight._src.packages.interface import MISSING, NO_CONSTANT, WRONG_SIZES

nn = torch.nn


class Summed(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(24, 48), nn.Linear(48, 8)

    def forward(self, x, y):
        return self.last(torch.relu(self.first(x))) + y, x.sum(1)


def packaged(path, varying=False, seed=0, batch=6):
    """(a model, its inputs), packaged at a path."""
    torch.manual_seed(seed)
    model, inputs = Summed().eval(), (torch.randn(batch, 24), torch.randn(batch, 8))
    shapes = None
    if varying:
        dim = torch.export.Dim("batch", min=1, max=64)
        shapes = ({0: dim}, {0: dim})
    exported = torch.export.export(model, inputs, dynamic_shapes=shapes)
    torch._inductor.aoti_compile_and_package(exported, package_path=str(path))
    return model, inputs


def addresses(arrays):
    return (ctypes.c_void_p * len(arrays))(*(a.ctypes.data if a is not None else None for a in arrays))


def table(shapes):
    """Shapes as the C interface takes them, and what keeps them."""
    rows = [(ctypes.c_int64 * len(shape))(*shape) for shape in shapes]
    return (ctypes.c_void_p * len(rows))(*(ctypes.addressof(row) if row else None for row in rows)), rows


@pytest.fixture(scope="module", params=[False, True], ids=["one size", "many sizes"])
def opened(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model.pt2"
    model, inputs = packaged(path, request.param)
    loaded = torch._inductor.aoti_load_package(path)
    for name in ("rl_run", "rl_run_sized", "rl_output_sizes"):
        function = getattr(loaded.library, name)
        function.restype, function.argtypes = ctypes.c_int64, [ctypes.c_void_p] * (2 if "sizes" in name else
                                                                                 3 if name == "rl_run" else 4)
    return loaded, model, inputs


def given(inputs):
    arrays = [x.numpy() for x in inputs]
    return arrays, [np.zeros((len(arrays[0]), 8), np.float32), np.zeros(len(arrays[0]), np.float32)]


def test_null_is_refused(opened):
    loaded, _, inputs = opened
    library, model = loaded.library, loaded.model
    arrays, results = given(inputs)
    fine, to = addresses(arrays), addresses(results)
    assert library.rl_run(model, fine, to) == 0
    assert library.rl_run(None, fine, to) == MISSING
    assert library.rl_run(model, None, to) == MISSING
    assert library.rl_run(model, fine, None) == MISSING
    assert library.rl_run(model, addresses([arrays[0], None]), to) == MISSING
    assert library.rl_run(model, fine, addresses([None, results[1]])) == MISSING
    assert b"NULL" in library.rl_error(MISSING)
    assert library.rl_set_constant(model, 0, None) == MISSING
    assert library.rl_set_constant(None, 0, fine) == MISSING
    assert library.rl_set_constant(model, 99, fine) == library.rl_set_constant(model, -1, fine) == NO_CONSTANT
    assert library.rl_running(None) == library.rl_running(model) == 0
    assert library.rl_level(None) == -1 and library.rl_verify(None) == 0
    library.rl_destroy(None)


def test_shapes_that_are_missing_or_huge_are_refused(opened):
    loaded, _, inputs = opened
    arrays, results = given(inputs)
    fine, to = addresses(arrays), addresses(results)
    shapes, _keep = table([x.shape for x in arrays])
    library, model = loaded.library, loaded.model
    assert library.rl_run_sized(model, fine, shapes, to) == 0
    if loaded.varying:
        assert library.rl_run_sized(model, fine, None, to) == MISSING
        assert library.rl_run_sized(model, fine, (ctypes.c_void_p * 2)(shapes[0], None), to) == MISSING
    assert library.rl_output_sizes(shapes, None) == MISSING
    for wrong in ((1 << 62, 24), (-1, 24), (0, 24), (65, 24), (-(1 << 63), 24), (6, 25)):
        bad, _keep = table([wrong, (wrong[0], 8)])
        assert library.rl_run_sized(model, fine, bad, to) <= WRONG_SIZES


def test_addresses_of_any_alignment(opened):
    loaded, model, inputs = opened
    arrays, results = given(inputs)
    wanted = [one.detach().numpy() for one in model(*inputs)]
    for shift in (1, 2, 4, 32, 0):
        def moved(array, shift=shift):
            room = np.zeros(array.nbytes + 64 + shift, np.uint8)
            at = -room.ctypes.data % 64 + shift
            return room[at:at + array.nbytes].view(array.dtype).reshape(array.shape)

        inside, outside = [moved(x) for x in arrays], [moved(x) for x in results]
        for a, x in zip(inside, arrays):
            a[...] = x
        assert loaded.library.rl_run(loaded.model, addresses(inside), addresses(outside)) == 0
        for a, b in zip(outside, wanted):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("varying", [False, True])
def test_many_threads_and_constants_that_change_meanwhile(varying, tmp_path):
    """Each result is that of one of the two biases, whatever sizes other threads run."""
    model, _ = packaged(tmp_path / "model.pt2", varying)
    loaded, wrong, stop = torch._inductor.aoti_load_package(tmp_path / "model.pt2"), [], threading.Event()
    biases = [model.last.bias.detach(), model.last.bias.detach() + 100.0]
    cases = []
    for k in range(16):
        batch = 1 + 3 * k if varying else 6
        inputs = torch.randn(batch, 24), torch.randn(batch, 8)
        with torch.no_grad():
            first = model(*inputs)[0].numpy()
        cases.append((inputs, first))

    errors, done = [], []

    def work(inputs, first):
        try:
            for _ in range(40):
                found = loaded(*inputs)[0].numpy()
                done.append(len(found))
                if not (np.allclose(found, first, atol=1e-4) or np.allclose(found, first + 100.0, atol=1e-4)):
                    wrong.append(found)
        except Exception as error:
            errors.append(error)

    def change():
        k = 0
        try:
            while not stop.is_set():
                k += 1
                loaded.load_constants({"last.bias": biases[k % 2]}, check_full_update=False, user_managed=k % 3 == 0)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=case) for case in cases]
    other = threading.Thread(target=change)
    for t in (*threads, other):
        t.start()
    for t in threads:
        t.join()
    stop.set()
    other.join()
    assert not errors and not wrong and len(done) == 40 * len(cases)
    loaded.load_constants({"last.bias": biases[1]}, check_full_update=False)
    np.testing.assert_allclose(loaded(*cases[0][0])[0].numpy(), cases[0][1] + 100.0, atol=1e-4)


def test_inputs_and_results_without_elements(tmp_path):
    model, inputs = packaged(tmp_path / "empty.pt2", batch=0)
    loaded = torch._inductor.aoti_load_package(tmp_path / "empty.pt2")
    assert [tuple(one.shape) for one in loaded(*inputs)] == [(0, 8), (0,)]


def test_two_versions_at_once_and_packages_that_move(tmp_path):
    first, inputs = packaged(tmp_path / "a.pt2")
    second, _ = packaged(tmp_path / "b.pt2", seed=1)
    one = torch._inductor.aoti_load_package(tmp_path / "a.pt2")
    folder = tmp_path / "read only"
    folder.mkdir()
    shutil.move(tmp_path / "b.pt2", folder / "c.pt2")
    folder.chmod(0o500)
    two = torch._inductor.aoti_load_package(folder / "c.pt2")
    again = torch._inductor.aoti_load_package(tmp_path / "a.pt2")
    (tmp_path / "a.pt2").unlink()  # what is mapped stays
    for loaded, model in ((one, first), (two, second), (again, first), (one, first)):
        np.testing.assert_allclose(loaded(*inputs)[0].numpy(), model(*inputs)[0].detach().numpy(), rtol=1e-5, atol=1e-5)
    folder.chmod(0o700)
    data = (folder / "c.pt2").read_bytes()
    for length in (0, 21, len(data) // 2, len(data) - 1):
        (tmp_path / "short.pt2").write_bytes(data[:length])
        with pytest.raises(BadPackage):
            torch._inductor.aoti_load_package(tmp_path / "short.pt2")
