"""The number of threads: from processors, quotas of control groups, the environment and the
caller."""

import math
import os
import subprocess
import sys

import pytest

import specgrad as sg
from specgrad import threads


def tree(folder, groups, files):
    """Write a list of control groups and a tree of their files."""
    for name, text in files.items():
        path = folder / "fs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    listed = folder / "cgroup"
    listed.write_text(groups)
    return threads._quota(listed, folder / "fs")


@pytest.mark.parametrize(
    ("groups", "files", "quota"),
    [
        ("0::/\n", {"cpu.max": "max 100000\n"}, math.inf),
        ("0::/\n", {"cpu.max": "150000 100000\n"}, 1.5),
        ("0::/pod/app\n", {"pod/cpu.max": "200000 100000\n", "pod/app/cpu.max": "max 100000\n"}, 2),
        ("0::/pod/app\n", {"cpu.max": "100000 100000\n", "pod/app/cpu.max": "300000 100000\n"}, 1),
        ("0::/of/the/host\n", {"cpu.max": "50000 100000\n"}, 0.5),
        ("0::/../elsewhere\n", {"cpu.max": "50000 100000\n"}, 0.5),
        ("1:cpu:/\n0::/\n", {"unified/cpu.max": "400000 100000\n"}, 4),
        ("0::/\n", {"cpu.max": "nonsense"}, math.inf),
        ("0::/\n", {}, math.inf),
        ("not a list\n", {"cpu.max": "100000 100000\n"}, math.inf),
        ("", {"cpu.max": "100000 100000\n"}, math.inf),
        (
            "4:memory:/x\n2:cpu,cpuacct:/pod\n",
            {"cpu,cpuacct/pod/cpu.cfs_quota_us": "250000\n", "cpu,cpuacct/pod/cpu.cfs_period_us": "100000\n"},
            2.5,
        ),
        ("1:cpu:/\n", {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, math.inf),
        ("1:cpu,cpuacct:/host\n", {"cpu/cpu.cfs_quota_us": "300000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 3),
        ("3:cpuset:/\n", {"cpuset/cpu.cfs_quota_us": "1\n", "cpuset/cpu.cfs_period_us": "1\n"}, math.inf),
    ],
)
def test_quotas_of_control_groups(tmp_path, groups, files, quota):
    assert tree(tmp_path, groups, files) == quota


def test_a_process_without_control_groups_has_no_quota(tmp_path):
    assert threads._quota(tmp_path / "none", tmp_path) == math.inf


@pytest.fixture
def fresh(monkeypatch):
    """No number of threads is set."""
    monkeypatch.delenv(threads.VARIABLE, raising=False)
    monkeypatch.setattr(threads, "_everywhere", None)
    threads._available.cache_clear()
    yield monkeypatch
    threads._available.cache_clear()


@pytest.mark.parametrize(("quota", "count"), [(0.25, 1), (1, 1), (1.5, 2), (3, 3), (99, 4), (math.inf, 4)])
def test_as_many_threads_as_processors_and_quota_allow(fresh, quota, count):
    fresh.setattr(os, "process_cpu_count", lambda: 4, raising=False)
    fresh.setattr(threads, "_quota", lambda: quota)
    assert sg.get_num_threads() == count
    with sg.num_threads(7):
        assert sg.get_num_threads() == 7


def test_the_environment_and_the_caller_decide_before_the_machine(fresh):
    fresh.setattr(threads, "_quota", lambda: 1)
    fresh.setenv(threads.VARIABLE, "5")
    assert sg.get_num_threads() == 5
    sg.set_num_threads(3)
    assert sg.get_num_threads() == 3


@pytest.mark.parametrize("word", ["0", "-1", "1.5", "two", "²"])
def test_an_environment_that_names_no_number_is_refused_in_words(fresh, word):
    fresh.setenv(threads.VARIABLE, word)
    with pytest.raises(sg.ArgumentError, match=f"{threads.VARIABLE}: value={word!r}|value=0"):
        sg.get_num_threads()


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity")
def test_affinity_counts_also_in_a_forked_child():
    code = """
import os, specgrad as sg
before = sg.get_num_threads()
child = os.fork()
if not child:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    os._exit(sg.get_num_threads())
print(before == min(before, len(os.sched_getaffinity(0))), os.waitpid(child, 0)[1] >> 8)
"""
    env = {name: word for name, word in os.environ.items() if name != threads.VARIABLE}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout == "True 1\n"
