"""Work in order: alone while it is quick, by threads when it is slow, never far ahead."""

import threading

import pytest

from duet.data import pool
from duet.data.pool import AHEAD, TRIED, Pool, in_parts


class Clock:
    """Time that passes only when somebody says so."""

    now = 0.0

    def perf_counter(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    monkeypatch.setattr(pool, "time", Clock())
    return pool.time


def quick(number):
    return number * 2, threading.get_ident()


def slow(number):
    pool.time.sleep(0.003)
    return quick(number)


@pytest.mark.parametrize("work", [quick, slow])
def test_results_are_in_order_and_not_far_ahead(work):
    started = []

    def items():
        for number in range(1000):
            started.append(number)
            yield number

    results = Pool().map(work, items())
    assert [next(results)[0] for _ in range(40)] == list(range(0, 80, 2))
    assert len(started) <= AHEAD + 40
    results.close()


def test_quick_work_is_done_by_the_caller():
    workers = {worker for _, worker in Pool().map(quick, range(500))}
    assert workers == {threading.get_ident()}


def test_slow_work_is_handed_to_threads_and_tried_again_after_a_while(monkeypatch):
    monkeypatch.setattr(pool, "available_cores", lambda: 2)
    monkeypatch.setattr(pool, "TRIED", 8)
    monkeypatch.setattr(pool, "AGAIN", 40)
    own, me = Pool(), threading.get_ident()
    mine = [worker == me for _, worker in own.map(slow, range(30))]
    assert mine == [True] * 8 + [False] * 22
    mine = [worker == me for _, worker in own.map(quick, range(100))]
    assert mine == [False] * 18 + [True] * 82


def test_what_becomes_slow_goes_to_threads_too():
    me = threading.get_ident()
    mine = [worker == me for _, worker in Pool().map(lambda n: slow(n) if n >= 64 else quick(n), range(192))]
    assert all(mine[:64])
    assert not any(mine[128:])


def test_large_items_are_not_waited_for_long():
    def large(number):
        pool.time.sleep(0.06)
        return quick(number)

    me = threading.get_ident()
    mine = [worker == me for _, worker in Pool().map(large, range(6))]
    assert mine == [True, True, False, False, False, False]


def test_a_few_slow_ones_do_not_make_the_others_wait():
    me = threading.get_ident()
    workers = [worker for _, worker in Pool().map(lambda n: slow(n) if n % 8 == 0 else quick(n), range(200))]
    assert set(workers) == {me}


@pytest.mark.parametrize("work", [quick, slow])
def test_an_error_reaches_the_caller_at_its_place(work):
    def fail(number):
        if number == 30:
            raise ValueError("thirty")
        return work(number)

    results = Pool().map(fail, range(100))
    assert [next(results)[0] for _ in range(30)] == list(range(0, 60, 2))
    with pytest.raises(ValueError, match="thirty"):
        next(results)


def test_the_consumers_time_is_not_the_works(clock):
    workers = set()
    for _, worker in Pool().map(quick, range(TRIED + 10)):
        workers.add(worker)
        clock.sleep(0.002)
    assert workers == {threading.get_ident()}


def test_parts_are_whole_but_the_last():
    assert list(in_parts(range(7), 3)) == [[0, 1, 2], [3, 4, 5], [6]]
    assert list(in_parts([], 3)) == []
