"""The registry, and the numbers of the paper's Table 1."""

import pytest
import torch

from duet import GROUPS, register_group
from duet.groups import Group, find_group, rot360
from duet.groups.geometric import Scale

TABLE_1 = {  # name: (cyclic, raw parameters, their g)
    "rot4": (True, (0, 90, 180, 270), (1 / 8, 3 / 8, 5 / 8, 7 / 8)),
    "rot360": (True, (-180, 0, 180), (0, 0.5, 1)),
    "hflip": (True, (0, 1), (1 / 4, 3 / 4)),
    "vflip": (True, (0, 1), (1 / 4, 3 / 4)),
    "grayscale": (False, (0, 1), (0, 1)),
    "brightness": (False, (0.6, 1, 1.4), (0, 0.5, 1)),
    "contrast": (False, (0.6, 1, 1.4), (0, 0.5, 1)),
    "saturation": (False, (0.6, 1, 1.4), (0, 0.5, 1)),
    "hue": (False, (-0.1, 0, 0.1), (0, 0.5, 1)),
    "scale": (False, (0.2, 0.6, 1), (0, 0.5, 1)),
}
FINITE = {"rot4", "hflip", "vflip", "grayscale"}


def test_the_ten_groups_are_registered():
    assert set(GROUPS) == set(TABLE_1)


@pytest.mark.parametrize("name", TABLE_1)
def test_table_1(name):
    cyclic, raw, g = TABLE_1[name]
    group = GROUPS[name]
    assert group.cyclic is cyclic
    assert torch.allclose(group.from_parameter(torch.tensor(raw)), torch.tensor(g, dtype=torch.float32), atol=1e-6)
    assert torch.allclose(
        group.parameter(torch.tensor(g, dtype=torch.float32)), torch.tensor(raw, dtype=torch.float32), atol=1e-5
    )
    assert group.elements == (g if name in FINITE else None)


@pytest.mark.parametrize(
    ("name", "identity"),
    [
        ("rot4", 1 / 8),
        ("rot360", 0.5),
        ("hflip", 0.25),
        ("grayscale", 0),
        ("hue", 0.5),
        ("contrast", 0.5),
        ("scale", 1),
    ],
)
def test_identities(name, identity):
    assert GROUPS[name].identity == identity


def test_half_a_turn_is_not_wrapped():
    assert float(GROUPS["rot360"].from_parameter(180)) == 1


class Invert(Group):
    name, unit = "invert", "amount"

    def transform(self, images, g, generator=None):
        return torch.lerp(images, 1 - images, g.view(-1, 1, 1, 1).to(images.dtype))


def test_a_name_is_registered_once():
    try:
        assert register_group(Invert()) is GROUPS["invert"]
        with pytest.raises(ValueError, match="another name"):
            register_group(Invert())
    finally:
        GROUPS.pop("invert")


def test_a_class_instead_of_an_instance_is_refused():
    with pytest.raises(TypeError, match=r"register_group\(Invert\(\)\)"):
        register_group(Invert)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [({"name": ""}, "no name"), ({"identity": 2.0}, "identity"), ({"elements": (0.5, 1.0)}, "one of its elements")],
)
def test_an_inconsistent_group_is_refused(attributes, message):
    with pytest.raises(ValueError, match=message):
        register_group(type("Odd", (Invert,), attributes)())


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(ValueError, match="did you mean 'rot360'"):
        find_group("rot36")


def test_a_group_is_also_found_by_what_it_is_called():
    """Saturation is spelt more like it, but is something else."""
    with pytest.raises(ValueError, match="did you mean 'rot360'"):
        find_group("rotation")


def test_images_of_0_to_255_are_told_to_divide():
    g = torch.full((2,), 0.5)
    images = torch.randint(0, 256, (2, 3, 8, 8), generator=torch.Generator().manual_seed(0))
    for group in (GROUPS["hue"], GROUPS["rot360"]):
        with pytest.raises(ValueError, match="divide them by 255"):
            group.apply(images.float(), g)
        with pytest.raises(ValueError, match="undo the normalisation"):
            group.apply(images / 255 * 4 - 2, g)
        group.apply(images.to(torch.uint8), g)


def test_unknown_corners_are_refused():
    with pytest.raises(ValueError, match="'zero' or 'circle'"):
        rot360(corners="square")


@pytest.mark.parametrize("area", [(0.01, 1.0), (0.5, 1.2), (0.8, 0.3)])
def test_impossible_crop_areas_are_refused(area):
    with pytest.raises(ValueError, match="area"):
        Scale(area)


def test_a_transform_that_changes_the_shape_is_named():
    class Cut(Group):
        name = "cut"

        def transform(self, images, g, generator=None):
            return images[..., 1:]

    with pytest.raises(ValueError, match=r"Cut\.transform must return images"):
        Cut().apply(torch.rand(2, 1, 4, 4), torch.zeros(2))
