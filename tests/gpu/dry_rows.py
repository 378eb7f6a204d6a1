"""Run ``benchmarks.gpu --dry`` with the processes of its rows forked from one that has imported what they import.

``python -m tests.gpu.dry_rows ARGUMENTS`` takes the arguments of ``benchmarks.gpu``.  The first row is still a process
of its own, as all are without this program.
"""
import os
import signal
import subprocess
import sys
import tempfile
import traceback
import types

import rushlight
from benchmarks import gpu
from tests.conformance import warm_up
from tests.gpu import recorded, vendors


def run_forked(command, env, timeout, **how) -> subprocess.CompletedProcess:
    """Run ``python -m benchmarks.gpu ...`` as ``subprocess.run`` does, in a fork of this process."""
    arguments = command[command.index("benchmarks.gpu") + 1:]
    if "--about" in arguments:
        return subprocess.run(command, env=env, timeout=timeout, **how)
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        child = os.fork()
        if not child:
            run_row(arguments, env, output, errors, timeout)
        _, status = os.waitpid(child, 0)
        output.seek(0), errors.seek(0)
        return subprocess.CompletedProcess(command, os.waitstatus_to_exitcode(status), output.read(), errors.read())


def run_row(arguments, env, output, errors, timeout):
    """Be the process of a row, and end."""
    status = 1
    try:
        signal.alarm(int(timeout) + 1)  # the signal ends this process
        os.dup2(output.fileno(), 1), os.dup2(errors.fileno(), 2)
        os.environ.update(env)
        sys.argv[1:] = arguments
        gpu.main()
        status = 0
    except BaseException:  # noqa: BLE001 - the row tells it, as a process of its own would
        traceback.print_exc()
    finally:
        sys.stdout.flush(), sys.stderr.flush()
        os._exit(status)


def main():
    warm_up(rushlight)
    for image in (recorded.image, vendors.blas_image, vendors.dnn_image):  # each is made once in a process
        image()
    gpu.subprocess = types.SimpleNamespace(run=run_forked, TimeoutExpired=subprocess.TimeoutExpired)
    gpu.main()


if __name__ == "__main__":
    main()
