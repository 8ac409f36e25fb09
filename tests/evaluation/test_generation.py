"""Generation: the errors against cases worked out by hand, the training on small images, the whole of it."""

from dataclasses import replace
from functools import partial

import pytest
import torch

from duet import DuetError, Experiment
from duet.evaluation import as_subject
from duet.evaluation.context import SIZES, Sizes
from duet.evaluation.decoder_training import (
    DECODERS,
    Recipe,
    Training,
    describe_decoder,
    random_views,
    train_decoder,
)
from duet.evaluation.drawing.strips import draw_strips
from duet.evaluation.generation import (
    action_errors,
    decoded_strips,
    default_actions,
    generation,
    reconstruction_errors,
    squared_errors,
    strip_start,
)
from duet.evaluation.grid import decoded_elements, elements_through_identity
from duet.evaluation.reconstruction import Reconstruction, mean_image
from duet.groups import GROUPS, Scale, find_group
from duet.model import Encoder, fit_action
from duet.networks import build_backbone
from duet.networks.decoder import Decoder
from duet.representation import Action, Flat
from duet.training import learning_rate
from duet.training.experiment import build_layout

from .conftest import make_context

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


def test_the_papers_decoder_is_trained_as_table_5_says():
    assert SIZES["paper"].decoder == "paper"
    assert SIZES["demo"].decoder == SIZES["quick"].decoder == "small"
    assert DECODERS["paper"].build is Decoder  # ResNet-18 in reverse, see its own tests
    training = DECODERS["paper"].training(50_000, None)
    assert (training.batch, training.lr, training.betas, training.weight_decay) == (2048, 1e-4, (0.9, 0.95), 1e-4)
    assert (training.steps, training.warmup, training.noise) == (800 * 24, 10 * 24, 0)
    parameter = torch.nn.Parameter(torch.ones(1))
    optimizer = training.optimizer([parameter])
    assert type(optimizer) is torch.optim.Adam
    schedule = training.schedule(optimizer)
    rates = []
    for _ in range(300):
        rates.append(schedule.get_last_lr()[0])
        optimizer.step()
        schedule.step()
    assert rates == pytest.approx([1e-4 * learning_rate(step, 240, 19_200) for step in range(300)])


def test_the_small_decoder_keeps_its_noise_and_its_cycle():
    assert DECODERS["small"].training(4000, None) == Training(1500, 128, 2e-3, 0.3)
    assert DECODERS["small"].training(4000, 7).steps == 7


@pytest.fixture
def tiny_decoders(monkeypatch):
    """Both recipes with a decoder that trains in no time, and how often one was trained."""
    trained = []

    def counted(*args, **options):
        trained.append(options["training"])
        return train_decoder(*args, **options)

    for name, training in {"small": Training(1, 8), "paper": Training(1, 8, noise=0)}.items():
        monkeypatch.setitem(DECODERS, name, Recipe(tiny_decoder, lambda *_, own=training: own))
    monkeypatch.setattr("duet.evaluation.decoder_training.STATISTICS", 64)
    monkeypatch.setattr("duet.evaluation.context.train_decoder", counted)
    return trained


def decoder_context(name, method="simclr"):
    labels = torch.zeros(60, dtype=torch.int64)
    sizes = Sizes(images=12, probe=8, decoder=name)
    return make_context(tiny_encoder(method), (255 * blobs(60)).byte(), ROTATION, labels, sizes)


def test_a_decoder_without_noise_is_another_one_unless_there_is_none(tiny_decoders):
    small = decoder_context("small")
    assert small.decoder()[0] is small.decoder()[0]
    assert small.decoder()[0] is not small.decoder(noise=False)[0]
    assert [training.noise for training in tiny_decoders] == [0.3, 0]
    paper = decoder_context("paper")
    assert paper.decoder()[0] is paper.decoder(noise=False)[0]
    assert len(tiny_decoders) == 3


def test_the_papers_decoder_sees_all_training_images_and_the_small_one_those_of_probes():
    assert len(decoder_context("small").decoder_images) == 8
    assert len(decoder_context("paper").decoder_images) == 30
    with pytest.raises(DuetError, match="did you mean 'paper'"):
        Sizes(decoder="papr")


def test_reconstruction_compares_encoders_on_the_same_views_without_noise(tiny_decoders, monkeypatch):
    seen = []

    def errors(decode, features, images, group, generator):
        views, _ = random_views(features, images, group, generator)
        seen.append(views)
        return squared_errors(views + 0.1, views)

    monkeypatch.setattr("duet.evaluation.reconstruction.reconstruction_errors", errors)
    results = [Reconstruction().measure(decoder_context("small", method)) for method in ("simclr", "duet")]
    assert all(torch.equal(a, b) for a, b in zip(seen[:4], seen[4:], strict=True))
    assert [training.noise for training in tiny_decoders] == [0, 0]
    for result in results:
        assert result.scalars["error"] == pytest.approx(0.01, rel=1e-4)
        assert "without noise" in Reconstruction().sentence(result)


def test_the_mean_image_is_that_of_the_views():
    images = torch.tensor([0.0, 1.0]).view(2, 1, 1, 1).expand(-1, -1, 12, 12).repeat(600, 1, 1, 1)
    torch.testing.assert_close(mean_image(images, FLIP, generator()), torch.full((1, 1, 12, 12), 0.5))


def test_a_finite_group_is_decoded_between_its_elements_and_judged_at_them():
    for name in ("rot4", "hflip", "grayscale"):
        g, true = decoded_elements(GROUPS[name], 36)
        assert len(g) >= 16
        assert (g[0], len(true)) == (0, len(GROUPS[name].elements))
        assert g[true].tolist() == pytest.approx(sorted(GROUPS[name].elements))
    g, true = decoded_elements(ROTATION, 36)
    assert len(g) == len(true) == 36
    decoder = tiny_decoder(16, 1, (12, 12)).eval()
    result = generation(tiny_encoder(group="rot4"), blobs(10), blobs(4), decoder=decoder, actions={"black": Black()})
    errors = result.arrays["error_black"]
    assert result.scalars["action_error_black"] == pytest.approx(errors[[2, 6, 10, 14]].mean())  # eighths
    assert result.scalars["action_error_black"] != pytest.approx(errors.mean())
    labels = [label.get_text() for label in draw_strips(replaced(result)).axes[0].get_xticklabels()]
    assert [text for text in labels if text] == ["0°", "90°", "180°", "270°"]
    assert len(labels) == 8


def replaced(result):
    """The same with an action that figures know."""
    arrays = {key.replace("black", "fitted"): value for key, value in result.arrays.items()}
    return replace(result, arrays=arrays)


def test_a_result_says_which_decoder_it_was():
    with torch.device("meta"):
        small, large = ({"decoder": DECODERS[name].build(8, 1, (8, 8)).to_dict()} for name in ("small", "paper"))
    assert describe_decoder(small | {"training": {"noise": 0.3}}) == (
        "a small decoder, trained with noise of 0.3 spreads on the features"
    )
    assert describe_decoder(large | {"training": {"noise": 0}}) == (
        "a decoder of the size of ResNet-18, trained without noise"
    )
    assert describe_decoder({}) == ""
