"""The configuration: typed, frozen, and refusing with a name and the nearest right one."""

import dataclasses

import pytest
import torch
import yaml

from duet.cli import SECTIONS
from duet.training.experiment import (
    Experiment,
    build_layout,
    build_method,
    build_stack,
    build_target,
    dump,
    from_dict,
    groups,
    preset,
    read,
    recipe,
)
from duet.methods import ESSL, Duet, SimCLR
from duet.representation import Concatenated, Flat, Gaussian, Joint, Table, VonMises

PRESETS = ["demo", "cpu", "paper", "paper-full-stack"]


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_whole(name):
    experiment = from_dict(preset(name))
    assert from_dict(yaml.safe_load(dump(experiment))) == experiment


def test_the_papers_recipe_is_the_papers():
    e = from_dict(preset("paper"))
    assert (e.encoder, e.bins, e.sigma, e.batch_size, e.epochs) == ("resnet32", 8, 0.2, 2048, 800)
    assert (e.optimizer, e.betas, e.lr, e.weight_decay, e.warmup_epochs) == ("adam", (0.9, 0.95), 1e-4, 1e-4, 10)
    assert e.projector == (2048, 2048, 128)
    assert from_dict(preset("paper-full-stack")).stack == "full"


def test_a_presets_lambda_is_for_duet():
    assert from_dict(recipe("cpu", {})).group_weight == 100
    assert from_dict(recipe("cpu", {"method": "essl"})).group_weight == 0.4
    assert from_dict(recipe("cpu", {"method": "essl", "weight": 2})).group_weight == 2
    assert recipe(None, {"lr": 1}) == {"lr": 1}


def test_every_field_is_a_flag():
    flags = [name for names in SECTIONS.values() for name in names]
    assert sorted(flags) == sorted(field.name for field in dataclasses.fields(Experiment))
    assert all(field.metadata["help"] for field in dataclasses.fields(Experiment))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"grup": "hue"}, "'grup' (did you mean 'group'?)"),
        ({"method": "simclear"}, "did you mean 'simclr'"),
        ({"group": "rot36"}, "did you mean 'rot360'"),
        ({"bins": "eight"}, "bins must be a whole number"),
        ({"bins": 2.5}, "bins must be a whole number"),
        ({"bins": True}, "bins must be a whole number"),
        ({"lr": -1}, "lr must be above 0"),
        ({"lr": float("nan")}, "lr must be above 0"),
        ({"weight": -1}, "cannot be negative"),
        ({"area": [0.2]}, "area takes 2 values"),
        ({"group": ["hue", "hue"]}, "each once"),
        ({"group": ["hue", "rot4"], "layout": "table"}, "concatenated or joint"),
        ({"epochs": 2, "warmup_epochs": 3}, "longer than the training"),
        ({"normalize": "perhaps"}, "true or false"),
        ({"channels": 2}, "one of 1, 3"),
        ({"devices": 3}, "must divide by the 3 processes"),
        ({"projector": [0]}, "projector"),
    ],
)
def test_mistakes_are_named(values, message):
    with pytest.raises(ValueError, match=r".") as caught:
        from_dict(values)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_text_from_the_command_line_is_typed():
    e = from_dict({"bins": "4", "lr": "1e-3", "group": ["hue"], "channels": "3", "precision": 32, "area": ["0.3", "1"]})
    assert (e.bins, e.lr, e.group, e.channels, e.precision, e.area) == (4, 1e-3, ("hue",), 3, "32", (0.3, 1.0))


def test_an_experiment_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Experiment().lr = 1


def test_a_damaged_file_is_one_line(tmp_path):
    path = tmp_path / "c.yaml"
    for text in ("a: [", "- 1", "!!python/object/apply:os.system ['true']"):
        path.write_text(text)
        with pytest.raises(ValueError, match=r"c\.yaml"):
            read(path)
    with pytest.raises(ValueError, match="cannot read"):
        read(tmp_path / "none.yaml")


def test_strings_become_objects():
    e = Experiment(encoder="small", channels=1, projector=(16, 8))
    assert isinstance(build_method(e), Duet)
    assert isinstance(build_method(dataclasses.replace(e, method="simclr")), SimCLR)
    assert isinstance(build_method(dataclasses.replace(e, method="essl")), ESSL)
    assert isinstance(build_layout(e, 128), Table)
    assert isinstance(build_layout(dataclasses.replace(e, method="simclr"), 128), Flat)
    two = dataclasses.replace(e, group=("rot360", "scale"))
    assert isinstance(build_layout(two, 128), Concatenated)
    assert isinstance(build_layout(dataclasses.replace(two, layout="joint"), 128), Joint)
    assert build_layout(e, 128).axes[0].target == VonMises(sigma=0.2)
    assert build_target(dataclasses.replace(e, target="gaussian"), groups(e)[0]) == Gaussian(sigma=0.2)
    assert groups(dataclasses.replace(e, corners="circle"))[0].corners == "circle"
    assert dataclasses.replace(e, method="essl").group_weight == 0.4
    with pytest.raises(ValueError, match="nearest"):
        build_layout(dataclasses.replace(e, bins=7), 128)


def test_colour_groups_need_colour():
    with pytest.raises(ValueError, match="need colour"):
        build_stack(Experiment(channels=1, group=("hue",)))
    with pytest.raises(ValueError, match="need colour"):
        build_stack(Experiment(channels=1, stack="full"))


def test_a_backbone_of_your_own():
    from duet.networks import wrap

    body = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 32))
    method = build_method(Experiment(channels=1, projector=(8,)), wrap(body, channels=1, width=32))
    assert method.backbone.body is body
