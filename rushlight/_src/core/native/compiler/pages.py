"""The helper functions of compiled modules for large blocks of memory, for thread-local values, and for running
programs (see ``runtime.py``). Each kind of system has its own versions of those that call the system: the code of
``core/platform``'s functions."""
import mmap

from ...platform import here
from ...platform.base import CACHE_LINE, HUGE_PAGE, PAGE


def text() -> str:
    return _allocation() + _release() + SYSTEMS[here.name]() + _PROGRAM


def _allocation() -> str:
    """Blocks of whole cache lines, and large ones as pages straight from the system."""
    return f"""
@program_runner = global ptr null
define internal ptr @allocate_pages(i64 %nbytes) noinline nounwind {{
  %negative = icmp slt i64 %nbytes, 0
  br i1 %negative, label %failed, label %ask
ask:
  %big = icmp sge i64 %nbytes, {HUGE_PAGE}
  br i1 %big, label %map, label %small
small:
  %more = add i64 %nbytes, {CACHE_LINE - 1}
  %lines = and i64 %more, {-CACHE_LINE}
  %rounded = call i64 @llvm.smax.i64(i64 %lines, i64 {CACHE_LINE})
  %block = call ptr @small_block(i64 %rounded)
  br label %made
map:
  %up = add i64 %nbytes, {PAGE - 1}
  %length = and i64 %up, {-PAGE}
  %longer = add i64 %length, {HUGE_PAGE}
  %enough = icmp sgt i64 %longer, 0
  br i1 %enough, label %reserve, label %failed
reserve:
  %pages = call ptr @large_block(i64 %length)
  br label %made
made:
  %address = phi ptr [ %block, %small ], [ %pages, %reserve ]
  %none = icmp eq ptr %address, null
  br i1 %none, label %failed, label %done
done:
  ret ptr %address
failed:
  %e = call ptr @PyErr_NoMemory()
  ret ptr null
}}
"""


def _release() -> str:
    return f"""define internal void @free_pages(ptr %address, i64 %nbytes) noinline nounwind {{
  %big = icmp sge i64 %nbytes, {HUGE_PAGE}
  br i1 %big, label %unmap, label %small
small:
  call void @free_small(ptr %address)
  ret void
unmap:
  %up = add i64 %nbytes, {PAGE - 1}
  %length = and i64 %up, {-PAGE}
  call void @free_large(ptr %address, i64 %length)
  ret void
}}
"""


_SMALL = f"""
define internal ptr @small_block(i64 %nbytes) nounwind {{
  %block = call ptr @aligned_alloc(i64 {CACHE_LINE}, i64 %nbytes)
  ret ptr %block
}}
define internal void @free_small(ptr %address) nounwind {{
  call void @free(ptr %address)
  ret void
}}
define internal void @free_large(ptr %address, i64 %length) nounwind {{
  call i32 @munmap(ptr %address, i64 %length)
  ret void
}}
"""


def _mapped(private: int) -> str:
    return f"""define internal ptr @mapped(i64 %length) nounwind {{
  %region = call ptr @mmap(ptr null, i64 %length, i32 3, i32 {private}, i32 -1, i64 0)
  %start = ptrtoint ptr %region to i64
  %refused = icmp eq i64 %start, -1
  %found = select i1 %refused, ptr null, ptr %region
  ret ptr %found
}}
"""


def _threads(key: str) -> str:
    """``pthread_key_t`` is of this type."""
    given = "%key" if key == "i64" else "%short"
    short = "" if key == "i64" else f"  %short = trunc i64 %key to {key}\n"
    return f"""define internal ptr @thread_value(i64 %key) alwaysinline nounwind {{
{short}  %value = call ptr @pthread_getspecific({key} {given})
  ret ptr %value
}}
define internal void @set_thread_value(i64 %key, ptr %value) nounwind {{
{short}  %status = call i32 @pthread_setspecific({key} {given}, ptr %value)
  ret void
}}
"""


def _posix(key="i32") -> str:
    private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    return _SMALL + _mapped(private) + _threads(key) + f"""define internal ptr @large_block(i64 %length) nounwind {{
  %pages = call ptr @mapped(i64 %length)
  ret ptr %pages
}}
define internal void @discard_pages(ptr %address, i64 %nbytes) nounwind {{
  call ptr @mmap(ptr %address, i64 %nbytes, i32 3, i32 {private | here.fixed}, i32 -1, i64 0)
  ret void
}}
"""


def _linux() -> str:
    """Large blocks begin on a huge page."""
    from ...platform.linux import IN_HUGE_PAGES, NOT_NEEDED
    return _SMALL + _mapped(mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) + _threads("i32") + f"""
define internal ptr @large_block(i64 %length) nounwind {{
  %longer = add i64 %length, {HUGE_PAGE}
  %region = call ptr @mapped(i64 %longer)
  %none = icmp eq ptr %region, null
  br i1 %none, label %failed, label %cut
failed:
  ret ptr null
cut:
  %start = ptrtoint ptr %region to i64
  %past = add i64 %start, {HUGE_PAGE - 1}
  %first = and i64 %past, {-HUGE_PAGE}
  %front = sub i64 %first, %start
  %back = sub i64 {HUGE_PAGE}, %front
  %aligned = inttoptr i64 %first to ptr
  %end = getelementptr i8, ptr %aligned, i64 %length
  %leading = icmp ne i64 %front, 0
  br i1 %leading, label %trim, label %rest
trim:
  call i32 @munmap(ptr %region, i64 %front)
  br label %rest
rest:
  call i32 @munmap(ptr %end, i64 %back)
  call i32 @madvise(ptr %aligned, i64 %length, i32 {IN_HUGE_PAGES})
  ret ptr %aligned
}}
define internal void @discard_pages(ptr %address, i64 %nbytes) nounwind {{
  call i32 @madvise(ptr %address, i64 %nbytes, i32 {NOT_NEEDED})
  ret void
}}
"""


def _macos() -> str:
    return _posix("i64")


def _windows() -> str:
    """Pages that are decommitted come back zeroed."""
    from ...platform.windows import COMMIT, DECOMMIT, READ_WRITE, RELEASE, RESERVE
    return f"""
define internal ptr @small_block(i64 %nbytes) nounwind {{
  %block = call ptr @_aligned_malloc(i64 %nbytes, i64 {CACHE_LINE})
  ret ptr %block
}}
define internal void @free_small(ptr %address) nounwind {{
  call void @_aligned_free(ptr %address)
  ret void
}}
define internal ptr @large_block(i64 %length) nounwind {{
  %pages = call ptr @VirtualAlloc(ptr null, i64 %length, i32 {RESERVE | COMMIT}, i32 {READ_WRITE})
  ret ptr %pages
}}
define internal void @free_large(ptr %address, i64 %length) nounwind {{
  call i32 @VirtualFree(ptr %address, i64 0, i32 {RELEASE})
  ret void
}}
define internal void @discard_pages(ptr %address, i64 %nbytes) nounwind {{
  call i32 @VirtualFree(ptr %address, i64 %nbytes, i32 {DECOMMIT})
  call ptr @VirtualAlloc(ptr %address, i64 %nbytes, i32 {COMMIT}, i32 {READ_WRITE})
  ret void
}}
define internal ptr @thread_value(i64 %key) alwaysinline nounwind {{
  %short = trunc i64 %key to i32
  %value = call ptr @TlsGetValue(i32 %short)
  ret ptr %value
}}
define internal void @set_thread_value(i64 %key, ptr %value) nounwind {{
  %short = trunc i64 %key to i32
  %status = call i32 @TlsSetValue(i32 %short, ptr %value)
  ret void
}}
"""


SYSTEMS = {"posix": _posix, "linux": _linux, "macos": _macos, "windows": _windows}
_PROGRAM = """define internal i8 @run_program(ptr %code, ptr %values, i1 %unlock) nounwind {
  %runner = load ptr, ptr @program_runner
  %none = icmp eq ptr %runner, null
  br i1 %none, label %failed, label %run
failed:
  call void @raise_no_runner()
  ret i8 2
run:
  br i1 %unlock, label %free, label %held
held:
  call void %runner(ptr %code, ptr %values)
  ret i8 0
free:
  %thread = call ptr @PyEval_SaveThread()
  call void %runner(ptr %code, ptr %values)
  call void @PyEval_RestoreThread(ptr %thread)
  ret i8 0
}
declare i64 @llvm.smax.i64(i64, i64)
declare i64 @llvm.fptosi.sat.i64.f64(double)
declare i64 @llvm.smin.i64(i64, i64)
declare double @llvm.round.f64(double)
declare double @llvm.copysign.f64(double, double)
declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
"""
