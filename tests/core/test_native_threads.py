"""Threads of other libraries, which call Python now and then: each call has a state of Python of its own."""
import subprocess
import sys

import pytest

PROGRAM = """
import ctypes
import llvmlite.binding as llvm
import rushlight as torch

LOOP = '''
define ptr @loop(ptr %function) {
entry:
  br label %again
again:
  %i = phi i32 [0, %entry], [%next, %again]
  %result = call ptr %function(ptr null)
  %next = add i32 %i, 1
  %more = icmp slt i32 %next, 4
  br i1 %more, label %again, label %end
end:
  ret ptr null
}
'''
seen = []

def work(_):
    before = torch.is_grad_enabled()
    torch.set_grad_enabled(False)
    weight = torch.ones(3, requires_grad=True)
    with torch.enable_grad():
        (weight * torch.full((3,), 2.0)).sum().backward()
    seen.append((before, weight.grad.tolist()))
    return 0

llvm.initialize_native_target()
llvm.initialize_native_asmprinter()
machine = llvm.Target.from_default_triple().create_target_machine()
engine = llvm.create_mcjit_compiler(llvm.parse_assembly(LOOP), machine)
engine.finalize_object()
called = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(work)
thread, library = ctypes.c_ulong(), ctypes.CDLL(None)
library.pthread_create(ctypes.byref(thread), None, ctypes.c_void_p(engine.get_function_address("loop")), called)
library.pthread_join(thread, None)
print(seen == [(True, [2.0, 2.0, 2.0])] * 4, seen)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="threads are started through the C library of Linux")
def test_threads_of_others_have_what_a_new_thread_has():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0 and done.stdout.startswith("True"), (done.stdout, done.stderr)
