"""What follows exchanges of GPUs without waiting for them."""
import rushlight as rl
from rushlight import distributed as dist

from .test_nccl import peers, run  # noqa: F401 - a fixture


def test_what_comes_after_an_exchange_has_a_stream_of_its_own(peers):  # noqa: F811
    """The caller's stream waits for nothing until it asks for the value; the exchange's error is raised there."""
    def member(rank, place):
        x = place(rl.ones(4))
        dist.all_reduce(x)
        peers.driver.clear()
        work, seen = dist.all_reduce(x, async_op=True), []
        future = work.get_future().then(lambda found: seen.append(rl.cuda.current_stream().stream_id) or found.value())
        before = [row[:3] for row in peers.driver.notes("cuEventRecord", "cuStreamWaitEvent")]
        value = future.wait()
        after = [row[:3] for row in peers.driver.notes("cuEventRecord", "cuStreamWaitEvent")[len(before):]]
        return seen, before, after, value[0] is x, work.flight.done.handle, rl.cuda.current_stream().stream_id

    (side,), before, after, same, done, current = run(1, member)[0]
    assert same and current == 0 and side != 0
    assert all(stream != 0 for name, stream, _ in before if name == "cuStreamWaitEvent")
    assert ("cuStreamWaitEvent", side, done) in before
    marked = [event for name, stream, event in before if name == "cuEventRecord" and stream == side][-1]
    assert after == [("cuStreamWaitEvent", 0, marked)]
