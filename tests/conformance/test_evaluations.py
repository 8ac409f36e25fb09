"""What every evaluation must do, registered by us or by a user."""

import math
import re
from dataclasses import replace
from fnmatch import fnmatchcase

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from PIL import Image

import duet.paper  # noqa: F401 - its evaluations register themselves
from duet import DuetError, Experiment, register_evaluation
from duet.data import MemoryImages
from duet.evaluation import EVALUATIONS, Context, Evaluation, Result, Sizes, evaluate, table
from duet.evaluation.verdict import judge, say
from duet.networks import OnlineHead
from tests.conftest import confident, random_encoder

NAMES = list(EVALUATIONS)
SILENT = {"transfer", "cost"}  # numbers of other sets and of the machine, which no sentence could sum up
TIMED = {"cost"}
SIZES = Sizes(images=12, sweep=8, copies=8, queries=2, probe=64, decoder_steps=2)
SUBJECTS = {
    "table": {},
    "relative": {"reference": "relative"},
    "relative interval": {"reference": "relative", "group": ["scale"]},
    "flat": {"method": "simclr"},
    "finite": {"group": ["rot4"]},
}


def images(split, n=60, seed=0):
    pixels = torch.rand(n, 1, 12, 12, generator=torch.Generator().manual_seed(seed))
    return MemoryImages("made", split, pixels, torch.arange(n) % 3, ("cat", "dog", "cow"))


def make_context(encoder, **more):
    return Context(encoder, images("train"), images("test", seed=1), next(iter(encoder.groups.values())), SIZES, **more)


@pytest.fixture(scope="module", autouse=True)
def _few_repeats():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("duet.paper.cost.REPEATS", 1)
        yield


@pytest.fixture(scope="module")
def contexts(tmp_path_factory):
    """Features of every kind; those with a table are a run's own, with another set of images beside it."""
    folder = tmp_path_factory.mktemp("evaluations")
    settings = {"encoder": "tiny", "projector": [16], "batch_size": 8}
    Experiment.preset("demo", **settings).to_yaml(folder / "config.yaml")
    for number, image in enumerate((255 * torch.rand(40, 12, 12)).byte().numpy()):
        path = folder / "other" / f"class{number % 2}" / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(path)
    whole = {"run": folder, "transfer": (str(folder / "other"),)}
    encoders = {kind: random_encoder(size=12, **settings, **changes) for kind, changes in SUBJECTS.items()}
    confident(encoders["table"]).head = OnlineHead(encoders["table"].layout.dim, 3)
    return {kind: make_context(own, **(whole if kind == "table" else {})) for kind, own in encoders.items()}


@pytest.fixture(scope="module")
def results(contexts):
    """Every evaluation of every kind of features that it has an answer for."""
    return {kind: evaluate(context, NAMES, progress=False) for kind, context in contexts.items()}


@pytest.fixture(params=NAMES)
def evaluation(request):
    return EVALUATIONS[request.param]


@pytest.fixture
def answers(evaluation, results):
    found = {kind: own[evaluation.name] for kind, own in results.items() if evaluation.name in own}
    assert "table" in found  # there, each of them has something to say
    return list(found.values())


def test_it_says_what_it_is(evaluation):
    assert EVALUATIONS[evaluation.name] is evaluation
    assert re.fullmatch(r"[A-Za-z0-9_]+", evaluation.name)
    assert evaluation.title
    assert evaluation.question.endswith("?")


def test_they_stand_in_their_order():
    orders = [evaluation.order for evaluation in EVALUATIONS.values()]
    assert orders == sorted(orders)
    assert len({evaluation.title for evaluation in EVALUATIONS.values()}) == len(EVALUATIONS)


def test_measuring_gives_numbers_by_name(evaluation, contexts):
    result = evaluation.measure(contexts["table"])
    assert isinstance(result, Result)
    assert result.scalars
    assert all(isinstance(value, float) for value in result.scalars.values())


def test_headlines_are_among_the_numbers(evaluation, answers):
    for result in answers:
        keys = evaluation.headlines(result)
        assert keys
        assert len(set(keys)) == len(keys)
        assert set(keys) <= set(result.scalars)


def test_the_summary_is_among_the_numbers_and_in_words(evaluation, answers):
    for result in answers:
        summary = evaluation.summary(result)
        assert set(summary) <= set(result.scalars)
        for text in summary.values():
            assert text.strip()
            assert "_" not in text.replace("T_g", "")


def test_every_number_has_a_name_in_words(evaluation, answers):
    for result in answers:
        labels = [evaluation.label(key) for key in result.scalars]
        for label in labels:
            assert label.strip()
            assert "_" not in label.replace("T_g", "")
        assert len(set(labels)) == len(labels)  # or a table would have two rows of one name


def test_figures_are_drawn_and_have_captions(evaluation, answers, tmp_path):
    for result in answers:
        figures = evaluation.figures(result)
        assert set(figures) <= set(evaluation.captions)
        for name, figure in figures.items():
            assert isinstance(figure, Figure)
            figure.savefig(tmp_path / f"{name}.png", dpi=30)
            assert not touching(figure), name
            assert len(np.unique(np.asarray(Image.open(tmp_path / f"{name}.png")))) > 2
    assert set(evaluation.figures(answers[0])) == set(evaluation.captions)  # with a table, none is left out


def touching(figure):
    """Pairs of titles of a figure that run into each other, or into another panel."""
    titles = [(axis, axis.title) for axis in figure.axes if axis.get_title()]
    boxes = [(axis, title.get_text(), title.get_window_extent()) for axis, title in titles]
    panels = [axis for axis in figure.axes if axis.axison]
    return [
        (text, other)
        for place, (axis, text, box) in enumerate(boxes)
        for other in [
            *(words for _, words, beside in boxes[place + 1 :] if box.overlaps(beside)),
            *("a panel" for panel in panels if panel is not axis and box.overlaps(panel.get_window_extent())),
        ]
    ]


def test_the_check_of_titles_can_fail():
    figure = Figure(figsize=(2, 2), layout="constrained")
    for axis in figure.subplots(1, 2):
        axis.set_title("far too long for so small a panel")
    figure.draw_without_rendering()
    assert touching(figure)


def test_it_says_in_a_sentence_what_was_found(evaluation, answers):
    for result in answers:
        text = evaluation.sentence(result)
        assert isinstance(text, str)
        assert "\n" not in text
        assert bool(text) != (evaluation.name in SILENT)
        assert not text or text.endswith(".")
        assert "nan" not in text.lower()


def test_a_claim_is_a_number_of_the_result_beside_chance_and_can_be_said(evaluation, answers):
    for result in answers:
        claim = evaluation.claim(result)
        if claim is None:
            continue
        assert math.isfinite(result.scalars[claim.key])
        assert claim.key in result.intervals
        assert claim.chance == pytest.approx(evaluation.chance(claim.key, result))
        text = say(judge(replace(result, name=evaluation.name)))
        assert text.startswith(claim.what[:1].upper() + claim.what[1:])
        assert text.endswith(".")
        assert "{" not in text


class Recorded(dict):
    """Scalars that remember which of them were read."""

    def __init__(self, scalars):
        super().__init__(scalars)
        self.read = set()

    def __getitem__(self, key):
        self.read.add(key)
        return super().__getitem__(key)

    def get(self, key, default=None):
        if key in self:
            self.read.add(key)
        return super().get(key, default)


def recorded(result):
    rivals = {name: replace(own, scalars=Recorded(own.scalars)) for name, own in result.rivals.items()}
    return replace(result, scalars=Recorded(result.scalars), rivals=rivals)


def is_baseline(evaluation, key):
    return any(fnmatchcase(key, pattern) for pattern in ("constant_*", "chance*", *evaluation.baselines))


def test_a_sentence_sets_every_baseline_beside_the_same_measure(evaluation, answers):
    for result in answers:
        own = recorded(result)
        evaluation.sentence(own)
        measures = {evaluation.measured(key) for key in own.scalars.read if not is_baseline(evaluation, key)}
        for key in own.scalars.read:
            assert not is_baseline(evaluation, key) or evaluation.measured(key) in measures, (key, own.scalars.read)


def test_a_verdict_compares_one_measure_only(evaluation, answers):
    for result in answers:
        own = recorded(replace(result, name=evaluation.name))
        claim = evaluation.claim(own)
        if claim is None:
            continue
        measure = evaluation.measured(claim.key)
        rival = claim.rival or claim.key
        assert claim.key in result.scalars
        chance = [key for key in own.scalars.read if is_baseline(evaluation, key)]
        assert {evaluation.measured(key) for key in chance} <= {measure}
        own = recorded(replace(result, name=evaluation.name))
        say(judge(own))
        read = {key for scores in own.rivals.values() for key in scores.scalars.read}
        assert read <= {rival}
        assert evaluation.measured(rival) == measure
        assert all(rival in scores.scalars for scores in own.rivals.values())  # or nobody is compared


def test_chance_is_of_the_same_measure(evaluation, answers):
    for result in answers:
        for key in result.scalars:
            own = recorded(result)
            evaluation.chance(key, own)
            read = {evaluation.measured(other) for other in own.scalars.read if other != key}
            assert read <= {evaluation.measured(key)}, key


def test_rivals_are_measured_on_the_same_images(contexts, tmp_path):
    evaluate(contexts["relative"], ["recovery", "spectrum"], out=tmp_path, progress=False)
    for name in ("recovery", "spectrum"):
        own = Result.load(tmp_path / f"{name}.json").provenance
        for rival in ("pixels", "untrained", "patches"):
            other = Result.load(tmp_path / "rivals" / rival / f"{name}.json").provenance
            for key in ("data", "fingerprint", "group", "unit", "seed", "sizes", "train_images", "test_images"):
                assert other[key] == own[key], key


def test_two_measures_are_not_compared(monkeypatch, results):
    recovery, result = EVALUATIONS["recovery"], results["relative"]["recovery"]
    claim = recovery.claim(result)
    assert claim.key.startswith("median_difference_error")
    mixed = claim._replace(rival="probe_median_error_degrees")  # differences of one, elements of the other
    monkeypatch.setattr(type(recovery), "claim", lambda self, result: mixed)
    with pytest.raises(DuetError, match="these are two measures"):
        judge(result)


def test_chance_is_a_number_and_no_baseline_is_a_headline_of_its_own(evaluation, answers):
    for result in answers:
        for key, value in result.scalars.items():
            chance = evaluation.chance(key, result)
            assert chance is None or math.isfinite(chance)
            assert evaluation.text(key, value)
        left = [k for k in evaluation.headlines(result) if not any(fnmatchcase(k, p) for p in evaluation.baselines)]
        assert bool(left) == bool(evaluation.headlines(result))


def test_the_figure_for_the_top_of_a_page_is_one_of_its_own(evaluation, answers):
    assert evaluation.key_figure in ("", *evaluation.figures(answers[0]))


def test_all_that_is_shown_comes_from_the_result_alone(evaluation, answers, tmp_path):
    for result in answers:
        again = Result.load(result.save(tmp_path))
        assert again.scalars == result.scalars
        assert evaluation.headlines(again) == evaluation.headlines(result)
        assert evaluation.summary(again) == evaluation.summary(result)
        assert evaluation.claim(again) == evaluation.claim(result)
        assert evaluation.sentence(again) == evaluation.sentence(result)
        assert list(evaluation.figures(again)) == list(evaluation.figures(result))


@pytest.mark.parametrize("name", [name for name in NAMES if name not in TIMED])
def test_the_same_seed_gives_the_same_numbers(name, contexts, results):
    again = evaluate(replace(contexts["table"], _cache={}), [name], progress=False)[name]
    assert again.scalars == results["table"][name].scalars


@pytest.fixture
def registry():
    """EVALUATIONS, left as they were."""
    before = dict(EVALUATIONS)
    yield EVALUATIONS
    EVALUATIONS.clear()
    EVALUATIONS.update(before)


class Brightest(Evaluation):
    """A user's own: a name, and what it measures."""

    name = "brightest_pixel"

    def measure(self, context):
        return Result("mine", {"mean_of_it": float(context.images.amax((1, 2, 3)).mean())})


@pytest.mark.parametrize("registered", [Brightest, Brightest()])
def test_a_name_and_what_is_measured_is_enough(registry, contexts, registered):
    assert register_evaluation(registered) is registered
    evaluation = registry["brightest_pixel"]
    assert list(registry)[-1] == "brightest_pixel"  # after ours, unless it asks otherwise
    assert evaluation.title == "brightest pixel"
    results = evaluate(contexts["table"], ["brightest_pixel"], progress=False)
    value = f"{results['brightest_pixel'].scalars['mean_of_it']:.3f}"  # of the images, and so the rivals' too
    rivals = ["pixels", "untrained", "patches"]
    assert table(results).split() == ["brightest_pixel", *rivals, "mean_of_it", *[value] * 4]
    result = results["brightest_pixel"]
    assert result.provenance["group"] == "rot360"
    assert evaluation.summary(result) == {"mean_of_it": "mean of it"}
    assert (evaluation.claim(result), evaluation.figures(result), evaluation.sentence(result)) == (None, {}, "")


def test_one_of_a_users_own_is_done_with_the_others(registry, contexts, monkeypatch):
    for name in NAMES:
        monkeypatch.delitem(registry, name)
    register_evaluation(Brightest)
    assert list(evaluate(contexts["table"], progress=False)) == ["brightest_pixel"]


def test_the_order_is_the_evaluations_own(registry):
    class First(Brightest):
        name, order = "first", -1

    register_evaluation(First)
    assert list(registry) == ["first", *NAMES]


def test_a_name_is_registered_once(registry):
    register_evaluation(Brightest)
    with pytest.raises(DuetError, match="'brightest_pixel' is registered already"):
        register_evaluation(Brightest)
    with pytest.raises(DuetError, match="'recovery' is registered already"):
        register_evaluation(type("Mine", (Brightest,), {"name": "recovery"}))
    assert list(registry) == [*NAMES, "brightest_pixel"]


@pytest.mark.parametrize("name", ["", "two words", "a/b", "a-b", "../x"])
def test_a_name_that_is_no_file_name_is_refused(registry, name):
    with pytest.raises(DuetError, match="letters, digits and _"):
        register_evaluation(type("Mine", (Brightest,), {"name": name}))
    assert list(registry) == NAMES


def test_what_is_no_evaluation_is_refused(registry):
    with pytest.raises(TypeError, match="takes an Evaluation"):
        register_evaluation(lambda context: Result("mine"))
    with pytest.raises(TypeError):  # nothing is measured
        register_evaluation(type("Mine", (Evaluation,), {"name": "mine"}))
    assert list(registry) == NAMES
