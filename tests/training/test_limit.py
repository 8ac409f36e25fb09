"""Numbers that would ask for more memory than there is, and YAML that is not what it says: one line each."""

import pytest
import yaml

from duet.error import DuetError, shown
from duet.training.experiment import from_dict
from duet.training.limit import MOST
from duet.training.plain_yaml import DEEPEST, PlainLoader
from duet.training.recipe import read_yaml


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"dim": 10**10}, "dim can be at most 65536; it is 10000000000"),
        ({"projector": [10**10]}, "projector can be at most 65536"),
        ({"projector": [2**16, 2**16]}, "4294967296 weights"),
        ({"seed": 2**64}, "seed must lie from 0"),
        ({"seed": int("f" * 5000, 16)}, "seed must lie from 0 to .* a huge number"),
        ({"bins": 10**12}, "bins can be at most"),
        ({"weight_decay": float("inf")}, "weight_decay must be a finite number"),
        ({"area": [1.0, 0.2]}, "area"),
        ({"data": "a\0b"}, "NUL"),
    ],
)
def test_a_number_that_no_machine_bears_is_refused(values, message):
    with pytest.raises(DuetError, match=message):
        from_dict(values)


def test_the_largest_that_are_allowed_make_an_experiment():
    alone = ("dim", "epochs", "subset", "action_pairs", "cached_views", "neck_width", "image_size")
    made = from_dict({key: MOST[key] for key in alone} | {"projector": [128]})
    assert made.dim == MOST["dim"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seed: 1\nlr: !!bool 3", "a value that is no bool in line 2"),
        ("lr: !!timestamp x", "a value that is no timestamp in line 1"),
        ("lr: 2001-99-99", "a value that is no timestamp"),
        ("lr: !!int ''", "a value that is no int"),
        ("lr: " + "[" * 3000, "nested deeper than 50 levels"),
        ("- " * 3000, "nested deeper than 50 levels"),
    ],
)
def test_yaml_that_is_not_what_it_says_is_one_line(tmp_path, text, message):
    path = tmp_path / "c.yaml"
    path.write_text(text)
    with pytest.raises(DuetError, match=message):
        read_yaml(path)


def test_brackets_that_lie_too_deep_are_not_read():
    loader = PlainLoader("[" * 3000)
    with pytest.raises(yaml.YAMLError, match="nested deeper"):
        loader.get_single_node()
    assert loader.index <= DEEPEST + 1


def test_a_long_value_is_shown_in_part():
    assert shown("rot4") == "'rot4'"
    assert len(shown("x" * 10**6)) <= 80
    assert len(shown([["x" * 100] * 100] * 100)) < 3500
    assert shown(16**5000) == "a huge number"
