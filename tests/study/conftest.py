import pytest

TINY = {
    **{"preset": "demo", "epochs": 1, "subset": 100, "batch_size": 50, "encoder": "tiny", "dim": 16},
    **{"projector": [16, 8], "action_pairs": 0, "calibrate": False},
}


@pytest.fixture
def tiny():
    """The base of runs that take a moment."""
    return dict(TINY)
