"""Generation: the errors against cases worked out by hand, the training on small images, the whole of it."""

from functools import partial

import pytest
import torch

from duet import Experiment
from duet.evaluation import as_subject
from duet.evaluation.decoder_training import Training, train_decoder
from duet.evaluation.generation import (
    action_errors,
    decoded_strips,
    default_actions,
    generation,
    reconstruction_errors,
    squared_errors,
    strip_start,
)
from duet.evaluation.grid import elements_through_identity
from duet.groups import GROUPS, Scale, find_group
from duet.model import Encoder, fit_action
from duet.networks import build_backbone
from duet.networks.decoder import Decoder
from duet.representation import Action, Flat
from duet.training.experiment import build_layout

FLIP, ROTATION = GROUPS["hflip"], GROUPS["rot360"]


@pytest.fixture(autouse=True)
def _few_pairs(monkeypatch):
    """Enough for an action of sixteen features."""
    monkeypatch.setattr("duet.evaluation.generation.fit_action", partial(fit_action, pairs=200))


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def flatten(images):
    return images.flatten(1)


def blobs(n, side=12, seed=0):
    """Two Gaussian blobs at random places: (n, 1, side, side) in [0,1]."""
    centres = torch.rand(n, 2, 2, 1, 1, generator=generator(seed)) * 0.6 + 0.2
    axis = torch.linspace(0, 1, side)
    x, y = axis.view(1, 1, -1), axis.view(1, -1, 1)
    blobs = torch.exp(-((x - centres[:, :, 0]) ** 2 + (y - centres[:, :, 1]) ** 2) / 0.02)
    return blobs.sum(1, keepdim=True).clamp(0, 1)


def projection(side=12, dim=64):
    """A fixed linear encoder of small images, with features of very different sizes."""
    matrix = torch.randn(side * side, dim, generator=generator(1)) * torch.logspace(-2, 2, dim)
    return lambda images: images.flatten(1) @ matrix


def tiny_decoder(dim, channels, size):
    return Decoder(dim, channels, size, width=16, blocks=1, stages=2, patch=2)


def tiny_encoder(method="duet", reference="absolute", **options):
    torch.manual_seed(0)
    experiment = Experiment(method, encoder="small", dim=16, bins=4, channels=1, reference=reference, **options)
    backbone = build_backbone("small", channels=1, dim=16)
    provenance = {"method": method}
    layout = build_layout(experiment, 16)
    return Encoder(backbone, layout, experiment.groups, reference, image_size=12, provenance=provenance)


class Mirror(Action):
    """Half a turn on the circle of flips mirrors; anything else stays."""

    def act(self, z, by):
        return torch.where((by.abs() == 0.5).unsqueeze(1), z.flip(1), z)


class Black(Action):
    """Nothing is left of any features."""

    def act(self, z, by):
        return 0 * z


def test_the_error_of_an_image_is_the_mean_over_its_pixels():
    decoded = torch.tensor([[[[0.0, 1.0]]], [[[0.5, 0.5]]]])
    truth = torch.tensor([[[[1.0, 1.0]]], [[[0.5, 0.7]]]])
    torch.testing.assert_close(squared_errors(decoded, truth), torch.tensor([0.5, 0.02]))


def test_errors_of_actions_worked_out_by_hand():
    images = torch.tensor([[[[0.0, 1.0]]], [[[0.5, 0.5]]]])  # the first one changes when it is mirrored
    actions = {"mirror": Mirror(), "black": Black()}
    g = torch.tensor([0.25, 0.75])

    def decode(z):
        return z.view(-1, 1, 1, 2)

    errors = action_errors(decode, flatten(images), torch.full((2,), 0.25), images, FLIP, g, actions)
    # Mirrored, the first image is wrong by 1 in both pixels, the second not at all; black is wrong by 1/2 and 1/4.
    torch.testing.assert_close(errors["none"], torch.tensor([0.0, 0.5]))
    torch.testing.assert_close(errors["mirror"], torch.tensor([0.0, 0.0]))
    torch.testing.assert_close(errors["black"], torch.tensor([0.375, 0.375]))
    # The same from the mirrored image: doing nothing is now right at the other element.
    flipped = flatten(images.flip(3))
    errors = action_errors(decode, flipped, torch.full((2,), 0.75), images, FLIP, g, actions)
    torch.testing.assert_close(errors["none"], torch.tensor([0.5, 0.0]))
    torch.testing.assert_close(errors["mirror"], torch.tensor([0.0, 0.0]))
    strips = decoded_strips(decode, flatten, images[:1], 0.25, FLIP, g, actions)
    torch.testing.assert_close(strips["truth"], torch.tensor([[[[[0.0, 1.0]]], [[[1.0, 0.0]]]]]))
    torch.testing.assert_close(strips["mirror"], strips["truth"])
    torch.testing.assert_close(strips["black"], torch.zeros(1, 2, 1, 1, 2))


def test_reconstruction_is_compared_with_the_view_itself():
    images = 0.8 * blobs(5)
    errors = reconstruction_errors(lambda z: z.view(-1, 1, 12, 12) + 0.1, flatten, images, ROTATION, generator())
    torch.testing.assert_close(errors, torch.full((5,), 0.01))


def test_a_sweep_of_the_circle_meets_the_identity_and_no_element_twice():
    g = elements_through_identity(ROTATION, 12)
    assert ROTATION.parameter(g).tolist() == pytest.approx(range(-180, 180, 30), abs=1e-3)


def test_a_sweep_of_an_interval_covers_what_is_drawn():
    assert elements_through_identity(GROUPS["brightness"], 4).tolist() == [0, 0.25, 0.5, 0.75, 1]
    g = elements_through_identity(Scale(area=(0.5, 1.0)), 4)
    assert 0.4 < g[0] < 0.6
    assert g[-1] == 1


def test_a_sweep_of_a_finite_group_is_the_group():
    assert elements_through_identity(GROUPS["rot4"], 12).tolist() == [0.125, 0.375, 0.625, 0.875]


def test_the_prescribed_action_goes_to_the_element_itself():
    encoder = tiny_encoder()
    z = torch.randn(3, 16)
    moved = default_actions(encoder, ROTATION, blobs(10))["prescribed"].carry(z, ROTATION.identity, 0.9)
    assert torch.equal(moved, encoder.representation(z).act(to=0.9).flat)


def test_a_model_of_differences_is_moved_by_the_difference_from_the_identity():
    encoder = tiny_encoder(reference="relative")
    z = torch.randn(3, 16)
    moved = default_actions(encoder, ROTATION, blobs(10))["prescribed"].carry(z, ROTATION.identity, 0.9)
    assert torch.equal(moved, encoder.representation(z).shift(by=0.9 - ROTATION.identity).flat)


def test_features_without_columns_have_no_prescribed_action():
    encoder = tiny_encoder("simclr")
    assert isinstance(encoder.layout, Flat)
    assert list(default_actions(encoder, ROTATION, blobs(10))) == ["fitted"]


def test_an_action_gets_the_difference_from_where_an_image_starts():
    asked = []

    class Asking(Action):
        def act(self, z, by):
            asked.append(by)
            return z

    images = torch.zeros(2, 1, 1, 2)
    start, goal = torch.tensor([0.25, 0.75]), torch.tensor([0.75])
    action_errors(lambda z: z.view(-1, 1, 1, 2), flatten(images), start, images, FLIP, goal, {"a": Asking()})
    torch.testing.assert_close(asked[0], torch.tensor([0.5, 0.0]))
    decoded_strips(lambda z: z.view(-1, 1, 1, 2), flatten, images, 0.25, FLIP, goal, {"a": Asking()})
    torch.testing.assert_close(asked[1], torch.tensor([0.5, 0.5]))


def test_strips_of_rotations_start_from_a_turned_image():
    sweep = torch.arange(36) / 36
    assert strip_start(ROTATION, sweep) == pytest.approx(0.5 + 1 / 12)
    assert strip_start(FLIP, torch.tensor([0.25, 0.75])) == 0.25  # nothing is resampled
    assert strip_start(find_group("brightness"), torch.linspace(0, 1, 37)) == 0.5


def test_actions_that_are_given_are_used():
    result = generation(
        tiny_encoder(),
        blobs(10),
        blobs(4),
        decoder=tiny_decoder(16, 1, (12, 12)).eval(),
        actions={"black": Black()},
        sweep=3,
    )
    assert set(result.scalars) == {"reconstruction_error", "no_action_error", "action_error_black"}


def test_a_decoder_learns_far_more_than_the_mean_image():
    train, test = blobs(400), blobs(100, seed=5)
    decoder = train_decoder(
        projection(), train, ROTATION, build=tiny_decoder, training=Training(steps=250, batch=64, lr=4e-3, noise=0)
    )
    views = ROTATION.apply(test, ROTATION.sample(100, generator(3)))
    trivial = squared_errors(ROTATION.apply(train, ROTATION.sample(400, generator(4))).mean(0, keepdim=True), views)
    reached = reconstruction_errors(decoder.images, projection(), test, ROTATION, generator(3))
    assert reached.mean() < 0.2 * trivial.mean()


def test_the_same_seed_gives_the_same_decoder_and_leaves_the_global_draws_alone():
    def train(seed):
        training = Training(steps=3, batch=8)
        return train_decoder(projection(), blobs(20), ROTATION, build=tiny_decoder, training=training, seed=seed)

    torch.manual_seed(123)
    before = torch.get_rng_state()
    first = train(0).state_dict()
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(5)
    again, other = train(0).state_dict(), train(1).state_dict()
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert not torch.equal(first["stem.weight"], other["stem.weight"])


def test_a_set_smaller_than_a_batch_will_do():
    seen = []

    def features(images):
        seen.append(len(images))
        return images.flatten(1)

    train_decoder(features, blobs(3), ROTATION, build=tiny_decoder, training=Training(steps=2, batch=8))
    assert seen[1:] == [8, 8]


@pytest.mark.parametrize("method", ["duet", "simclr"])
def test_the_whole_of_it(method):
    result = generation(
        tiny_encoder(method),
        (255 * blobs(40)).byte(),
        (255 * blobs(9, seed=2)).byte(),
        build=tiny_decoder,
        training=Training(steps=2, batch=8),
        images=6,
        sweep=4,
        shown=2,
    )
    actions = ["none", "fitted"] if method == "simclr" else ["none", "prescribed", "fitted"]
    assert {key for key in result.arrays if key.startswith("error")} == {f"error_{name}" for name in actions}
    for name in actions:
        assert name == "none" or result.arrays[f"decoded_{name}"].shape == (2, 4, 1, 12, 12)
        key = "no_action_error" if name == "none" else f"action_error_{name}"
        assert result.scalars.pop(key) == pytest.approx(result.arrays[f"error_{name}"].mean())
    assert list(result.scalars) == ["reconstruction_error"]
    assert result.arrays["parameter"].tolist() == [-180, -90, 0, 90]
    assert result.arrays["truth"].shape == (2, 4, 1, 12, 12)
    assert result.provenance["method"] == method


def test_a_decoder_that_is_there_is_used():
    decoder = tiny_decoder(16, 1, (12, 12))
    with torch.no_grad():
        decoder.last.weight.zero_()
        decoder.last.bias.fill_(0.5)
    result = generation(tiny_encoder(), blobs(10), torch.zeros(4, 1, 12, 12), decoder=decoder.eval(), sweep=3)
    assert set(result.scalars.values()) == {0.25}


def test_an_unknown_group_is_refused_with_the_known_ones():
    encoder = as_subject(lambda images: images.flatten(1), ("rot360", "hue"), torch.zeros(1, 1, 4, 4))
    for name in (None, "rot4"):
        with pytest.raises(ValueError, match="rot360, hue"):
            generation(encoder, blobs(2), blobs(2), name)


def test_impossible_training_is_refused():
    with pytest.raises(ValueError, match="steps"):
        Training(steps=0)
    with pytest.raises(ValueError, match="needs images"):
        train_decoder(flatten, blobs(0), ROTATION)
