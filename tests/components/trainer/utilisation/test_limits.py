import os

import psutil
import pytest

from penstock.components.trainer.utilisation.limits import (
    available_cores,
    cgroup_cpu_seconds,
    memory_limit_mib,
)

CPUS = len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({}, CPUS),
        ({"cpu.max": "50000 100000\n"}, 0.5),
        ({"cpu/cpu.cfs_quota_us": "25000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 0.25),
        ({"cpu.max": "max 100000\n"}, CPUS),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, CPUS),
    ],
)
def test_a_containers_quota_cuts_the_cores(tmp_path, files, cores):
    (tmp_path / "cpu").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert available_cores(tmp_path) == cores


def test_a_containers_limit_cuts_the_memory(tmp_path):
    machine = psutil.virtual_memory().total / 2**20
    assert memory_limit_mib(tmp_path) == machine
    for text, expected in (("max\n", machine), (f"{64 << 20}\n", 64)):
        (tmp_path / "memory.max").write_text(text)
        assert memory_limit_mib(tmp_path) == expected


def test_cpu_seconds_are_the_cgroups_and_only_without_one_the_machines(tmp_path):
    machine = psutil.cpu_times()
    assert cgroup_cpu_seconds(tmp_path) >= sum(machine) - machine.idle - 1
    (tmp_path / "cpu.stat").write_text("usage_usec 2500000\nuser_usec 2000000\n")
    assert cgroup_cpu_seconds(tmp_path) == 2.5
    (tmp_path / "cpuacct").mkdir()
    (tmp_path / "cpuacct/cpuacct.usage").write_text("1500000000\n")
    assert cgroup_cpu_seconds(tmp_path) == 1.5
