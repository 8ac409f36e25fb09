"""The configuration: typed, frozen, and refusing with a name and the nearest right one."""

import dataclasses

import pytest
import torch
import yaml
from torch import nn

import duet
from duet import GROUPS, Experiment
from duet.cli.train import RECORDED, SECTIONS
from duet.methods import ESSL, METHODS, Duet, Method, SimCLR, register_method
from duet.networks import OnlineHead
from duet.representation import Concatenated, Flat, Gaussian, Joint, Table, VonMises
from duet.training.experiment import (
    build_layout,
    build_method,
    build_stack,
    build_target,
    from_dict,
    group_weight,
    method_options,
    unused_keys,
)
from duet.training.recipe import merge, preset, presets, read_yaml
from duet.training.step import parameter_groups

PRESETS = ["demo", "cpu", "cifar", "cifar-best", "photos", "paper", "paper-full-stack"]


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_whole(name):
    experiment = Experiment.preset(name)
    assert from_dict(yaml.safe_load(experiment.to_yaml())) == experiment
    assert len(presets()[name]) > 20


def test_the_papers_recipe_is_the_papers():
    e = Experiment.preset("paper")
    assert (e.encoder, e.bins, e.sigma, e.batch_size, e.epochs) == ("resnet32", 8, 0.2, 2048, 800)
    assert (e.optimizer, e.betas, e.lr, e.weight_decay, e.warmup_epochs) == ("adam", (0.9, 0.95), 1e-4, 1e-4, 10)
    assert e.projector == (2048, 2048, 128)
    assert Experiment.preset("paper-full-stack").stack == "full"
    for name in ("paper", "paper-full-stack"):
        assert Experiment.preset(name, data="digits").image_size == 32
        assert Experiment.preset(name).sync_batchnorm is True


@pytest.mark.parametrize("group", GROUPS)
def test_lambda_follows_the_group_in_the_papers_recipe_and_not_in_the_full_stack(group):
    strong = group in ("rot4", "rot360", "vflip")
    assert group_weight(Experiment.preset("paper", group=group)) == (1000 if strong else 10)
    assert group_weight(Experiment.preset("paper", group=group, weight=7)) == 7
    assert group_weight(Experiment.preset("paper-full-stack", group=group)) == 10


def test_of_several_groups_the_recipes_least_lambda_holds():
    assert group_weight(Experiment.preset("paper", group=["rot4", "vflip"])) == 1000
    assert group_weight(Experiment.preset("paper", group=["rot4", "hue"])) == 10


def test_a_presets_lambda_is_for_duet():
    assert group_weight(Experiment.preset("cpu")) == 100
    assert group_weight(Experiment.preset("cpu", method="essl")) == 0.4
    assert group_weight(Experiment.preset("cpu", method="essl", weight=2)) == 2
    assert group_weight(Experiment.preset("paper", method="essl", group="rot4")) == 0.4
    assert group_weight(Experiment.preset("cpu", method="simclr")) is None
    assert merge({}, {"lr": 1}) == {"lr": 1}


def test_what_a_file_says_of_a_method_is_for_the_method_that_it_names():
    plain, ours, theirs = {"weight": 5}, {"method": "duet", "weight": 5}, {"method": "essl", "weight": 0.7}
    for filed, typed, weight in (
        (ours, {}, 5),
        (plain, {}, 5),
        (ours, {"method": "essl"}, 0.4),
        (plain, {"method": "essl"}, 0.4),
        (theirs, {}, 0.7),
        (theirs, {"method": "duet"}, 10),
        (ours, {"method": "essl", "weight": 3}, 3),
        (theirs, {"weight": 3}, 3),
    ):
        assert group_weight(from_dict(merge({}, filed, typed))) == weight
    assert group_weight(from_dict(merge(preset("cpu"), theirs, {}))) == 0.7
    assert group_weight(from_dict(merge(preset("cpu"), theirs, {"method": "duet"}))) == 100


def test_every_field_is_a_flag():
    flags = [name for names in SECTIONS.values() for name in names]
    assert sorted([*flags, *RECORDED]) == sorted(field.name for field in dataclasses.fields(Experiment))
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
        ({"turns": 0}, "turns must be above 0"),
        ({"turns": 3}, "3 turns do not divide the 8 columns of rot360"),
        ({"turns": 4, "group": "hue"}, "4 turns need a table with one rotation"),
        ({"bins": 2}, "bins of rot360 must be at least 3"),
        ({"bins": 1, "group": "hue"}, "bins of hue must be at least 2"),
        ({"bins": 2, "group": "hue", "target": "vonmises"}, "bins of hue must be at least 3"),
        ({"bins": 2, "group": ["hue", "rot4"]}, "bins of rot4 must be at least 3"),
        ({"strategy": "deepspeed"}, "one of auto, ddp"),
        ({"strategy": "fsdp"}, "one of auto, ddp"),
        ({"contrast": "nt_xnt"}, "did you mean 'nt_xent'"),
        ({"options": {"wieght": 3}}, "duet has no option 'wieght' (did you mean 'weight'?); it has weight, reference"),
        ({"options": {"reference": "relativ"}}, "did you mean 'relative'"),
        ({"options": {"weight": "much"}}, "weight must be a number"),
        ({"options": 3}, "options must be `key: value` pairs"),
        ({"method": "simclr", "options": {"weight": 3}}, "simclr has no option 'weight'; it has leave_out"),
        ({"method": "essl", "group": "scale"}, "ESSL has no meaning for scale"),
        ({"precison": 16}, "did you mean 'precision'"),
        ({"views": 1}, "a contrast needs 2 views of an image or more; views is 1"),
        ({"views": 257}, "views can be at most 256"),
        ({"blur": 1.5}, "blur is a probability, from 0 to 1; it is 1.5"),
        ({"optimizer": "lars"}, "one of adam, adamw, sgd"),
        ({"learning_rate": 1}, "did you mean 'lr'"),
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
            read_yaml(path)
    with pytest.raises(ValueError, match="cannot read"):
        read_yaml(tmp_path / "none.yaml")


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
    assert build_target(dataclasses.replace(e, target="gaussian"), e.groups[0]) == Gaussian(sigma=0.2)
    assert dataclasses.replace(e, corners="circle").groups[0].corners == "circle"
    assert group_weight(dataclasses.replace(e, method="essl")) == 0.4
    with pytest.raises(ValueError, match="nearest"):
        build_layout(dataclasses.replace(e, bins=7), 128)


def test_few_bins_are_no_matter_without_a_table():
    assert Experiment(method="simclr", bins=2).bins == 2
    assert Experiment(group=("hue",), bins=2).bins == 2


def test_the_groups_of_a_run_have_its_settings(tmp_path):
    experiment = Experiment(group=("scale",), area=(0.5, 1), channels=1, encoder="tiny", projector=(8,))
    assert experiment.groups[0].area == (0.5, 1)
    assert experiment.groups is experiment.groups
    crops = [stage.group for stage in build_stack(experiment).stages if stage.group.crops]
    assert crops == [experiment.groups[0]]
    apart = Experiment(group=("rot360",), area=(0.5, 1))
    assert [stage.group.area for stage in build_stack(apart).stages if stage.group.crops] == [(0.5, 1)]
    method = build_method(experiment)
    encoder = duet.Encoder(method.backbone, method.layout, experiment.groups)
    encoder.save(tmp_path / "model")
    assert duet.load(tmp_path / "model").groups["scale"].area == (0.5, 1)
    assert GROUPS["scale"].area == (0.2, 1)


@dataclasses.dataclass(frozen=True)
class Settings:
    """Some of these are keys of a run too."""

    speed: int = 1
    warm: bool = False
    bins: int = 0
    shape: tuple[int, ...] = (1,)


class Fast(Method):
    name, title, Options = "fast", "Fast", Settings

    def __init__(self, backbone, layout, **options):
        super().__init__(backbone, layout)
        self.given = options

    def terms(self, represented, views, gather=None):
        return {"content": represented.z.square().mean()}


def test_a_methods_own_options_are_filled_typed_and_built():
    register_method(Fast)
    try:
        plain = Experiment(method="fast", encoder="tiny", bins=5)
        assert method_options(plain) == Settings(bins=5)
        typed = {"speed": "3", "warm": "true", "bins": "4", "shape": ["2", "3"]}
        experiment = dataclasses.replace(plain, options=typed)
        assert method_options(experiment) == Settings(3, True, 4, (2, 3))
        assert build_method(experiment).given == {"speed": 3, "warm": True, "bins": 4, "shape": (2, 3)}
        assert from_dict(yaml.safe_load(experiment.to_yaml())) == experiment
        with pytest.raises(
            ValueError, match=r"fast has no option 'sped' \(did you mean 'speed'\?\); it has speed, warm"
        ):
            dataclasses.replace(plain, options={"sped": 1})
        with pytest.raises(ValueError, match="speed must be a whole number"):
            dataclasses.replace(plain, options={"speed": "x"})
    finally:
        METHODS.pop("fast")


def test_a_file_is_written_and_read_again(tmp_path):
    experiment = Experiment.preset("paper", group=("rot4", "hue"), options={"weight": 3}, area=(0.3, 0.9))
    assert experiment.to_yaml(tmp_path / "deep" / "c.yaml") == (tmp_path / "deep" / "c.yaml").read_text()
    assert Experiment.from_yaml(tmp_path / "deep" / "c.yaml") == experiment
    assert Experiment.from_yaml(str(tmp_path / "deep" / "c.yaml")).groups[0].name == "rot4"


def test_a_file_never_makes_us_import_anything(tmp_path):
    (tmp_path / "trap.py").write_text("raise SystemExit('imported')")
    for line in ("encoder: trap:build", "plugins: [trap]", "plugins: trap"):
        (tmp_path / "c.yaml").write_text(line)
        with pytest.raises(ValueError, match="--plugin trap"):
            Experiment.from_yaml(tmp_path / "c.yaml")


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({}, "duet-rot360-digits"),
        ({"method": "essl"}, "essl-rot360-digits"),
        ({"method": "simclr", "group": ("rot4", "hue"), "data": "photos/cats/"}, "simclr-rot4-hue-cats"),
        ({"data": "/data/set-*.parquet"}, "duet-rot360-set"),
        ({"weight": 10.0}, "duet-rot360-digits"),
        ({"weight": 0}, "duet-rot360-digits-lambda0"),
        ({"method": "essl", "weight": 2.5}, "essl-rot360-digits-lambda2.5"),
        (
            {"reference": "relative", "stack": "full", "weight": 0, "seed": 3},
            "duet-rot360-digits-relative-full-lambda0-seed3",
        ),
    ],
)
def test_a_runs_name_says_what_is_not_usual(changes, name):
    assert dataclasses.replace(Experiment(), **changes).name == name


def test_a_runs_name_beside_its_recipe_says_what_differs_from_that():
    recipe = Experiment.preset("paper-full-stack", group="rot4")
    assert recipe.name_beside(recipe) == "duet-rot4-cifar10"
    other = dataclasses.replace(recipe, stack="rrc", weight=1000.0, seed=1)
    assert other.name_beside(recipe) == "duet-rot4-cifar10-rrc-lambda1000-seed1"


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


def test_a_group_may_be_a_text():
    assert Experiment(group="hue").group == ("hue",)


def test_an_option_may_be_called_like_a_property_of_the_run():
    class Named(SimCLR):
        name, title = "named", "Named"

        @dataclasses.dataclass(frozen=True)
        class Options:
            name: str = "mine"
            groups: int = 3

    register_method(Named)
    try:
        assert method_options(Experiment(method="named")) == Named.Options("mine", 3)
    finally:
        del METHODS["named"]


def test_a_weight_that_is_no_number_is_refused_by_name():
    with pytest.raises(ValueError, match="weight must be a number"):
        from_dict(merge({"weight": {"rot360": 1}}))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"betas": [0.9, 1.5]}, "betas must lie in"),
        ({"seed": 2**63}, "seed must lie from 0"),
        ({"seed": -1}, "seed must lie from 0"),
        ({"lr": float("inf")}, "finite"),
        ({"weight": float("inf")}, "finite"),
    ],
)
def test_values_that_cannot_work_are_refused_at_once(values, message):
    with pytest.raises(duet.DuetError, match=message):
        from_dict(values)


def test_what_has_no_effect_is_known():
    assert unused_keys(Experiment(method="simclr", weight=3.0, reference="relative")) == ["weight", "reference"]
    assert unused_keys(Experiment(method="essl", weight=3.0)) == []
    assert unused_keys(Experiment(weight=3.0, reference="relative")) == []


def test_a_recipe_turns_where_there_is_a_rotation():
    photos = Experiment.preset("photos")
    assert photos.turns == 4
    assert Experiment.preset("photos", group="rot4").turns == 4
    assert Experiment.preset("photos", group="hue").turns == 1
    assert Experiment.preset("photos", group=["rot360", "hue"]).turns == 1
    assert Experiment.preset("photos", turns=2).turns == 2
    assert Experiment.preset("photos", method="simclr").turns == 4  # which has no table, and so no use for it
    assert Experiment.preset("demo").turns == 1


def test_weight_decay_may_leave_out_biases_and_norms():
    experiment = from_dict({"decay_norms": False, "encoder": "tiny", "projector": [8], "weight_decay": 0.1})
    method, head = build_method(experiment), OnlineHead(128, 10)
    decayed, others = parameter_groups(method, head, decay_norms=False)
    assert "weight_decay" not in decayed
    assert others["weight_decay"] == 0
    norms = {p for m in method.modules() if isinstance(m, nn.BatchNorm1d | nn.BatchNorm2d) for p in m.parameters()}
    assert norms | {head.linear.bias} == set(others["params"])
    assert {*decayed["params"], *others["params"]} == {*method.parameters(), *head.parameters()}
    (together,) = parameter_groups(method, head)
    assert "weight_decay" not in together


def test_a_run_says_how_many_views_its_method_draws():
    """The key is the loop's: DUET has an option of the same name."""
    made = build_method(from_dict({"views": 4, "encoder": "tiny", "options": {"views": "separate"}, "group": "rot4"}))
    assert (made.view_count, made.views) == (4, "separate")
