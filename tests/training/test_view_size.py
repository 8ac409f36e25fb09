"""The schedule of the views' side: written, refused, followed, and the statistics that it leaves."""

import pytest
import torch

import duet
from duet import DuetError
from duet.methods import Duet
from duet.networks.mode import estimate_statistics
from duet.training import resume, train
from duet.training.experiment import build_stack, open_data
from duet.training.view_size import ViewSizes

from .test_run import contents, cut_at


def test_sides_follow_each_other():
    sizes = ViewSizes.parse(["16@0.4", "24@.75", "32"])
    assert [sizes.at(done) for done in (0, 0.39, 0.4, 0.74, 0.75, 0.999)] == [16, 16, 24, 24, 32, 32]
    assert ViewSizes.parse(["24"]).at(0.5) == 24
    assert ViewSizes.parse([]) is None


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["16@0.4", "24@0.75"], "a part for every side but the last; it is '16@0.4 24@0.75'"),
        (["16", "32"], "a part for every side but the last"),
        (["sixteen"], "it is 'sixteen'"),
        (["16@0.8", "24@0.4", "32"], "rise between 0 and 1; they are 0.8, 0.4"),
        (["16@0", "32"], "rise between 0 and 1; they are 0"),
        (["16@1.5", "32"], "rise between 0 and 1; they are 1.5"),
        (["2"], "from 4 to 16384 pixels; it is 2"),
    ],
)
def test_what_is_no_schedule_is_refused(words, line):
    with pytest.raises(DuetError, match=line):
        duet.Experiment.preset("demo", view_size=words)


def test_a_plain_number_is_a_side():
    assert duet.Experiment.preset("demo", view_size=[16]).view_size == ("16",)


def test_a_trunk_has_no_view_size():
    with pytest.raises(DuetError, match="view_size is not for a trunk"):
        duet.Experiment.preset("photos", data="photos", view_size=["64"])


def test_views_have_the_side_of_their_part_and_a_cut_run_ends_with_the_same_files(tmp_path, tiny, monkeypatch):
    experiment = tiny(view_size=["14@0.34", "20@0.6", "28"])
    seen, real = [], Duet.represent

    def represent(self, views):
        seen.append(views.images.shape[-1])
        return real(self, views)

    with monkeypatch.context() as patched:
        patched.setattr(Duet, "represent", represent)
        whole = train(experiment, tmp_path / "whole", quiet=True, checkpoint_every=4)
    assert seen == [14] * 6 + [20] * 3 + [28] * 6
    cut_at(monkeypatch, 8, lambda: train(experiment, tmp_path / "cut", quiet=True, checkpoint_every=4))
    assert resume(tmp_path / "cut", quiet=True, checkpoint_every=4)
    assert contents(tmp_path / "cut") == contents(whole)


def test_small_views_leave_statistics_of_full_images(tmp_path, tiny):
    experiment = tiny(view_size=["14"], action_pairs=0, subset=256, calibrate=False)
    norm = duet.load(train(experiment, tmp_path / "run", quiet=True), device="cpu").backbone.norm
    other = duet.load(train(experiment, tmp_path / "run", quiet=True), device="cpu")
    images = open_data(experiment)
    stack = build_stack(experiment)
    full, small = (
        stack.without(size=side)(images.sample(256, 0), torch.Generator().manual_seed(5)) for side in (28, 14)
    )
    far = {}
    for name, view in (("full", full), ("small", small)):
        estimate_statistics(other.backbone, [view.images])
        far[name] = float((other.backbone.norm.running_mean - norm.running_mean).norm())
    assert far["full"] < 0.5 * far["small"]


def test_views_that_end_at_full_size_leave_their_running_statistics(tmp_path, tiny, monkeypatch):
    monkeypatch.setattr("duet.training.finish.estimate_statistics", lambda *_: pytest.fail("estimated"))
    train(tiny(view_size=["14@0.5", "28"], action_pairs=0, epochs=2), tmp_path / "run", quiet=True)
