"""Features from a file are scored as those of an encoder are."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from duet.evaluation import Sizes, evaluate
from duet.evaluation.spectrum import Harmonics, difference_errors
from duet.evaluation.stored_features import open_features
from duet.groups import GROUPS
from duet.representation import Spectrum

from ..representation.test_spectrum import features

ROTATION = GROUPS["rot360"]


def write(path, z, g, shuffle=True, **more):
    """One row a view, in any order."""
    images, views, _ = z.shape
    columns = {"id": np.arange(images).repeat(views) * 3, "g": g.flatten().numpy()}
    columns |= {f"f{i}": z[..., i].flatten().numpy() for i in range(z.shape[-1])}
    columns |= {key: np.repeat(value, views) for key, value in more.items()}
    order = np.random.default_rng(0).permutation(images * views) if shuffle else slice(None)
    pq.write_table(pa.table({key: value[order] for key, value in columns.items()}), path)
    return path


def test_the_spectrum_of_a_file_is_that_of_its_views(tmp_path):
    z, g = features(images=400, views=3, noise=0.2)
    context, table, views = open_features(write(tmp_path / "f.parquet", z, g), ROTATION, Sizes())
    result = evaluate(context, ["spectrum"], rivals=False, progress=False)["spectrum"]
    assert table.features[:2] == ("f0", "f1")
    assert result.scalars["capacity_1"] == pytest.approx(4 / 1.04, abs=0.4)
    # By hand: even images are fitted on, odd ones tested, from their first view to the others.
    spectrum = Spectrum.fit(views.z[::2], views.g[::2])
    errors = []
    for other in (1, 2):
        found = spectrum.difference(views.z[1::2, 0], views.z[1::2, other]).g
        away = found - (views.g[1::2, other] - views.g[1::2, 0])
        errors.append(360 * (away - away.round()).abs())
    wanted = float(np.median(torch.cat(errors).numpy()))
    assert result.scalars["median_difference_error_degrees"] == pytest.approx(wanted, rel=1e-3)
    low, high = result.intervals["median_difference_error_degrees"]
    assert low <= wanted <= high
    assert difference_errors(context.spectrum, context.orbit()).shape == (2, 200)
    assert torch.equal(views.ids, torch.arange(400))


def test_dealt_out_at_random_nothing_turns(tmp_path):
    z, g = features(images=400, views=3, noise=0.2)
    path = write(tmp_path / "f.parquet", z, g)
    context, _, _ = open_features(path, ROTATION, Sizes(), shuffled=True)
    found = Harmonics().measure(context).scalars
    assert abs(found["capacity_1"]) < 0.6
    assert found["median_difference_error_degrees"] > 60
    assert context.subject.description["g"] == "shuffled"


def test_labels_of_images_give_an_accuracy(tmp_path):
    z, g = features(images=200, views=2, noise=0.1)
    labels = (z[:, 0, 0] > z[:, 0, 0].median()).long().numpy()
    z[..., 0] += 30 * torch.from_numpy(labels)[:, None]
    context, _, _ = open_features(write(tmp_path / "f.parquet", z, g, label=labels), ROTATION, Sizes())
    found = evaluate(context, ["classification"], rivals=False, progress=False)["classification"].scalars
    assert found["logistic"] > 0.95
    assert found["chance"] == pytest.approx(0.5, abs=0.1)
    assert len(context.train_features.z) == 100  # one view of every image
    context, _, _ = open_features(write(tmp_path / "g.parquet", z, g), ROTATION, Sizes())
    assert "classification" not in evaluate(context, ["classification"], rivals=False, progress=False)


def test_of_a_group_that_does_not_turn_there_is_no_spectrum(tmp_path):
    z, g = features(images=40, views=2)
    context, _, _ = open_features(write(tmp_path / "f.parquet", z, g), GROUPS["brightness"], Sizes())
    assert evaluate(context, ["spectrum"], rivals=False, progress=False) == {}


def test_nobody_is_asked_for_images(tmp_path):
    z, g = features(images=40, views=2)
    context, _, _ = open_features(write(tmp_path / "f.parquet", z, g), ROTATION, Sizes())
    with pytest.raises(AssertionError, match="no encoder"):
        context.subject.features(torch.zeros(1, 1, 1, 1))
