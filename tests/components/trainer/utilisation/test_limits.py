import os

import psutil
import pytest

from penstock.components.trainer.utilisation.limits import available_cores, memory_limit_mib


def write(folder, **files):
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("DOT", ".")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


def test_without_a_container_it_is_the_machine(tmp_path):
    assert available_cores(tmp_path) == len(os.sched_getaffinity(0))
    assert memory_limit_mib(tmp_path) == psutil.virtual_memory().total / 2**20


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({"cpuDOTmax": "50000 100000\n"}, 0.5),
        ({"cpu__cpuDOTcfs_quota_us": "25000\n", "cpu__cpuDOTcfs_period_us": "100000\n"}, 0.25),
    ],
)
def test_a_containers_quota_cuts_the_cores(tmp_path, files, cores):
    write(tmp_path, **files)
    assert available_cores(tmp_path) == cores


@pytest.mark.parametrize(
    "files",
    [
        {"cpuDOTmax": "max 100000\n"},
        {"cpu__cpuDOTcfs_quota_us": "-1\n", "cpu__cpuDOTcfs_period_us": "100000\n"},
    ],
)
def test_no_quota_is_no_cut(tmp_path, files):
    write(tmp_path, **files)
    assert available_cores(tmp_path) == len(os.sched_getaffinity(0))


def test_a_containers_limit_cuts_the_memory(tmp_path):
    write(tmp_path, memoryDOTmax=f"{64 << 20}\n")
    assert memory_limit_mib(tmp_path) == 64
    write(tmp_path, memoryDOTmax="max\n")
    assert memory_limit_mib(tmp_path) == psutil.virtual_memory().total / 2**20
