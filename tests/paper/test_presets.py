"""Every cell of the paper's Tables 2 and 3: what `--print-config` shows is what the paper writes.

Figure 4 is Table 2's row of CIFAR-10, and goes through it too.
"""

import pytest
import torch
import yaml

from duet.cli import main
from duet.representation import Gaussian, VonMises
from duet.training.experiment import Experiment, build_layout, build_target

SETS = ("cifar10", "cifar100", "tiny-imagenet")
ROTATIONS = ("rot360", "rot4")
GROUPS = ("scale", *ROTATIONS, "hflip", "vflip", "grayscale", "brightness", "contrast", "saturation", "hue")
METHODS = {"simclr": [], "essl": [], "duet, lambda 0": ["--weight", "0"], "duet": []}
TABLES = {"paper": "rrc", "paper-full-stack": "full"}
TABLE_5 = {
    "batch_size": 2048,
    "epochs": 800,
    "lr": 1e-4,
    "warmup_epochs": 10,
    "optimizer": "adam",
    "betas": [0.9, 0.95],
    "weight_decay": 1e-4,
    "image_size": 32,
    "channels": 3,
}
TRAINING = {
    "encoder": "resnet32",  # 512 features, as 64 rows of 8
    "dim": None,
    "bins": 8,
    "sigma": 0.2,
    "target": None,  # von Mises for cyclic groups, Gaussian for the others
    "reference": "absolute",
    "layout": None,
    "contrast": "nt_xent",
    "area": [0.2, 1.0],  # RandomResizedCrop(scale=(0.2, 1.0))
    "corners": "zero",
    "projector": [2048, 2048, 128],
    "trunk": None,
    "subset": None,
    "accumulate": 1,
    "sync_batchnorm": True,
    "calibrate": False,
    "options": {},
}


def cells():
    for preset in TABLES:
        for data in SETS:
            for method in METHODS:
                for group in GROUPS:
                    if (method, group) != ("essl", "scale"):  # the paper has a dash there
                        yield pytest.param(preset, data, method, group, id=f"{preset} {data} {method} {group}")


def weight_of(preset, method, group):
    """lambda: section 5.3.1 and section 5.3.2; ESSL's is its own paper's."""
    if method == "duet":
        return 1000 if preset == "paper" and group in (*ROTATIONS, "vflip") else 10
    return {"simclr": None, "essl": None, "duet, lambda 0": 0}[method]


@pytest.mark.parametrize(("preset", "data", "method", "group"), list(cells()))
def test_every_cell_of_tables_2_and_3_has_the_papers_settings(preset, data, method, group, capsys):
    asked = ["--preset", preset, "--data", data, "--method", method.partition(",")[0], "--group", group]
    assert main(["train", *asked, *METHODS[method], "--print-config"]) == 0
    shown = yaml.safe_load(capsys.readouterr().out)
    wanted = {
        "data": data,
        "group": [group],
        "method": method.partition(",")[0],
        "stack": TABLES[preset],
        "weight": weight_of(preset, method, group),
        **TABLE_5,
        **TRAINING,
    }
    assert {key: shown[key] for key in wanted} == wanted


def test_essl_has_no_cell_for_scale(capsys):
    for preset in TABLES:
        assert main(["train", "--preset", preset, "--method", "essl", "--group", "scale", "--print-config"]) == 2
        assert "scale" in capsys.readouterr().err


@pytest.mark.parametrize("group", GROUPS)
def test_targets_are_table_1s_and_features_are_64_rows_of_8(group):
    experiment = Experiment.preset("paper", group=group)
    turning = group in (*ROTATIONS, "hflip", "vflip")
    target = build_target(experiment, experiment.groups[0])
    assert isinstance(target, VonMises if turning else Gaussian)
    assert target.sigma == 0.2
    layout = build_layout(experiment, 512)
    assert layout.content(torch.zeros(1, 512)).shape == (1, 64)
