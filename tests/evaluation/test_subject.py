"""Whoever turns images into features can be evaluated."""

import sys

import pytest
import torch
from torch import nn

from duet.evaluation import Context, Inapplicable, Sizes, as_subject, load_subject
from duet.evaluation.grid import sweep_elements
from duet.evaluation.subject import axis_of, need_axis
from duet.groups import GROUPS, find_group
from duet.representation import Flat

from ..conftest import random_encoder
from .conftest import SMALL, Counter, make_context, see_nothing, tinted


def test_an_encoder_brings_all_it_knows():
    subject = as_subject(random_encoder())
    assert list(subject.groups) == ["rot360"]
    assert axis_of(subject, GROUPS["rot360"]).bins == need_axis(subject, GROUPS["rot360"]).bins == 8
    assert axis_of(subject, GROUPS["hue"]) is None
    with pytest.raises(Inapplicable, match="no columns for hue"):
        need_axis(subject, GROUPS["hue"])
    assert subject.description["method"] == "duet"
    assert not subject.relative
    assert as_subject(random_encoder(reference="relative")).relative
    assert not as_subject(random_encoder(method="simclr", reference="relative")).relative
    assert as_subject(random_encoder(method="simclr")).layout == Flat(128)


def test_other_weights_have_another_fingerprint():
    encoder = random_encoder()
    before = as_subject(encoder).digest
    assert as_subject(random_encoder()).digest == before
    with torch.no_grad():
        next(encoder.backbone.parameters()).add_(1e-3)
    assert as_subject(encoder).digest != before


def test_a_function_gets_float_images_in_batches():
    seen = []

    def features(images):
        seen.append((len(images), images.dtype, float(images.max())))
        return images.flatten(1)

    subject = as_subject(features, ("rot4", "hue"), torch.zeros(5, 3, 2, 2), batch=3)
    assert subject.layout == Flat(12)
    assert list(subject.groups) == ["rot4", "hue"]
    seen.clear()
    subject.features(torch.full((7, 3, 2, 2), 255, dtype=torch.uint8))
    assert seen == [(3, torch.float32, 1.0), (3, torch.float32, 1.0), (1, torch.float32, 1.0)]


def test_a_module_is_evaluated_in_evaluation_mode():
    module = nn.Sequential(nn.Flatten(), nn.Dropout(0.5))
    subject = as_subject(module, "rot4", torch.ones(2, 1, 2, 2))
    z = subject.features(torch.ones(4, 1, 2, 2))
    assert bool((z == 1).all())
    assert not z.requires_grad


@pytest.mark.parametrize("bad", [lambda x: x, lambda x: x.flatten(1)[:1], lambda x: torch.zeros(len(x), 3).long()])
def test_what_are_no_features_is_refused(bad):
    with pytest.raises(ValueError, match=r"\(B, D\)"):
        as_subject(bad, "rot4", torch.zeros(2, 1, 4, 4))


def test_an_encoder_by_name(tmp_path, monkeypatch):
    (tmp_path / "mine_for_a_test.py").write_text(
        "import torch\ndef build():\n    return torch.nn.Flatten()\nnumber = 3\n"
        "def nothing():\n    return None\ndef greedy(width):\n    return torch.nn.Flatten()\n"
        "def told(channels):\n    return lambda images: torch.full((len(images), 1), float(channels))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    subject = load_subject("mine_for_a_test:build", "rot4", torch.zeros(2, 1, 4, 4))
    assert subject.layout == Flat(16)
    assert subject.description["method"] == "mine_for_a_test:build"
    told = load_subject("mine_for_a_test:told", "rot4", torch.zeros(2, 3, 4, 4))
    assert told.features(torch.zeros(1, 3, 4, 4)).tolist() == [[3]]
    for spec, reason in (
        ("mine_for_a_test", "module:Name"),
        ("no_such_module_at_all:build", "cannot import"),
        ("mine_for_a_test:bild", "no 'bild' .did you mean 'build'"),
        ("mine_for_a_test:number", "not a function"),
        ("mine_for_a_test:nothing", "not a NoneType"),
        ("mine_for_a_test:greedy", "from channels= alone"),
    ):
        with pytest.raises(ValueError, match=reason):
            load_subject(spec, "rot4", torch.zeros(2, 1, 4, 4))
    sys.modules.pop("mine_for_a_test")


def test_the_identity_is_not_computed_twice():
    images = torch.rand(20, 1, 4, 4)
    counter = Counter(lambda x: x.flatten(1))
    context = make_context(as_subject(counter, "rot360", images), images, find_group("rot360"))
    counter.images = 0
    sweep = context.sweep()
    assert counter.images == 16 * 10
    assert sweep.g.tolist() == [k / 16 for k in range(16)]
    torch.testing.assert_close(sweep.base, sweep.z[8])
    torch.testing.assert_close(sweep.base, context.images.flatten(1))
    assert context.sweep() is sweep


def test_a_sweep_takes_the_elements_that_training_draws():
    images = tinted(20)
    subject = as_subject(see_nothing, ("scale", "brightness", "grayscale", "rot360"), images)
    context = make_context(subject, images, find_group("scale"))
    scale = context.sweep().g
    assert torch.equal(scale, sweep_elements(find_group("scale"), SMALL.sweep))
    assert 0.2 < float(scale[0]) < 0.26
    assert float(scale[-1]) == 1
    assert context.sweep(find_group("brightness")).g[[0, -1]].tolist() == [0, 1]
    assert context.sweep(find_group("grayscale")).g.tolist() == [0, 1]
    assert float(context.sweep(find_group("rot360")).g.max()) < 1  # 1 would be 0 again
    assert find_group("hue").drawn_range() == (0, 1)


def test_the_drawn_images_depend_on_the_seed_alone():
    images = torch.rand(60, 1, 2, 2)
    subject = as_subject(nn.Flatten(), "rot4", images)
    first, again = (make_context(subject, images, find_group("rot4")).images for _ in range(2))
    assert torch.equal(first, again)
    assert len(first) == 12
    other = make_context(subject, images, find_group("rot4"))
    assert not torch.equal(first, Context(subject, other.train, other.test, other.group, other.sizes, seed=1).images)


def test_fewer_images_than_asked_are_all_of_them():
    images = torch.rand(10, 1, 2, 2)
    subject = as_subject(nn.Flatten(), "rot4", images)
    assert len(make_context(subject, images, find_group("rot4")).images) == 5


def test_a_part_of_the_training_images():
    images = torch.rand(60, 1, 2, 2)
    subject = as_subject(nn.Flatten(), "rot4", images)
    context = make_context(subject, images, find_group("rot4"), sizes=Sizes(train=7))
    assert context.train_features.z.shape == (7, 4)
    assert context.test_features.z.shape == (30, 4)


@pytest.mark.parametrize("wrong", [{"images": 1}, {"sweep": 0}, {"queries": 0}, {"train": 0}])
def test_sizes_are_checked(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Sizes(**wrong)
