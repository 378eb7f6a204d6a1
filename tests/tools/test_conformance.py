"""The processes of the conformance harness: what one of them sends is read while another is silent."""
import os
import queue

import pytest

from ..conformance import Verdicts, forking

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")


def send(verdicts, count):
    for k in range(count):
        verdicts.put(k)


def test_a_silent_process_delays_no_other():
    context = forking("spawn")
    silent, busy = context.Queue(), context.Queue()
    process = context.Process(target=send, args=(busy, 3))
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
