"""Freed memory that stays with the process."""

import subprocess
import sys

import pytest

COUNT = """
import resource, sys
import torch
from duet.allocator import keep_freed_memory

if "keep" in sys.argv and not keep_freed_memory():
    sys.exit("no mallopt")

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def step():
    kept = [torch.ones(2**22) for _ in range(4)]  # 16 MiB each: 4,096 pages
    torch.ones(2**23)

for _ in range(20):
    step()
before = faults()
for _ in range(5):
    step()
print(faults() - before)
"""


def page_faults(*arguments):
    done = subprocess.run([sys.executable, "-c", COUNT, *arguments], capture_output=True, text=True)
    if "no mallopt" in done.stderr:
        pytest.skip("this C library cannot be told to keep freed memory")
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="only glibc can be told to keep freed memory")
def test_memory_that_a_step_frees_serves_the_next_without_page_faults():
    assert page_faults("keep") < page_faults() / 10
