"""The small functions of compiled modules for large blocks of memory, and for running programs (see ``runtime.py``)."""
from ..memory import CACHE_LINE, HUGE_PAGE, MADV_HUGEPAGE, PAGE, PRIVATE


def text() -> str:
    return _allocation() + _release() + _program()


def _allocation() -> str:
    """Large blocks, straight from the system."""
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
  %block = call ptr @aligned_alloc(i64 {CACHE_LINE}, i64 %rounded)
  %none = icmp eq ptr %block, null
  br i1 %none, label %failed, label %done
map:
  %up = add i64 %nbytes, {PAGE - 1}
  %length = and i64 %up, {-PAGE}
  %longer = add i64 %length, {HUGE_PAGE}
  %enough = icmp sgt i64 %longer, 0
  br i1 %enough, label %reserve, label %failed
reserve:
  %region = call ptr @mmap(ptr null, i64 %longer, i32 3, i32 {PRIVATE}, i32 -1, i64 0)
  %start = ptrtoint ptr %region to i64
  %refused = icmp eq i64 %start, -1
  br i1 %refused, label %failed, label %cut
cut:
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
  call i32 @madvise(ptr %aligned, i64 %length, i32 {MADV_HUGEPAGE})
  br label %done
done:
  %address = phi ptr [ %block, %small ], [ %aligned, %rest ]
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
  call void @free(ptr %address)
  ret void
unmap:
  %up = add i64 %nbytes, {PAGE - 1}
  %length = and i64 %up, {-PAGE}
  call i32 @munmap(ptr %address, i64 %length)
  ret void
}}
"""


def _program() -> str:
    return """define internal i8 @run_program(ptr %code, ptr %values, i1 %unlock) nounwind {
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
