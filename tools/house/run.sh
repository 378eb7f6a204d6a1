#!/bin/sh
# Move, rename and check a fresh clone: tools/house/run.sh ROOT
#
# Moves room by room and renames, with a commit after each, then checks.  Prints each step that fails and goes on; the
# logs of all steps are in ROOT/../house-logs (or $LOGS).  It starts over where it stopped: rooms that have moved are
# skipped.  Variables:
#   P        Python 3.13, for the scripts (default: python3.13)
#   V        a Python with NumPy, llvmlite and pytest, for the package (default: python)
#   JUDGE    a Python with PyTorch, which says what names PyTorch has (default: $V)
#   PYTORCH  the folder of that PyTorch (default: asked of $JUDGE)
#   ONCE=1   move all rooms at once, in one commit
#   FAST=1   leave out the comparison of names, of texts and of lists of capture before and after
#   TESTS    what pytest runs in the end (default: tests/layers tests/docs; empty: nothing)
set -u
ROOT=$(cd "$1" && pwd)
HOUSE=$(cd "$(dirname "$0")" && pwd)
P=${P:-python3.13} V=${V:-python} JUDGE=${JUDGE:-${V:-python}} LOGS=${LOGS:-$ROOT/../house-logs} TESTS=${TESTS-tests/layers tests/docs}
PYTORCH=${PYTORCH:-$(cd / && "$JUDGE" -c 'import os, torch; print(os.path.dirname(torch.__file__))')}
ROOMS="platform native ir tensor transforms ops compiler devices eager autograd capture packaging serialization torch torchvision compat face"
mkdir -p "$LOGS"
failed=
export PYTHONPATH="$ROOT:$ROOT/tests/startup"
cd "$ROOT" || exit 1

step() {  # NAME COMMAND...: run it, with its output in a log
    name=$1; shift
    echo "== $name"
    "$@" >"$LOGS/$name.log" 2>&1 || { echo "   FAILED (rc $?): $LOGS/$name.log"; tail -n 3 "$LOGS/$name.log"; failed="$failed $name"; }
    grep -h '^LOOK' "$LOGS/$name.log" | sed 's/^/   /'
}
works() { step "$1-works" "$V" "$HOUSE/smoke.py"; }
commit() { git add -A && { git diff --cached --quiet || git commit -qm "$1"; }; }

if [ -f rushlight/_src/core/settings.py ]; then  # nothing has moved yet
    [ -z "${FAST:-}" ] && step names-before sh -c "\"$V\" \"$HOUSE/check.py\" names . > \"$LOGS/names-before.json\""
    [ -z "${FAST:-}" ] && step policy-before sh -c "\"$V\" \"$HOUSE/check.py\" policy . > \"$LOGS/policy-before.json\""
    step combine "$P" "$HOUSE/combine.py" . "$PYTORCH"
    case "$failed" in *combine*) echo "combine.py refuses this tree: correct tables/ first"; cat "$LOGS/combine.log"; exit 1;; esac
fi
if [ -n "${ONCE:-}" ]; then
    step move "$P" "$HOUSE/move.py" .
    step floors "$V" "$HOUSE/floors.py" .
    works move
    commit "Move files to the packages that they belong to"
else
    for room in $ROOMS; do
        step "move-$room" "$P" "$HOUSE/move.py" . --room $room
        step "floors-$room" "$V" "$HOUSE/floors.py" .
        works "move-$room"
        commit "Move files of $room"
    done
fi
if [ -z "${FAST:-}" ]; then
    step imports "$V" "$HOUSE/check.py" imports .
    step texts "$V" "$HOUSE/check.py" texts .
    step names-after sh -c "\"$V\" \"$HOUSE/check.py\" names . > \"$LOGS/names-after.json\""
    step policy-after sh -c "\"$V\" \"$HOUSE/check.py\" policy . > \"$LOGS/policy-after.json\""
fi
[ -f "$LOGS/names-before.json" ] && step names "$P" "$HOUSE/check.py" compare "$LOGS/names-before.json" "$LOGS/names-after.json"
[ -f "$LOGS/policy-before.json" ] && step policy "$P" "$HOUSE/check.py" differ "$LOGS/policy-before.json" "$LOGS/policy-after.json"
step vocabulary "$P" "$HOUSE/vocabulary.py" .
works vocabulary
commit "Rename settings, logs, traits and stages"
step rename "$P" "$HOUSE/rename.py" . --judge "$JUDGE"
step compiles "$V" -m compileall -q rushlight tests benchmarks examples building
works rename
commit "Rename functions and classes"
step imports-renamed "$V" "$HOUSE/check.py" imports .
[ -n "$TESTS" ] && step tests "$V" -m pytest -q -m "" $TESTS && grep -h '^FAILED\|^ERROR' "$LOGS/tests.log"
[ -z "$failed" ] && echo "all steps passed" && exit 0
echo "failed:$failed"
exit 1
