"""Processes that start others, of which none is left when they take too long, and the port at which they meet."""
import contextlib
import os
import signal
import socket
import subprocess


@contextlib.contextmanager
def reserved_port():
    """A port that the system gives to nobody else within the block: it is bound already, without a listener, by which
    a server that may reuse addresses is not kept from it."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


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
