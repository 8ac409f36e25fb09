"""The examples of the guide run."""

import re
from pathlib import Path

import torch

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "representation.md"


def test_the_examples_of_the_guide_run_from_top_to_bottom():
    torch.manual_seed(0)
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), flags=re.DOTALL)
    assert len(blocks) >= 8
    names = {}
    for block in blocks:
        exec(compile(block, str(GUIDE), "exec"), names)
