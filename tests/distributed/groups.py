"""Processes that start others, of which none is left when they take too long."""
import os
import signal
import subprocess


def finished(command, timeout, **how) -> subprocess.CompletedProcess:
    """As ``subprocess.run``, with the output as text; what fails to end in ``timeout`` seconds is killed with all that
    it has started."""
    how = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **how}
    with subprocess.Popen(command, text=True, start_new_session=True, **how) as process:
        try:
            out, error = process.communicate(timeout=timeout)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)  # not waited for yet: the group is its own
            raise
        return subprocess.CompletedProcess(command, process.returncode, out, error)
