"""The suite: everything once, kept, shared, and the same again."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from duet.data import MemoryImages
from duet.evaluation import EVALUATIONS, Inapplicable, Result, Subject, as_subject, evaluate, flatten, suite, table
from duet.evaluation.context import Labelled
from duet.groups import find_group
from duet.representation import Axis, Concatenated, FittedAction, Gaussian, Table, VonMises

from .conftest import make_context, tinted


def inverted(images):
    """Other images under the same name, as many and as large."""
    return MemoryImages(images.name, images.split, 1 - images.tensors()[0], images.labels)


def test_all_evaluations_have_results_of_their_names(perfect, tmp_path):
    context, _ = perfect
    results = evaluate(context, out=tmp_path, progress=False)
    assert list(results) == list(EVALUATIONS)
    assert sorted(p.stem for p in tmp_path.glob("*.json")) == sorted(EVALUATIONS)
    for name, result in results.items():
        assert result.name == name
        assert result.provenance["group"] == "brightness"
        assert result.provenance["data"] == "made"


def test_no_image_is_seen_twice(perfect):
    context, counter = perfect
    evaluate(context, [name for name in EVALUATIONS if name != "generation"], progress=False)
    # Features of all 80 images; the sweep of 12 at 16 elements and the identity; 64 of the probe; 2 x 300 for the
    # fitted action; 12 images of noise.
    assert counter.images == 80 + 17 * 12 + 64 + 600 + 12


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
    with pytest.raises(ValueError, match="no evaluation retreival; there are classification"):
        evaluate(context, ["retreival"])
    with pytest.raises(ValueError, match="no sizes 'huge'"):
        suite._sizes("huge")


def test_what_does_not_apply_is_left_out_with_a_reason(pixels, capsys):
    results = evaluate(pixels)
    assert set(results) == {"classification", "recovery", "equivariance", "retrieval", "generation"}
    assert "marginals is left out: the features have no columns for rot4" in capsys.readouterr().err


def test_every_group_of_several_is_evaluated(tmp_path):
    axes = (Axis("brightness", 4, Gaussian(0.2)), Axis("contrast", 4, Gaussian(0.2)))
    layout = Concatenated(2, axes)
    mixing = torch.randn(3, layout.dim, generator=torch.Generator().manual_seed(0))
    groups = {name: find_group(name) for name in ("brightness", "contrast")}
    subject = Subject(lambda x: x.mean((2, 3)) @ mixing, layout, groups, digest="two")
    context = make_context(subject, tinted(60), groups["brightness"])
    results = evaluate(context, ["classification", "retrieval"], out=tmp_path, progress=False)
    assert list(results) == ["classification", "retrieval", "retrieval-contrast"]
    assert results["retrieval-contrast"].provenance["group"] == "contrast"
    assert Result.load(tmp_path / "retrieval-contrast.json").name == "retrieval-contrast"


def test_an_evaluation_of_your_own_takes_part(perfect, monkeypatch):
    context, _ = perfect

    def count(context):
        return Result("count", {"images": float(len(context.images))}, {}, context.provenance())

    monkeypatch.setitem(EVALUATIONS, "count", count)
    results = evaluate(context, ["count"], progress=False)
    assert results["count"].scalars == {"images": 12}
    assert table(results).split() == ["count", "images", "12.000"]


def test_an_error_is_not_swallowed(perfect, monkeypatch):
    context, _ = perfect

    def broken(context):
        raise ValueError("broken")

    monkeypatch.setitem(EVALUATIONS, "broken", broken)
    with pytest.raises(ValueError, match="broken"):
        evaluate(context, ["broken"], progress=False)
    assert issubclass(Inapplicable, ValueError)


def test_the_table_has_the_headlines(perfect):
    context, _ = perfect
    text = table(evaluate(context, progress=False))
    assert "median_error_factor" in text
    assert "hit1_fitted" in text
    assert "spread_correlation" not in text
    assert "structure for it is likely to help" in text
    assert max(len(line) for line in text.splitlines() if not line.endswith(".")) < 80


def test_flat_names_join_result_and_scalar():
    assert flatten({"recovery": Result("recovery", {"r2": 0.5})}) == {"recovery/r2": 0.5}


def test_a_run_on_disk_is_evaluated_in_its_folder(tmp_path):
    from duet.model import save

    from .test_subject import trained

    save(trained(), tmp_path / "model")
    sizes = replace(suite.SIZES["demo"], images=8, sweep=8, probe=64, pairs=64, train=100, test=50)
    results = evaluate(tmp_path, ["classification", "equivariance"], sizes=sizes, progress=False)
    assert sorted(p.name for p in (tmp_path / "results").glob("*.json")) == ["classification.json", "equivariance.json"]
    assert results["equivariance"].provenance["data"] == "digits"
    assert str(tmp_path) not in (tmp_path / "results" / "equivariance.json").read_text()
    other = suite.open_context(tmp_path, group="rot4", sizes=sizes)
    assert other.group.name == "rot4"


def test_what_is_not_the_runs_own_replaces_nothing(tmp_path, monkeypatch):
    from duet.model import save

    from .test_subject import trained

    save(trained(), tmp_path / "run" / "model")
    save(trained(), tmp_path / "other" / "model")
    sizes = replace(suite.SIZES["demo"], images=8, sweep=8, probe=64, pairs=64, decoder_steps=1)
    for folder, own in (("run", {}), ("run", {"group": "rot4"}), ("other", {})):
        context = suite.open_context(tmp_path / folder, sizes=sizes, **own)
        evaluate(
            context, ["generation"], out=suite.results_folder(tmp_path / "run", context), force=True, progress=False
        )
    kept = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*/decoders/*")}
    assert kept == {"run/model/decoders/rot360.safetensors", "other/model/decoders/rot360.safetensors"}
    assert (tmp_path / "run" / "results" / "rot4" / "generation.json").exists()
    monkeypatch.chdir(tmp_path)
    evaluate(suite.open_context(trained(), sizes=sizes), ["generation"], out="loose", progress=False)
    assert sorted(path.name for path in (tmp_path / "loose").iterdir()) == ["generation.json", "generation.npz"]
    assert not (tmp_path / "decoders").exists()


def test_every_subject_gets_an_action_of_its_own_training_images(perfect):
    context, _ = perfect
    idle = FittedAction.fit(torch.randn(4, 24), torch.randn(4, 24), torch.rand(4), cyclic=False, order=0)
    brings = replace(context, subject=replace(context.subject, actions={"brightness": idle}), _cache={})
    names = ["equivariance", "retrieval"]
    assert flatten(evaluate(brings, names, progress=False)) == flatten(evaluate(context, names, progress=False))


def test_a_user_encoder_on_a_named_set(tmp_path, monkeypatch):
    (tmp_path / "another_for_a_test.py").write_text("import torch\ndef build():\n    return torch.nn.Flatten()\n")
    monkeypatch.syspath_prepend(tmp_path)
    sizes = replace(suite.SIZES["demo"], images=8, sweep=8, probe=64, pairs=64)
    context = suite.open_encoder_context("another_for_a_test:build", "rot4", "digits", channels=1, sizes=sizes)
    scalars = evaluate(context, ["equivariance"], progress=False)["equivariance"].scalars
    assert "error_fitted" in scalars


def test_bars_show_on_a_terminal_and_leave_nothing(pixels, monkeypatch):
    import io

    from rich.console import Console

    stream = io.StringIO()
    monkeypatch.setattr(suite, "Console", lambda stderr: Console(file=stream, force_terminal=True, width=100))
    evaluate(pixels, ["retrieval"])
    assert "retrieval" in stream.getvalue()
    assert as_subject(pixels.subject) is pixels.subject


def test_two_bins_on_a_circle_leave_out_what_needs_three(capsys):
    images = torch.rand(80, 1, 4, 4, generator=torch.Generator().manual_seed(1))
    layout, group = Table(8, Axis("rot4", 2, VonMises(0.2))), find_group("rot4")
    subject = Subject(lambda x: x.flatten(1), layout, {"rot4": group}, digest="two")
    found = evaluate(make_context(subject, images, group), [name for name in EVALUATIONS if name != "generation"])
    assert list(found) == ["classification", "recovery", "equivariance", "retrieval", "dependence"]
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
