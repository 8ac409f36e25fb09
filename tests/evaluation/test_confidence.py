"""Does a model know when it is right? Numbers by hand, a model that knows, and models that cannot say."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from duet.data import MemoryImages
from duet.evaluation import EVALUATIONS, Context, Inapplicable, Sizes
from duet.evaluation.confidence import calibration_error, reliability, wrong_in_words
from duet.groups import GROUPS
from tests.conftest import confident, make_compass, random_encoder

from ..application.conftest import marked

CONFIDENCE = EVALUATIONS["confidence"]


def compass_context(encoder, blank=0):
    """Images with a spot above the centre, the first `blank` of them without."""
    pixels = torch.from_numpy(np.stack([np.array(marked(28, at=at)) for at in np.linspace(0.4, 0.6, 20)]))
    pixels = pixels.unsqueeze(1)
    pixels[:blank] = 0
    images = {split: MemoryImages("spots", split, pixels) for split in ("train", "test")}
    group = next(iter(encoder.groups.values()))
    return Context(encoder, images["train"], images["test"], group, Sizes(images=20, sweep=12))


def by_hand(probability, right, bins):
    order = sorted(range(len(probability)), key=lambda i: probability[i])
    size, error = len(order), 0.0
    start = 0
    for part in range(bins):
        count = size // bins + (part < size % bins)
        members = order[start : start + count]
        start += count
        if members:
            said = sum(probability[i] for i in members) / count
            true = sum(right[i] for i in members) / count
            error += count / size * abs(said - true)
    return error


@given(st.lists(st.tuples(st.floats(0, 1, width=32), st.booleans()), min_size=1, max_size=60), st.integers(1, 12))
def test_the_calibration_error_is_that_of_its_definition(pairs, bins):
    probability, right = torch.tensor([p for p, _ in pairs]), torch.tensor([r for _, r in pairs])
    found = calibration_error(probability, right, bins)
    assert found == pytest.approx(by_hand(probability.tolist(), right.tolist(), bins), abs=1e-6)


def test_ten_groups_of_equal_count():
    probability = torch.linspace(0, 1, 1000)
    said, true = reliability(probability, torch.ones(1000, dtype=torch.bool))
    assert said.tolist() == pytest.approx([0.05 + 0.1 * k for k in range(10)], abs=1e-3)
    assert true.tolist() == [1.0] * 10
    assert calibration_error(probability, probability > 0.5) == pytest.approx(0.25, abs=1e-3)


def test_a_model_that_knows_when_it_is_right():
    result = CONFIDENCE.measure(compass_context(confident(make_compass()), blank=5))
    found = result.scalars
    assert found["sure"] == pytest.approx(0.75)
    assert found["wrong_if_sure"] == 0
    assert found["wrong_if_unsure"] == pytest.approx(0.75, abs=0.1)  # of blank images luck is right
    assert found["right"] == pytest.approx(0.75 + 0.25 * 0.25, abs=0.03)
    assert found["known"] == 1
    assert found["sure_constant"] == 0
    assert 0 <= found["sure_noise"] <= 1
    # 0.99 of three quarters that are always right, 0.1 of the others, which are right by luck.
    assert found["expected_calibration_error"] == pytest.approx(0.75 * 0.01 + 0.25 * 0.15, abs=0.03)


def test_what_counts_as_another_kind_is_not_sure():
    result = CONFIDENCE.measure(compass_context(confident(make_compass(), strangeness=1e3)))
    assert (result.scalars["sure"], result.scalars["known"]) == (0, 0)
    assert "wrong_if_sure" not in result.scalars
    assert CONFIDENCE.sentence(result).startswith("The model is not sure of a single test image; of uniform noise")


@pytest.mark.parametrize(
    ("encoder", "reason"),
    [
        (make_compass(), "the model is not calibrated"),
        (make_compass(reference="relative"), "not calibrated"),
        (random_encoder(method="simclr"), "no columns for rot360"),
    ],
)
def test_a_model_that_cannot_say_is_left_out_with_the_reason(encoder, reason):
    with pytest.raises(Inapplicable, match=reason):
        CONFIDENCE.measure(compass_context(encoder))


def test_features_of_the_sweep_are_shared(monkeypatch):
    encoder = confident(make_compass())
    context = compass_context(encoder)
    EVALUATIONS["recovery"].measure(context)
    counted = []
    real = encoder.features
    monkeypatch.setattr(encoder, "features", lambda images: counted.append(len(images)) or real(images))
    CONFIDENCE.measure(context)
    assert counted == [20, 20]  # noise and constant images


def test_wrong_is_said_in_the_groups_own_words():
    assert wrong_in_words(GROUPS["rot360"]) == "wrong by more than 45°"
    assert wrong_in_words(GROUPS["rot4"]) == "nearer to a wrong element"
    assert wrong_in_words(GROUPS["brightness"]) == "wrong by more than 0.1 factor"


def test_the_sentence_names_the_figures():
    result = CONFIDENCE.measure(compass_context(confident(make_compass()), blank=5))
    result.provenance["wrong"] = "wrong by more than 45°"
    text = CONFIDENCE.sentence(result).replace("\N{NO-BREAK SPACE}", " ")
    assert "sure of 75.0 % of the test images, and 0.0 % of these are wrong by more than 45°" in text
