"""A few lines of YAML cannot ask for much memory."""

import os
import time
import tracemalloc
from pathlib import Path

import pytest

from duet.error import DuetError
from duet.training import plain_yaml
from duet.training.experiment import from_dict
from duet.training.plain_yaml import parse_yaml
from duet.training.recipe import merge, read_yaml

BOMB = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 10))
HOLDS_ITSELF = ["lr: &a [*a]", "options: &a {b: *a}"]


@pytest.mark.parametrize("text", [BOMB, *HOLDS_ITSELF, f"{BOMB}b: {{<<: {{c: *a9}}}}"])
def test_a_few_lines_that_stand_for_much_are_refused_at_once(tmp_path, text):
    path = tmp_path / "small.yaml"
    path.write_text(text)
    tracemalloc.start()
    began = time.process_time()
    try:
        with pytest.raises(DuetError, match="more than 100,000 values"):
            read_yaml(path)
        assert tracemalloc.get_traced_memory()[1] < 4e6
    finally:
        tracemalloc.stop()
    assert time.process_time() - began < 20  # minutes where all that they stand for is counted


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


def test_a_pipe_and_a_device_are_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe.yaml")
    for path in (tmp_path / "pipe.yaml", Path("/dev/zero"), tmp_path):
        with pytest.raises(DuetError, match="not a regular file"):
            read_yaml(path)


def test_no_settings_are_huge(tmp_path, monkeypatch):
    path = tmp_path / "large.yaml"
    path.write_text("lr: 1\n" + "#" * 1000)
    assert read_yaml(path) == {"lr": 1}
    monkeypatch.setattr("duet.file.LARGEST_SETTINGS", 1000)
    with pytest.raises(DuetError, match="no settings are"):
        read_yaml(path)


@pytest.mark.parametrize("group", ["[]", "[[x]]", "5", "{a: 1}", "~", "[rot360, 3]"])
def test_a_group_that_is_none_is_refused_also_where_a_weight_goes_by_group(tmp_path, group):
    path = tmp_path / "odd.yaml"
    path.write_text(f"weight: {{others: 1}}\ngroup: {group}\n")
    with pytest.raises(DuetError, match="group"):
        from_dict(merge(read_yaml(path)))


@pytest.mark.parametrize("value", ["[1]", "many", "{a: 1}"])
def test_a_weight_by_group_that_is_no_number_is_refused(value):
    with pytest.raises(DuetError, match="weight must be a number"):
        from_dict(merge(parse_yaml(f"weight: {{others: {value}, hue: 2}}\ngroup: [rot360, hue]")))
