"""The simulation of the pool's schedule: what it must say of steps whose times are known."""
import pytest

from benchmarks.threads import COUNTS, Costs, Step, chunked, simulated

FREE = Costs(0.0, 0.0, 0.0)


@pytest.mark.parametrize("threads", COUNTS)
def test_without_costs_even_work_is_divided_evenly(threads):
    assert simulated(Step("even", 64, 1, 1.0), threads, FREE, 16) == pytest.approx(1 / threads)


def test_what_is_left_over_waits_for_another_round():
    assert simulated(Step("one more", 65, 1, 65.0), 64, FREE, 16) == pytest.approx(2.0)


def test_a_step_of_one_chunk_runs_alone():
    assert simulated(Step("small", 8, 10, 1e-6), 64, Costs(), 16) == 1e-6


def test_more_threads_never_wait_longer_than_one_for_long_work():
    times = [simulated(Step("long", 4096, 1, 1.0), threads, Costs(), 16) for threads in COUNTS]
    assert times == sorted(times, reverse=True)


def test_fine_chunks_cost_claims_on_many_threads():
    step = Step("fine", 100_000, 1, 1e-3)
    assert chunked(step, 64, 16) <= 64 * 16 and chunked(step, 64, 0) == 100_000
    assert simulated(step, 64, Costs(), 16) < simulated(step, 64, Costs(), 0) / 5


def test_workers_without_chunks_that_look_anyway_delay_small_regions():
    step = Step("few", 4, 1, 1e-5)
    assert simulated(step, 64, Costs(), 16) < simulated(step, 64, Costs(), 16, first_alone=False)


def test_memory_serves_so_many_threads_at_most():
    found = [simulated(Step("stream", 6400, 1, 1.0, True), threads, FREE, 16) for threads in (8, 32, 64)]
    assert found[0] == pytest.approx(1 / 8, rel=0.1) and found[1] == pytest.approx(found[2], rel=0.1)
