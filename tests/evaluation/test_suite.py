"""The suite: everything once, kept, shared, and the same again."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

import duet
from duet.data import MemoryImages
from duet.error import DuetError
from duet.evaluation import EVALUATIONS, Evaluation, Inapplicable, Result, as_subject, evaluate, flatten, suite, table
from duet.evaluation.context import Labelled
from duet.evaluation.subject import Outsider
from duet.evaluation.suite import find_evaluations
from duet.groups import find_group
from duet.model import Encoder
from duet.representation import Axis, Concatenated, Gaussian, Table, VonMises

from ..conftest import random_encoder
from .conftest import make_context, tinted

USUAL = find_evaluations(None)


def inverted(images):
    """Other images under the same name, as many and as large."""
    return MemoryImages(images.name, images.split, 1 - images.tensors()[0], images.labels)


def test_all_evaluations_have_results_of_their_names(perfect, tmp_path):
    context, _ = perfect
    results = evaluate(context, out=tmp_path, progress=False)
    # Brightness does not turn, and only a calibrated model has a confidence.
    expected = [name for name in USUAL if name not in ("spectrum", "confidence")]
    assert list(results) == expected
    assert sorted(p.stem for p in tmp_path.glob("*.json")) == sorted(expected)
    for name, result in results.items():
        assert result.name == name
        assert result.provenance["group"] == "brightness"
        assert result.provenance["data"] == "made"


def test_what_is_on_request_is_done_when_it_is_named():
    assert "transfer" in EVALUATIONS
    assert "transfer" not in USUAL
    assert find_evaluations(["transfer", "recovery"]) == ["recovery", "transfer"]  # in their order, not as named


def test_no_image_is_seen_twice(perfect):
    context, counter = perfect
    evaluate(context, [name for name in USUAL if name != "generation"], progress=False)
    # Features of all 80 images; 4 views of the 40 training images for probes and actions; the orbit of 12 images at 16
    # elements; the paper's map of them, with the untouched ones; 12 images of noise.
    assert counter.images == 80 + 4 * 40 + 16 * 12 + 17 * 12 + 12


def test_what_is_there_is_kept(perfect, tmp_path):
    context, counter = perfect
    first = evaluate(context, out=tmp_path, progress=False)
    before = counter.images
    again = evaluate(replace(context, _cache={}), out=tmp_path, progress=False)
    assert counter.images == before
    assert flatten(again) == flatten(first)
    evaluate(replace(context, _cache={}), ["retrieval"], force=True, out=tmp_path, progress=False)
    assert counter.images > before


@pytest.mark.parametrize(
    "change",
    [
        lambda c: replace(c, seed=1, _cache={}),
        lambda c: replace(c, test=inverted(c.test), _cache={}),
        lambda c: replace(c, train=inverted(c.train), _cache={}),
        lambda c: replace(c, sizes=replace(c.sizes, images=10), _cache={}),
        lambda c: replace(c, subject=replace(c.subject, digest="other weights"), _cache={}),
        lambda c: replace(c, subject=replace(c.subject, digest=None), _cache={}),
    ],
)
def test_what_was_measured_on_something_else_is_measured_again(perfect, tmp_path, change):
    context, counter = perfect
    evaluate(context, ["retrieval"], out=tmp_path, progress=False)
    before = counter.images
    evaluate(change(context), ["retrieval"], out=tmp_path, progress=False)
    assert counter.images > before


def test_a_damaged_result_is_measured_again(perfect, tmp_path):
    context, _ = perfect
    evaluate(context, ["retrieval"], out=tmp_path, progress=False)
    (tmp_path / "retrieval.npz").write_bytes(b"")
    evaluate(context, ["retrieval"], out=tmp_path, progress=False)
    Result.load(tmp_path / "retrieval.json")


def test_the_same_seed_gives_the_same_numbers_in_any_order(perfect):
    context, _ = perfect
    together = evaluate(context, progress=False)
    for name in ("retrieval", "recovery", "dependence"):
        alone = evaluate(replace(context, _cache={}), [name], progress=False)[name]
        assert alone.scalars == together[name].scalars
        for key, array in alone.arrays.items():
            np.testing.assert_array_equal(array, together[name].arrays[key])


def test_unknown_names_are_refused(perfect):
    context, _ = perfect
    with pytest.raises(
        ValueError, match=r"no evaluation retreival \(did you mean 'retrieval'\?\); there are classification"
    ):
        evaluate(context, ["retreival"])
    with pytest.raises(ValueError, match="no sizes 'huge'"):
        suite.find_sizes("huge")


def test_what_does_not_apply_is_left_out_with_a_reason(pixels, capsys):
    results = evaluate(pixels)
    assert set(results) == {"classification", "recovery", "equivariance", "spectrum", "retrieval", "generation"}
    assert "marginals is left out: the features have no columns for rot4" in capsys.readouterr().err


def test_every_group_of_several_is_evaluated(tmp_path):
    axes = (Axis("brightness", 4, Gaussian(0.2)), Axis("contrast", 4, Gaussian(0.2)))
    layout = Concatenated(2, axes)
    mixing = torch.randn(3, layout.dim, generator=torch.Generator().manual_seed(0))
    groups = {name: find_group(name) for name in ("brightness", "contrast")}
    subject = Outsider(lambda x: x.mean((2, 3)) @ mixing, layout, groups, digest="two")
    context = make_context(subject, tinted(60), groups["brightness"])
    results = evaluate(context, ["classification", "retrieval"], out=tmp_path, progress=False)
    assert list(results) == ["classification", "retrieval", "retrieval-contrast"]
    assert results["retrieval-contrast"].provenance["group"] == "contrast"
    assert Result.load(tmp_path / "retrieval-contrast.json").name == "retrieval-contrast"


def test_an_evaluation_of_your_own_takes_part(perfect, monkeypatch):
    context, _ = perfect

    class Count(Evaluation):
        name = "count"

        def measure(self, context):
            return Result("whatever", {"images": float(len(context.images))})

    monkeypatch.setitem(EVALUATIONS, "count", Count())
    results = evaluate(context, ["count"], progress=False)
    assert results["count"].name == "count"
    assert results["count"].scalars == {"images": 12}
    assert results["count"].provenance["weights"] == "oracle"
    assert results["count"].rivals["pixels"].scalars == {"images": 12}  # rivals take part in it too
    assert table(results).split() == ["count", "pixels", "images", "12.000", "12.000"]
    alone = evaluate(context, ["count"], progress=False, rivals=False)
    assert table(alone).split() == ["count", "images", "12.000"]


class Raising(Evaluation):
    """Measures nothing and says why."""

    name = "raising"

    def __init__(self, error):
        self.error = error

    def measure(self, context):
        raise self.error


def test_an_error_is_not_swallowed(perfect, monkeypatch):
    context, _ = perfect
    monkeypatch.setitem(EVALUATIONS, "raising", Raising(ValueError("broken")))
    with pytest.raises(ValueError, match="broken"):
        evaluate(context, ["raising"], progress=False)


def test_an_inapplicable_evaluation_is_a_line_and_the_others_go_on(perfect, monkeypatch, capsys):
    context, _ = perfect
    monkeypatch.setitem(EVALUATIONS, "raising", Raising(Inapplicable("there is no light")))
    assert list(evaluate(context, ["raising", "dependence"])) == ["dependence"]
    assert capsys.readouterr().err == "raising is left out: there is no light\n"
    # Who asks for it directly meets a mistake of the user's like any other.
    with pytest.raises(duet.DuetError, match="no light"):
        EVALUATIONS["raising"].measure(context)


def test_the_table_has_the_headlines(perfect):
    context, _ = perfect
    text = table(evaluate(context, progress=False))
    assert "median_error_factor" in text
    assert "hit1_fitted" in text
    assert "spread_correlation" not in text
    assert "structure for it is likely to help" in text
    assert max(len(line) for line in text.splitlines() if not line.endswith(".")) < 100


def test_flat_names_join_result_and_scalar():
    assert flatten({"recovery": Result("recovery", {"r2": 0.5})}) == {"recovery/r2": 0.5}


def test_a_run_on_disk_is_evaluated_in_its_folder(tmp_path):
    random_encoder().save(tmp_path / "model")
    sizes = replace(suite.SIZES["demo"], images=8, sweep=8, probe=64, train=100, test=50)
    results = evaluate(tmp_path, ["classification", "equivariance"], sizes=sizes, progress=False)
    assert sorted(p.name for p in (tmp_path / "results").glob("*.json")) == ["classification.json", "equivariance.json"]
    assert results["equivariance"].provenance["data"] == "digits"
    assert str(tmp_path) not in (tmp_path / "results" / "equivariance.json").read_text()
    other = suite.open_context(tmp_path, group="rot4", sizes=sizes)
    assert other.group.name == "rot4"


def test_what_is_not_the_runs_own_replaces_nothing(tmp_path, monkeypatch):
    random_encoder().save(tmp_path / "run" / "model")
    random_encoder().save(tmp_path / "other" / "model")
    sizes = replace(suite.SIZES["demo"], images=8, sweep=8, probe=64, decoder_steps=1)
    for folder, own in (("run", {}), ("run", {"group": "rot4"}), ("other", {})):
        context = suite.open_context(tmp_path / folder, sizes=sizes, **own)
        evaluate(
            context, ["generation"], out=suite.results_folder(tmp_path / "run", context), force=True, progress=False
        )
    kept = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*/decoders/*")}
    assert kept == {"run/model/decoders/rot360.safetensors", "other/model/decoders/rot360.safetensors"}
    assert (tmp_path / "run" / "results" / "rot4" / "generation.json").exists()
    monkeypatch.chdir(tmp_path)
    evaluate(suite.open_context(random_encoder(), sizes=sizes), ["generation"], out="loose", progress=False)
    assert sorted(path.name for path in (tmp_path / "loose").iterdir()) == ["generation.json", "generation.npz"]
    assert not (tmp_path / "decoders").exists()


@pytest.mark.parametrize("data", ["..", ".", "inner/..", "../photos", "../photos/"])
def test_results_on_other_images_stay_in_a_folder_of_their_own(tmp_path, monkeypatch, data):
    run, inside = tmp_path / "run", tmp_path / "photos"
    (inside / "inner").mkdir(parents=True)
    random_encoder().save(run / "model")
    monkeypatch.chdir(inside / "inner" if data == ".." else inside)
    monkeypatch.setattr(suite, "open_splits", lambda wanted: (None, None))
    context = suite.open_context(run, data=data)
    assert suite.results_folder(run, context).resolve() == run / "results" / "photos"


def test_every_subject_gets_an_action_of_its_own_training_images():
    brings = random_encoder(size=12)
    without = Encoder(brings.backbone, brings.layout, brings.groups, image_size=12)
    assert brings.actions["rot360"]
    assert not without.actions
    images = torch.rand(80, 1, 12, 12, generator=torch.Generator().manual_seed(0))
    found = [
        evaluate(make_context(subject, images, find_group("rot360")), ["equivariance", "retrieval"], progress=False)
        for subject in (brings, without)
    ]
    assert flatten(found[0]) == flatten(found[1])


def test_an_encoder_that_learns_on_is_measured_again(tmp_path):
    encoder = random_encoder(size=12)
    images = torch.rand(80, 1, 12, 12, generator=torch.Generator().manual_seed(0))

    def measure():
        context = make_context(encoder, images, find_group("rot360"))
        return evaluate(context, ["dependence"], out=tmp_path, progress=False)["dependence"]

    first = measure()
    assert measure().scalars == first.scalars
    with torch.no_grad():
        encoder.backbone.norm.weight.mul_(3)
    later = measure()
    assert later.scalars != first.scalars
    assert later.provenance["weights"] != first.provenance["weights"]


def test_other_sets_for_transfer_are_measured_and_not_taken_from_disk(perfect, tmp_path, monkeypatch):
    context, _ = perfect
    monkeypatch.setattr("duet.evaluation.transfer.open_images", lambda name, split, **options: context.train)
    for name in ("flowers", "pets"):
        found = evaluate(replace(context, transfer=(name,)), ["transfer"], out=tmp_path, progress=False)["transfer"]
        assert {key.partition("/")[0] for key in found.scalars} == {name}
    assert Result.load(tmp_path / "transfer.json").scalars.keys() == found.scalars.keys()


def test_transfer_is_taken_from_disk_where_its_sets_are_the_same(perfect, tmp_path, monkeypatch):
    context, _ = perfect
    sets = {"train": context.train, "test": context.test}
    monkeypatch.setattr("duet.evaluation.transfer.open_images", lambda name, split, **options: sets[split])
    asked = replace(context, transfer=("flowers",))

    def measure():
        return evaluate(asked, ["transfer"], out=tmp_path, progress=False, rivals=False)["transfer"]

    first = measure()
    with monkeypatch.context() as patch:
        patch.setattr("duet.evaluation.transfer.classify", None)  # nothing is measured
        assert measure().scalars == first.scalars
        sets["test"] = context.train
        with pytest.raises(TypeError):
            measure()
    assert measure().provenance["sets"]["flowers"]["fingerprint"] != first.provenance["sets"]["flowers"]["fingerprint"]
    damaged = json.loads((tmp_path / "transfer.json").read_text())
    for broken in ([], {"flowers": 5}, None):
        damaged["provenance"]["sets"] = broken
        (tmp_path / "transfer.json").write_text(json.dumps(damaged))
        assert measure().scalars.keys() == first.scalars.keys()


def test_transfer_stands_beside_rivals(perfect, monkeypatch):
    context, _ = perfect
    monkeypatch.setattr("duet.evaluation.transfer.open_images", lambda name, split, **options: context.train)
    found = evaluate(replace(context, transfer=("flowers",)), ["transfer"], progress=False)["transfer"]
    assert set(found.rivals) >= {"pixels"}
    assert all("flowers/logistic" in scores.scalars for scores in found.rivals.values())


def test_transfer_without_a_set_is_left_out_with_a_reason(perfect, capsys):
    context, _ = perfect
    assert evaluate(context, ["transfer"]) == {}
    assert "transfer is left out: name the sets" in capsys.readouterr().err


def test_a_user_encoder_on_a_named_set(tmp_path, monkeypatch):
    (tmp_path / "another_for_a_test.py").write_text("import torch\ndef build():\n    return torch.nn.Flatten()\n")
    monkeypatch.syspath_prepend(tmp_path)
    sizes = replace(suite.SIZES["demo"], images=8, sweep=8, probe=64)
    context = suite.open_encoder_context("another_for_a_test:build", "rot4", "digits", channels=1, sizes=sizes)
    scalars = evaluate(context, ["equivariance"], progress=False)["equivariance"].scalars
    assert "error_fitted" in scalars


def test_bars_show_on_a_terminal_and_leave_nothing(pixels, monkeypatch):
    import io

    from rich.console import Console

    stream = io.StringIO()
    monkeypatch.setattr("duet.progress.Console", lambda stderr: Console(file=stream, force_terminal=True, width=100))
    evaluate(pixels, ["retrieval"])
    assert "retrieval" in stream.getvalue()


def test_a_subject_is_a_subject_already(pixels):
    assert as_subject(pixels.subject) is pixels.subject


def test_two_bins_on_a_circle_leave_out_what_needs_three(capsys):
    images = torch.rand(80, 1, 4, 4, generator=torch.Generator().manual_seed(1))
    layout, group = Table(8, Axis("rot4", 2, VonMises(0.2))), find_group("rot4")
    subject = Outsider(lambda x: x.flatten(1), layout, {"rot4": group}, digest="two")
    found = evaluate(make_context(subject, images, group), [name for name in USUAL if name != "generation"])
    assert list(found) == ["classification", "recovery", "equivariance", "spectrum", "retrieval", "dependence"]
    assert "median_error_degrees" not in found["recovery"].scalars
    assert "probe_median_error_degrees" in found["recovery"].scalars
    assert "marginals is left out: 2 bins on a circle" in capsys.readouterr().err


def test_dependence_looks_at_images_of_every_class(perfect):
    """Half of the test images are black and come first; Delta P must not be theirs alone."""
    context, _ = perfect
    z = torch.zeros(40, 24)
    z[20:] = torch.randn(20, 24, generator=torch.Generator().manual_seed(0)) * 3
    context._cache["test"] = Labelled(z, torch.arange(40) // 20)
    found = evaluate(context, ["dependence"], progress=False)["dependence"]
    assert 0 < (found.arrays["delta_p_images"] > 1e-6).mean() < 1


def test_one_evaluation_may_be_named_without_a_list(perfect):
    context, _ = perfect
    assert set(evaluate(context, "retrieval", progress=False)) == {"retrieval"}


def test_a_measure_that_returns_no_result_is_named(perfect, monkeypatch):
    context, _ = perfect
    monkeypatch.setattr(type(EVALUATIONS["retrieval"]), "measure", lambda self, context: 3)
    with pytest.raises(ValueError, match=r"Retrieval\.measure must return a Result"):
        evaluate(context, "retrieval", progress=False)


@pytest.mark.parametrize("thing", [torch.nn.Flatten(), torch.zeros(2), 3])
def test_objects_where_a_run_is_expected_are_one_clear_line(thing):
    with pytest.raises(DuetError, match="evaluate takes a run or a model, or an Encoder, by name, not a"):
        evaluate(thing)


def test_tensors_where_images_are_named_are_one_clear_line(encoder):
    with pytest.raises(DuetError, match=r"evaluate takes images by name, not a torch\.Tensor"):
        evaluate(encoder, data=torch.zeros(2, 1, 28, 28))
