"""A few lines of YAML cannot ask for much memory."""

import time
import tracemalloc

import pytest

from duet.error import DuetError
from duet.training import plain_yaml
from duet.training.recipe import read_yaml

BOMB = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 10))
HOLDS_ITSELF = ["lr: &a [*a]", "options: &a {b: *a}"]


@pytest.mark.parametrize("text", [BOMB, *HOLDS_ITSELF, f"{BOMB}b: {{<<: {{c: *a9}}}}"])
def test_a_few_lines_that_stand_for_much_are_refused_at_once(tmp_path, text):
    path = tmp_path / "small.yaml"
    path.write_text(text)
    tracemalloc.start()
    began = time.perf_counter()
    try:
        with pytest.raises(DuetError, match="more than 100,000 values"):
            read_yaml(path)
        assert tracemalloc.get_traced_memory()[1] < 4e6
    finally:
        tracemalloc.stop()
    assert time.perf_counter() - began < 1


def test_values_count_as_often_as_they_stand(tmp_path, monkeypatch):
    path = tmp_path / "small.yaml"
    # Three keys, a list of one, one of five such, and twice its alias: 1 + 3 + 2 + 2 x (1 + 5 x 2) values.
    path.write_text("a: &a [x]\nb: &b [*a, *a, *a, *a, *a]\nc: *b\n")
    monkeypatch.setattr(plain_yaml, "MOST_VALUES", 28)
    assert read_yaml(path)["c"] == [["x"]] * 5
    monkeypatch.setattr(plain_yaml, "MOST_VALUES", 27)
    with pytest.raises(DuetError, match="more than 27 values"):
        read_yaml(path)


def test_anchors_that_say_little_are_read(tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text("base: &base {lr: 0.1}\nrun: {<<: *base, epochs: 3}\nagain: *base\n")
    assert read_yaml(path)["run"] == {"lr": 0.1, "epochs": 3}
