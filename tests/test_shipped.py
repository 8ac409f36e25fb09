"""The models that come with the package: they load without a network, and their cards tell the truth."""

import os
import re
from pathlib import Path

import pytest
import torch

import duet
from duet.data import open_images
from duet.evaluation import evaluate, flatten
from duet.evaluation.verdict import Level, judge
from duet.model import load_decoder
from duet.model.hub import MODELS, shipped_models

CARD = (MODELS / "digits-rot360" / "README.md").read_text()
ROWS = {
    "logistic regression on the features, accuracy": ("classification/logistic", 0.01),
    "nearest neighbours, accuracy": ("classification/knn", 0.01),
    "recovered angle, median error, black corners": ("recovery/median_error_degrees", 0.3),
    "recovered angle, median error, seen through a disc": ("recovery/median_error_degrees_circle", 0.3),
    "equivariance error, the paper's action (1: no action)": ("equivariance/error_prescribed", 0.02),
    "equivariance error, fitted action": ("equivariance/error_fitted", 0.005),
    "Hit@1 of 50 rotations, fitted action (chance 0.02)": ("retrieval/hit1_fitted", 0.02),
    "equivariance error, spectral action": ("equivariance/error_spectral", 0.005),
    "Hit@1 of 50 rotations, spectral action": ("retrieval/hit1_spectral", 0.02),
    "angle between two views of one image, median error": ("spectrum/median_difference_error_degrees", 0.2),
    "sure of its reading": ("confidence/sure", 0.01),
    "of these wrong by more than 45 degrees": ("confidence/wrong_if_sure", 0.005),
}
RIVALS = {
    "logistic regression on the features, accuracy": ("classification", "logistic"),
    "angle between two views of one image, median error": ("spectrum", "median_difference_error_degrees"),
    "Hit@1 of 50 rotations, fitted action (chance 0.02)": ("retrieval", "hit1_fitted"),
}


def on_the_card(row):
    return float(re.search(rf"\| {re.escape(row)} \| ([\d.]+)", CARD).group(1))


def test_they_are_small_and_listed():
    assert shipped_models() == ["digits-rot360", "photos-rot360", "photos-rot4"]
    for name, most in (("digits-rot360", 3_000_000), ("photos-rot360", 6_000_000), ("photos-rot4", 6_000_000)):
        files = [path for path in Path(MODELS / name).rglob("*") if path.is_file()]
        assert sum(path.stat().st_size for path in files) < most
        assert {path.suffix for path in files} == {".json", ".safetensors", ".md"}


@pytest.fixture(scope="module")
def measured():
    names = ["classification", "recovery", "confidence", "equivariance", "spectrum", "retrieval"]
    return evaluate(duet.load("digits-rot360"), names, progress=False)


def test_its_figures_and_those_of_its_rivals_are_on_the_card(measured):
    numbers = flatten(measured)
    for row, (key, tolerance) in ROWS.items():
        assert numbers[key] == pytest.approx(on_the_card(row), abs=tolerance), row
    for row, (name, key) in RIVALS.items():
        told = re.search(rf"\| {re.escape(row)} \| [^|]*\| ([\d.]+) \| ([\d.]+)", CARD)
        rivals = [measured[name].rivals[rival].scalars[key] for rival in ("pixels", "untrained")]
        assert rivals == pytest.approx([float(told.group(1)), float(told.group(2))], abs=0.01), row


def test_where_it_is_better_than_its_rivals_and_where_not(measured):
    assert judge(measured["recovery"]).level is Level.LEARNED
    assert judge(measured["spectrum"]).level is Level.PARTLY  # pixels can be registered


@pytest.fixture(scope="module")
def calibrated():
    return duet.load("digits-rot360")


def test_it_knows_when_it_is_right(measured):
    found = measured["confidence"].scalars
    assert found["sure"] >= 0.75
    assert found["wrong_if_sure"] <= 0.02
    assert found["expected_calibration_error"] <= 0.05
    assert found["sure_noise"] <= 0.05
    assert found["sure_constant"] <= 0.05


def test_untouched_digits_are_of_a_kind_that_it_knows(calibrated):
    digits = open_images("digits", "test", channels=1).tensors()[0]
    reading = calibrated.recover(calibrated.features(digits))
    assert float(reading.known.float().mean()) > 0.9
    assert float(reading.sure.float().mean()) > 0.75


@pytest.mark.data
@pytest.mark.skipif(not os.environ.get("DUET_DATA"), reason="DUET_DATA is not set: no real images to test with")
def test_photos_are_of_another_kind(calibrated):
    photos = open_images("photos128", "test", channels=1, image_size=28).sample(2000, 0)
    turned = calibrated.groups["rot360"].apply(photos, torch.rand(len(photos)))
    for images in (photos, turned):
        assert float(calibrated.recover(calibrated.features(images)).sure.float().mean()) <= 0.05


def test_its_decoder_draws_the_digits():
    encoder, decoder = duet.load("digits-rot360"), load_decoder("digits-rot360", "rot360")
    images = open_images("digits", "test", channels=1, subset=100).tensors()[0]
    rep = encoder.embed(images)
    drawn = decoder.images(rep.flat)
    truth = images.float() / 255
    assert (drawn - truth).square().mean() < 0.6 * (truth - truth.mean(0)).square().mean()
    turned = decoder.images(rep.shift(by=0.25, action="fitted").flat)
    assert (turned - torch.rot90(truth, 1, (2, 3))).square().mean() < 0.5 * (
        drawn - torch.rot90(truth, 1, (2, 3))
    ).square().mean()


def test_evaluating_a_shipped_model_writes_nothing_to_the_working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small = duet.evaluation.Sizes(images=4, sweep=4, copies=4, probe=32, train=64, test=32)
    assert duet.evaluate("digits-rot360", ["retrieval"], sizes=small, progress=False)
    assert list(tmp_path.iterdir()) == []
