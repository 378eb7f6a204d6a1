"""The processes of the conformance harness: what one of them sends is read while another is silent, and each does
several shares."""
import contextlib
import os
import queue

import pytest

from ..conformance import SHARES, Verdicts, Worker, forking

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")


def send(count, verdicts):
    for k in range(count):
        verdicts.put(k)


def send_identifier(verdicts):
    verdicts.put(os.getpid())


def end_at_once(verdicts):
    os._exit(3)


@pytest.fixture(autouse=True)
def no_workers():
    """Processes that a test leaves idle are ended; others do not find them."""
    assert not Worker.idle
    yield
    while Worker.idle:
        Worker.idle.pop().kill()


def start(context, target, *given):
    """(a process as the harness starts it, its queue)."""
    verdicts = context.Queue()
    process = context.Process(target=target, args=(*given, verdicts), daemon=True)
    process.start()
    return process, verdicts


def test_a_silent_process_delays_no_other():
    context = forking("spawn")
    silent, busy = context.Queue(), context.Queue()
    process = context.Process(target=send, args=(3, busy), daemon=True)
    process.start()
    for k in range(3):
        with pytest.raises(queue.Empty):
            silent.get(timeout=3600)  # ends as soon as the other queue has something
        assert busy.get(timeout=3600) == k
    process.join()


def test_queues_of_ended_processes_are_forgotten():
    before = len(Verdicts.queues)
    verdicts = Verdicts()
    assert len(Verdicts.queues) == before + 1
    del verdicts
    assert len(Verdicts.queues) == before


def test_a_wait_ends_without_messages():
    with pytest.raises(queue.Empty):
        Verdicts().get(timeout=0.01)


def test_a_process_does_several_shares_and_ends():
    context, identifiers = forking("spawn"), []
    for _ in range(SHARES + 1):
        process, verdicts = start(context, send_identifier)
        identifiers.append(verdicts.get(timeout=3600))
        process.join()
    assert len({*identifiers[:SHARES]}) == 1 and identifiers[-1] not in identifiers[:SHARES]


def test_shares_at_the_same_time_have_processes_of_their_own():
    context = forking("spawn")
    started = [start(context, send_identifier) for _ in range(2)]
    identifiers = set()
    for _, verdicts in started:
        while True:  # a wait ends when the other one has sent something
            with contextlib.suppress(queue.Empty):
                identifiers.add(verdicts.get(timeout=3600))
                break
    assert len(identifiers) == 2
    for process, _ in started:
        process.join()


def test_a_process_that_died_does_no_other_share():
    context = forking("spawn")
    process, verdicts = start(context, end_at_once)
    process.process.join()
    assert not process.is_alive() and process.exitcode == 3
    process.kill()
    assert context.Queue() is not verdicts and not Worker.idle
