"""Classifiers of frozen features."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from duet.data import MemoryImages
from duet.evaluation import Inapplicable, as_subject, evaluate, table
from duet.evaluation import classification as module
from duet.evaluation.classification import (
    Classification,
    accuracy,
    classify,
    confusion,
    logistic,
    nearest_neighbours,
)
from duet.evaluation.head import Head
from duet.evaluation.transfer import transfer
from duet.groups import find_group
from duet.networks import OnlineHead

from .conftest import make_context


def test_accuracy_and_confusion_by_hand():
    labels, predicted = np.array([0, 0, 1, 2]), np.array([0, 1, 1, 1])
    assert accuracy(predicted, labels) == 0.5
    assert confusion(labels, predicted).tolist() == [[1, 1, 0], [0, 1, 0], [0, 1, 0]]


def unit(degrees):
    angle = torch.deg2rad(torch.tensor(degrees))
    return torch.stack([angle.cos(), angle.sin()], 1)


def test_a_near_neighbour_outvotes_two_far_ones():
    # cos 0 = 1, cos 60 = 1/2: at temperature 0.1 the votes are 1 against 2 exp(-5) = 0.013; at 10 they are 1 and 1.9.
    bank, labels = unit([0.0, 60.0, -60.0]), torch.tensor([0, 1, 1])
    assert nearest_neighbours(bank, labels, unit([0.0]), k=3, temperature=0.1).tolist() == [0]
    assert nearest_neighbours(bank, labels, unit([0.0]), k=3, temperature=10.0).tolist() == [1]


def test_only_k_neighbours_vote():
    bank, labels = unit([0.0, 1.0, 2.0]), torch.tensor([0, 1, 1])
    assert nearest_neighbours(bank, labels, unit([0.0]), k=1, temperature=10.0).tolist() == [0]
    assert nearest_neighbours(bank, labels, unit([0.0]), k=50, temperature=10.0).tolist() == [1]


def test_neighbours_compare_directions_not_lengths():
    bank = torch.cat([100 * unit([0.0]), unit([50.0])])
    assert nearest_neighbours(bank, torch.tensor([0, 1]), 0.01 * unit([40.0]), k=1).tolist() == [1]


def blobs(n, noise, seed):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(n) % 3
    z = torch.randn(n, 6, generator=generator) * noise
    return z + 3 * torch.nn.functional.one_hot(labels, 6), labels


def test_logistic_regression_tells_blobs_apart():
    (z, labels), (z_test, expected) = blobs(300, 0.5, 0), blobs(90, 0.5, 1)
    assert accuracy(logistic(z, labels, z_test).predicted, expected.numpy()) == 1.0


def test_logistic_regression_does_not_mind_the_scale_of_features():
    (z, labels), (z_test, _) = blobs(300, 2.0, 0), blobs(90, 2.0, 1)
    scale = torch.logspace(-3, 3, 6)
    plain, scaled = logistic(z, labels, z_test), logistic(5 + z * scale, labels, 5 + z_test * scale)
    assert plain.strength == scaled.strength
    assert np.mean(plain.predicted == scaled.predicted) > 0.97


def test_the_held_out_part_chooses_the_strength():
    # Sixty features of noise and one that says a little: the weaker the penalty, the better on the images themselves
    # and the worse on others.
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(300) % 2
    z = torch.randn(300, 60, generator=generator)
    z[:, 0] += labels
    by_itself = [accuracy(logistic(z, labels, z, strengths=[c]).predicted, labels.numpy()) for c in module.STRENGTHS]
    assert by_itself[-1] == max(by_itself) > by_itself[0]
    assert logistic(z, labels, z).strength <= 0.01
    clear, clear_labels = blobs(300, 0.4, 0)
    assert logistic(clear, clear_labels, clear).strength == min(module.STRENGTHS)


def test_one_class_is_predicted_always():
    assert logistic(torch.randn(10, 2), torch.full((10,), 4), torch.randn(3, 2)).predicted.tolist() == [4, 4, 4]


def test_features_that_never_vary_do_no_harm():
    (z, labels), (z_test, expected) = blobs(300, 0.5, 0), blobs(90, 0.5, 1)
    z[:, 5], z_test[:, 5] = 7.0, 7.0
    assert accuracy(logistic(z, labels, z_test).predicted, expected.numpy()) == 1.0


def test_every_part_of_a_table_is_scored(perfect):
    context, counter = perfect
    result = classify(context)
    kinds = {f"{method}{part}" for method in ("logistic", "knn") for part in ("", "_content", "_group")}
    assert set(result.scalars) == kinds | {"chance", "logistic_deviation"}
    assert set(result.intervals) == kinds
    assert result.arrays["confusion"].sum() == 40
    assert counter.images == 80
    assert classify(context).scalars == result.scalars
    assert counter.images == 80


def coloured(n=120):
    """Class 0 red, class 1 blue."""
    labels = torch.arange(n) % 2
    images = torch.rand(n, 3, 4, 4, generator=torch.Generator().manual_seed(0)) * 0.3
    images[torch.arange(n), 2 * labels] += 0.6
    return images, labels


def test_a_function_without_a_table_is_scored_as_a_whole():
    images, labels = coloured()
    subject = as_subject(lambda x: x.mean((2, 3)), "hue", images[:2])
    result = classify(make_context(subject, images, find_group("hue"), labels))
    assert set(result.scalars) == {"logistic", "logistic_deviation", "knn", "chance"}
    assert result.scalars["logistic"] == result.scalars["knn"] == 1.0
    assert result.scalars["chance"] == 0.5


def test_the_online_head_is_scored():
    images, labels = coloured()
    subject = as_subject(lambda x: x.mean((2, 3)), "hue", images[:2])
    head = OnlineHead(3, 2)
    with torch.no_grad():
        head.linear.weight.copy_(torch.tensor([[1.0, 0, 0], [0, 0, 1.0]]))
        head.linear.bias.zero_()
    context = make_context(replace(subject, head=head), images, find_group("hue"), labels)
    assert Classification().measure(context).scalars["head"] == 1.0
    assert "head" not in classify(context).scalars


def test_the_head_alone_is_read_without_any_training_image():
    images, labels = coloured()
    subject = as_subject(lambda x: x.mean((2, 3)), "hue", images[:2])
    head = OnlineHead(3, 2)
    context = make_context(replace(subject, head=head), images, find_group("hue"), labels)
    expected = classify(context, head)
    alone = replace(context, train=None, _cache={})  # whoever asks for a training image fails
    found = Head().measure(alone)
    assert found.scalars == {"accuracy": expected.scalars["head"], "chance": expected.scalars["chance"]}
    assert found.intervals == {"accuracy": expected.intervals["head"]}
    with pytest.raises(Inapplicable, match="no tracking head"):
        Head().measure(replace(alone, subject=subject))


@pytest.fixture
def unable(monkeypatch):
    """No logistic regression gets far enough."""
    monkeypatch.setattr(module, "ITERATIONS", 1)


def test_a_regression_that_does_not_converge_is_not_reported(unable, tmp_path):
    images, labels = coloured()
    subject = as_subject(lambda x: x.mean((2, 3)), "hue", images[:2])
    context = make_context(subject, images, find_group("hue"), labels)
    results = evaluate(context, ["classification"], progress=False, rivals=False)
    found = results["classification"]
    assert set(found.scalars) == set(found.intervals) | {"chance"} == {"knn", "chance"}
    assert found.missing == {"logistic": "the regression did not converge in 1 iterations"}
    assert found.provenance["regularisation"] == {"flat": None}
    lines = table(results).splitlines()
    assert next(line.split() for line in lines if line.split()[:1] == ["logistic"]) == ["logistic", "-"]
    assert "  logistic is not reported: the regression did not converge in 1 iterations" in lines
    evaluation = Classification()
    assert (evaluation.claim(found), evaluation.figures(found)) == (None, {})
    assert list(evaluation.summary(found)) == ["knn"]
    assert "did not converge" in evaluation.sentence(found)
    again = type(found).load(found.save(tmp_path))
    assert again.missing == found.missing


def test_a_part_of_the_features_may_converge_where_another_does_not(monkeypatch, perfect):
    context, _ = perfect
    whole = classify(context)
    fit = module._fit
    monkeypatch.setattr(
        module, "_fit", lambda x, y, c: None if x.shape[1] == context.subject.layout.dim else fit(x, y, c)
    )
    result = classify(context)
    assert list(result.missing) == ["logistic"]
    assert set(whole.scalars) - set(result.scalars) == {"logistic", "logistic_deviation"}
    assert result.scalars == {key: whole.scalars[key] for key in result.scalars}


def test_a_strength_that_does_not_converge_is_not_chosen(monkeypatch):
    (z, labels), (z_test, _) = blobs(300, 2.0, 0), blobs(90, 2.0, 1)
    fit, usual = module._fit, logistic(z, labels, z_test)
    monkeypatch.setattr(module, "_fit", lambda x, y, c: None if c == usual.strength else fit(x, y, c))
    other = logistic(z, labels, z_test)
    assert other.strength in set(module.STRENGTHS) - {usual.strength}
    assert other.predicted.shape == usual.predicted.shape
    # Chosen, but not converged on all images: no answer.
    monkeypatch.setattr(module, "_fit", lambda x, y, c: fit(x, y, c) if len(y) < 300 else None)
    assert logistic(z, labels, z_test) == (None, None)


def test_one_class_needs_no_regression(unable):
    assert logistic(torch.randn(10, 2), torch.full((10,), 4), torch.randn(3, 2)).predicted.tolist() == [4, 4, 4]


def test_unlabelled_images_are_left_out():
    images, labels = coloured()
    labels[10:20] = -1
    labels[-20:] = -1
    subject = as_subject(lambda x: x.mean((2, 3)), "hue", images[:2])
    result = classify(make_context(subject, images, find_group("hue"), labels))
    assert result.provenance["labelled_train"] == 50
    assert result.provenance["labelled_test"] == 40


def test_without_labels_there_is_a_reason():
    images, labels = coloured()
    subject = as_subject(lambda x: x.mean((2, 3)), "hue", images[:2])
    context = make_context(subject, images, find_group("hue"), torch.full_like(labels, -1))
    with pytest.raises(Inapplicable, match="labels"):
        classify(context)


def test_transfer_leaves_out_what_does_not_converge(monkeypatch, unable):
    images, labels = coloured()
    monkeypatch.setattr(
        "duet.evaluation.transfer.open_images", lambda name, split, **_: MemoryImages(name, split, images, labels)
    )
    subject = as_subject(lambda x: x.mean((2, 3)), "hue", images[:2])
    result = transfer(make_context(subject, images, find_group("hue"), labels), ["sets/pets"])
    assert set(result.scalars) == {"pets/knn", "pets/chance"}
    assert list(result.missing) == ["pets/logistic"]


def test_transfer_names_its_sets(monkeypatch):
    images, labels = coloured()
    opened = []

    def open_images(name, split, **options):
        opened.append((name, split, options["image_size"], options["channels"]))
        return MemoryImages(name, split, images, labels)

    monkeypatch.setattr("duet.evaluation.transfer.open_images", open_images)
    subject = as_subject(lambda x: x.mean((2, 3)), "hue", images[:2])
    result = transfer(make_context(subject, images, find_group("hue"), labels), ["flowers", "sets/pets"])
    assert result.scalars["flowers/logistic"] == result.scalars["pets/logistic"] == 1.0
    assert set(result.intervals) == {f"{name}/{kind}" for name in ("flowers", "pets") for kind in ("logistic", "knn")}
    assert opened[0] == ("flowers", "train", 4, 3)
