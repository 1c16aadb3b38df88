"""Memory that large lines took is kept for the next one, and returned when none comes."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import os, resource, threading, time
from mcpagg_runtime.processes import memory

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def copy():
    for _ in range(3):
        large = [bytes(20_000_000) + b"x" for _ in range(3)]

def read():
    copy()
    before = faults()
    copy()
    print(faults() - before)

memory.FREE_SECONDS = 0.2
memory.keep_memory()
least = resident()
thread = threading.Thread(target=read)
thread.start()
thread.join()
for _ in range(3):
    memory.return_memory()
for _ in range(200):
    if resident() < least + 20_000_000:
        break
    time.sleep(0.05)
print(resident() - least)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="that is glibc's way")
def test_memory_is_kept_from_one_large_line_to_the_next_and_returned() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, check=True)
    faults, left = map(int, done.stdout.split())
    assert faults < 1000  # of 44,000 for memory that is new
    assert left < 20_000_000
