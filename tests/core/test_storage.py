"""Storages, of bytes and (deprecated) of elements."""
import pytest
import torch

import rushlight

pytestmark = pytest.mark.filterwarnings("ignore")

PROGRAMS = {
    "of a tensor": lambda t: (lambda s: (s.size(), len(s), s.tolist(), s[1], str(s.dtype), s.nbytes(), s.element_size(), s.type()))(t.arange(6.0).view(2, 3)[1:].storage()),
    "shared": lambda t: (lambda x, s: (s.fill_(3), x.tolist()))(*(lambda x: (x, x.storage()))(t.zeros(2)))[1],
    "written": lambda t: (lambda x, s: (s.__setitem__(0, 9), x.tolist()))(*(lambda x: (x, x.storage()))(t.zeros(2)))[1],
    "made": lambda t: (t.FloatStorage([1, 2]).tolist(), t.LongStorage(3).size(), t.TypedStorage([1, 2, 3]).tolist(), t.ByteStorage([1, 255]).float().tolist()),
    "kinds": lambda t: (isinstance(t.ones(1).storage(), t.FloatStorage), isinstance(t.ones(1).storage(), t.LongStorage), isinstance(t.ones(1).storage(), t.storage.TypedStorage)),
    "printed": lambda t: repr(t.FloatStorage([1, 2])),
    "bytes": lambda t: (lambda s: (s.fill_(1).tolist(), s.clone().nbytes(), s.element_size(), s.is_cuda))(t.UntypedStorage(4)),
    "copied": lambda t: t.ones(3).storage().clone().copy_(t.FloatStorage([1, 2, 3])).tolist(),
    "same memory": lambda t: (lambda x: x.storage().data_ptr() == x[1:].storage().data_ptr() == x.untyped_storage().data_ptr())(t.ones(3)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_in_torch(name):
    theirs, ours = PROGRAMS[name](torch), PROGRAMS[name](rushlight)
    assert ours == theirs


def test_deprecation():
    with pytest.warns(UserWarning, match="untyped_storage"):
        rushlight.ones(1).storage()
