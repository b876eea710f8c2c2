"""The crew: threads that wait in compiled code and run a kernel beside its caller."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

import specgrad as sg
from specgrad import threads
from specgrad.engines.cpu import together as crew
from specgrad.engines.cpu.kernels.compiling import compiled
from specgrad.engines.cpu.kernels.crew import disband, enlist, part_of, take


@compiled
def meet(turns, pause, speaker, tasks, counter, rooms, crew, turn):
    """turns[t] = who took task t, after a pause in which nobody else may write to its part of the scratch; the speaker says so."""
    own = part_of(rooms, turn)
    t = enlist(counter, crew, turn)
    while t < len(tasks):
        own[pause % 2] = turn  # a place that no compiler knows, so that it is read again
        for i in range(pause):
            own[1] = (own[1] * 0.5 + i) % 7.0
        turns[t] = turn if own[pause % 2] == turn else -2
        t = take(counter)
    return disband(counter, crew, turn, turn == speaker)


@compiled
def tally(taken, tasks, counter, rooms, crew, turn):
    """taken[t] = how often task t was taken."""
    t = enlist(counter, crew, turn)
    while t < len(tasks):
        taken[t] += 1
        t = take(counter)
    return disband(counter, crew, turn, False)


@pytest.mark.parametrize("native", [crew.NATIVE, False])
def test_every_task_is_taken_once(native, monkeypatch):
    kernel = crew.kernel
    monkeypatch.setattr(crew, "NATIVE", native)
    monkeypatch.setattr(crew, "kernel", lambda name: tally if name == "tally" else kernel(name))
    room = "meeting", 2, np.dtype(np.float64)
    for tasks in (1, 2, 3, 11, 47, 64, 201):
        for count in (1, 2, 3, 8):
            for _ in range(20):  # some of many tasks backwards
                taken = np.zeros(tasks, np.int64)
                with sg.num_threads(count):
                    crew.together("tally", (taken,), np.zeros((tasks, 2), np.int64), room)
                assert taken.tolist() == [1] * tasks


@pytest.fixture
def met(monkeypatch):
    """Run `meet` on two tasks; who took them, and what was said."""
    kernel = crew.kernel

    def call(count, pause=100_000, speaker=-1):
        turns, room = np.full(4, -1), ("meeting", 2, np.dtype(np.float64))
        with sg.num_threads(count):
            said = crew.together("meet", (turns, pause, speaker), np.zeros((4, 2), np.int64), room)
        return set(turns.tolist()), said

    monkeypatch.setattr(crew, "kernel", lambda name: meet if name == "meet" else kernel(name))
    return call


@pytest.mark.parametrize("native", [crew.NATIVE, False])
def test_others_come_and_are_waited_for(met, native, monkeypatch):
    monkeypatch.setattr(crew, "NATIVE", native)
    calls = [met(3)[0] for _ in range(40)]
    assert all(turns <= {0, 1, 2} for turns in calls)  # and none is unfinished
    assert any(len(turns) > 1 for turns in calls)
    assert met(1, pause=2)[0] == {0}


def test_those_who_went_to_sleep_are_woken(met):
    met(3)
    calls = []
    for _ in range(10):
        time.sleep(0.02)  # longer than they look out for a call
        calls.append(met(3)[0])
    assert any(len(turns) > 1 for turns in calls)


@pytest.mark.parametrize("native", [crew.NATIVE, False])
def test_what_any_of_them_says_is_said(met, native, monkeypatch):
    monkeypatch.setattr(crew, "NATIVE", native)
    assert any(met(2, speaker=1)[1] for _ in range(40))
    assert met(2, speaker=0)[1]
    assert not met(2)[1]


def test_one_call_has_the_crew_and_others_work_alone(met):
    """However many call at once, each gets what is its own."""
    found = []

    def call():
        for _ in range(200):
            found.append(met(3, pause=100)[0] <= {0, 1, 2})

    callers = [threading.Thread(target=call) for _ in range(6)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert len(found) == 1200
    assert all(found)


@pytest.mark.skipif(not crew.NATIVE, reason="no crew here")
def test_a_crew_that_is_dismissed_goes_and_its_callers_work_alone(met, monkeypatch):
    monkeypatch.setattr(crew, "_crew", crew.Crew())
    met(3)
    members = list(crew._crew.members)
    assert len(members) == 2
    crew._crew.dismiss()
    assert not any(member.is_alive() for member in members)
    assert met(3)[0] == {0}


@pytest.mark.parametrize("native", [crew.NATIVE, False])
def test_where_the_system_gives_no_threads_the_caller_works_alone(met, native, monkeypatch):
    def none(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(crew, "NATIVE", native)
    monkeypatch.setattr(crew, "_crew", crew.Crew())
    monkeypatch.setattr(threads, "_helpers", 0)
    monkeypatch.setattr(threading.Thread, "start", none)
    assert met(3, pause=2)[0] == {0}
