"""Tensors over files, and storages of bytes that were read, as PyTorch has them."""
import warnings

import pytest

import rushlight as rl

judge = pytest.importorskip("torch")


def outcomes(call):
    """What both libraries give: values, or the kind of error."""
    found = []
    for library in (rl, judge):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found.append(call(library))
        except (RuntimeError, ValueError) as error:
            found.append(type(error).__name__)
    return found


@pytest.mark.parametrize("shared", [None, False, True])
@pytest.mark.parametrize("dtype, size", [("uint8", 5), ("int32", 3), ("float64", 2), ("int16", 0), ("int64", 9),
                                         ("uint8", -1)])
def test_a_file_as_a_tensor(tmp_path, shared, dtype, size):
    def call(library):
        path = tmp_path / library.__name__
        path.write_bytes(bytes(range(16)))
        x = library.from_file(str(path), shared, size, dtype=getattr(library, dtype))
        before = x.tolist()
        x.fill_(7)
        after = x.tolist()
        del x
        return before, after, path.read_bytes()
    ours, theirs = outcomes(call)
    assert ours == theirs


def test_files_that_are_not_there(tmp_path):
    ours, theirs = outcomes(lambda library: library.from_file(str(tmp_path / "none"), size=3).tolist())
    assert ours == theirs == "RuntimeError"
    ours, theirs = outcomes(lambda library: library.from_file(str(tmp_path / library.__name__), shared=True,
                                                              size=3).tolist())
    assert ours == theirs == [0.0, 0.0, 0.0]
    for given in ({"device": "meta"}, {"pin_memory": True}, {"layout": rl.sparse_coo}):
        with pytest.raises(RuntimeError):
            rl.from_file(str(tmp_path / "rushlight"), size=1, **given)


@pytest.mark.parametrize("name", ["Byte", "Bool", "Short", "Int", "Long", "Float", "ComplexFloat"])
@pytest.mark.parametrize("given", [(), ("little",), ("big",), ("native",), ("middle",), ("little", 1), ("big", 1, 3),
                                   ("little", 9), ("little", 1, 17), ("little", 0), ("big", -1, 1)])
def test_a_storage_of_a_buffer(name, given):
    ours, theirs = outcomes(lambda library: getattr(library, f"{name}Storage").from_buffer(bytes(range(16)),
                                                                                           *given).tolist())
    assert ours == theirs
