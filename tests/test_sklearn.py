"""DuetTransformer keeps scikit-learn's rules and works in a Pipeline."""

import pickle

import numpy as np
import pytest
from PIL import Image
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

import duet
from duet.sklearn import DuetTransformer

from .conftest import random_encoder


class AnyRows(DuetTransformer):
    """Takes rows of any length, so that scikit-learn's checks can feed theirs; everything else is the real thing."""

    def _shape_of_rows(self, count):
        return (*self.encoder_.image_size, 1)

    def _images(self, rows, shape):
        images = np.zeros((len(rows), int(np.prod(shape))), np.float32)
        images[:, : rows.shape[1]] = np.tanh(rows.astype(float))
        return images.reshape(len(rows), *shape)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    return str(random_encoder().save(folder))


@pytest.fixture(scope="module")
def images():
    return np.random.default_rng(0).integers(0, 256, (6, 28, 28), dtype=np.uint8)


IN_FLOAT32 = "float32 arithmetic differs in the last digits between batches of different sizes"


def test_scikit_learns_own_checks_pass(folder):
    outcomes = check_estimator(
        AnyRows(folder),
        on_fail=None,
        on_skip=None,
        expected_failed_checks={"check_methods_subset_invariance": IN_FLOAT32},
    )
    failed = {outcome["check_name"]: outcome["exception"] for outcome in outcomes if outcome["status"] == "failed"}
    assert failed == {}
    assert sum(outcome["status"] == "passed" for outcome in outcomes) >= 40


def test_the_checks_that_need_no_image_pass_on_the_class_itself(folder):
    # The others feed rows of 1 to 10 numbers, which are no images: those are refused, with the reason.
    outcomes = check_estimator(DuetTransformer(folder), on_fail=None, on_skip=None)
    failed = [str(outcome["exception"]) for outcome in outcomes if outcome["status"] == "failed"]
    assert all("are not images" in message for message in failed)
    assert sum(outcome["status"] == "passed" for outcome in outcomes) >= 15


@pytest.mark.parametrize(("features", "width"), [("flat", 128), ("content", 16), ("group", 8)])
def test_features_are_those_of_the_encoder(features, width, folder, images):
    rep = duet.load(folder).embed(images)
    expected = {"flat": rep.flat, "content": rep.content, "group": rep.marginal()}[features].numpy()
    transformer = DuetTransformer(folder, features=features, batch_size=4).fit(images)
    assert expected.shape == (6, width)
    for form in (images, images[..., None], images.reshape(6, -1), images / 255, images.reshape(6, -1) / 255.0):
        assert np.allclose(transformer.transform(form), expected, atol=1e-4)
    names = transformer.get_feature_names_out()
    assert list(names[:2]) == {"flat": ["flat0", "flat1"], "content": ["content0", "content1"]}.get(
        features, ["rot3600", "rot3601"]
    )
    assert len(names) == width


def test_it_works_in_a_pipeline_and_names_its_columns(folder, images):
    pipeline = make_pipeline(DuetTransformer(folder, features="content"), LogisticRegression())
    assert pipeline.fit(images, [0, 1] * 3).predict(images).shape == (6,)
    frame = DuetTransformer(folder, features="content").set_output(transform="pandas").fit_transform(images)
    assert list(frame.columns[:2]) == ["content0", "content1"]


def test_other_sizes_and_other_whites_are_said(folder):
    digits = load_digits(n_class=2)  # 8x8, white is 16
    rows = digits.data[:5]
    with pytest.raises(ValueError, match="rows of 64 features are not images of 28x28x1 = 784 values"):
        DuetTransformer(folder).fit(rows)
    with pytest.raises(ValueError, match="X reaches 16 and white is 1"):
        DuetTransformer(folder, image_shape=(8, 8)).fit(rows)
    transformer = DuetTransformer(folder, image_shape=(8, 8), white=16).fit(rows)
    expected = duet.load(folder).embed(digits.images[:5] / 16).numpy()
    assert np.allclose(transformer.transform(rows), expected, atol=1e-4)
    assert np.allclose(DuetTransformer(folder, white=16).fit_transform(digits.images[:5]), expected, atol=1e-4)


def test_paths_of_files_are_taken_too(folder, images, tmp_path):
    paths = [tmp_path / f"{number}.png" for number in range(len(images))]
    for path, image in zip(paths, images, strict=True):
        Image.fromarray(image).save(path)
    expected = DuetTransformer(folder).fit_transform(images)
    texts = [str(path) for path in paths]
    for form in (paths, texts, tuple(texts), np.array(texts), np.array(paths, dtype=object)):
        transformer = DuetTransformer(folder, batch_size=4).fit(form)
        assert np.allclose(transformer.transform(form), expected, atol=1e-4)
        assert np.allclose(transformer.transform(images), expected, atol=1e-4)  # arrays after paths, and the reverse
    assert np.allclose(DuetTransformer(folder).fit(images).transform(texts), expected, atol=1e-4)
    pipeline = make_pipeline(DuetTransformer(folder, features="content"), LogisticRegression())
    assert pipeline.fit(texts, [0, 1] * 3).predict(paths).shape == (6,)
    with pytest.raises(ValueError, match=r"image 1 .*missing.png\) cannot be used"):
        DuetTransformer(folder).fit_transform([texts[0], str(tmp_path / "missing.png")])


def test_true_is_white(folder, images):
    masks = images > 127
    transformer = DuetTransformer(folder).fit(masks)
    assert np.allclose(transformer.transform(masks), transformer.transform(masks.astype(float)))


def test_it_is_cloned_and_pickled_with_its_weights(images, encoder):
    transformer = DuetTransformer(encoder, features="content").fit(images)
    expected = transformer.transform(images)
    assert np.array_equal(pickle.loads(pickle.dumps(transformer)).transform(images), expected)
    assert np.array_equal(clone(transformer).fit_transform(images), expected)


def test_mistakes_are_said_when_fitting(folder, images):
    with pytest.raises(ValueError, match="features must be one of flat, content, group"):
        DuetTransformer(folder, features="all").fit(images)
    with pytest.raises(ValueError, match="no model 'nothing'"):
        DuetTransformer("nothing").fit(images)
    with pytest.raises(ValueError, match="has no group"):
        DuetTransformer(random_encoder(method="simclr"), features="group").fit(images)
