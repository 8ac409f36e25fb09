"""The rule of the claims on invented runs: every verdict can come out, and the order of the runs does not matter."""

import json
import math
import random
import statistics
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duet import DuetError, Experiment
from duet.paper.claim import Above, Cell, Claim, Near, Outcome, judge
from duet.paper.claim_page import draw, read_plain_records
from duet.paper.claims import GROUPS, SCALES, claims, main

KEY = "classification/logistic"
ROOT = Path(__file__).parents[2]
PAGE, RECORDS = ROOT / "docs" / "results" / "claims.md", ROOT / "docs" / "results" / "study" / "results"


def record(method, seed, value, group="rot4", width=None, key=KEY, **changes):
    chosen = Experiment(method=method, group=(group,), seed=seed, **changes).to_dict()
    middle = {} if width is None else {key: [value - width / 2, value + width / 2]}
    return {"settings": chosen, "scalars": {key: value}, "intervals": middle}


def cell(method, group="rot4", **changes):
    return Cell(KEY, {"method": method, "group": group, **changes})


def claim(*comparisons):
    return Claim(
        "a", "A is above B", "by 2 %", comparisons or (Above("a", cell("duet"), cell("simclr")),), "make it so"
    )


def runs(first, second, width=None, **changes):
    """Runs of DUET and of SimCLR, one a seed."""
    found = [record("duet", seed, value, width=width, **changes) for seed, value in enumerate(first)]
    return found + [record("simclr", seed, value, width=width, **changes) for seed, value in enumerate(second)]


@pytest.mark.parametrize(
    ("first", "second", "outcome"),
    [
        # Differences 0.02, 0.03, 0.04: mean 0.03, standard error 0.01 / sqrt 3 = 0.0058.
        ([0.52, 0.63, 0.74], [0.50, 0.60, 0.70], Outcome.HOLDS),
        ([0.50, 0.60, 0.70], [0.52, 0.63, 0.74], Outcome.REVERSED),
        # Differences 0.00, 0.02, 0.04: mean 0.02, twice the error 0.0231.
        ([0.50, 0.62, 0.74], [0.50, 0.60, 0.70], Outcome.NOT_SEPARABLE),
        ([0.5, 0.6], [0.5, 0.6], Outcome.NOT_SEPARABLE),
        ([0.5, 0.6], [], Outcome.NOT_TESTED),
        ([], [], Outcome.NOT_TESTED),
    ],
)
def test_over_seeds_a_paired_difference_must_exceed_twice_its_error(first, second, outcome):
    assert judge(claim(), runs(first, second)).outcome is outcome


def test_pairs_count_and_not_means():
    # The seeds differ by far more than the methods: unpaired, nothing could be told apart.
    first, second = [0.31, 0.51, 0.711], [0.30, 0.50, 0.70]
    assert judge(claim(), runs(first, second)).outcome is Outcome.HOLDS
    mixed = [record("duet", seed, value) for seed, value in zip((2, 0, 1), first, strict=True)]
    assert judge(claim(), mixed + runs([], second)).outcome is Outcome.NOT_SEPARABLE


@pytest.mark.parametrize(
    ("gap", "outcome"),
    [(0.03, Outcome.HOLDS), (-0.03, Outcome.REVERSED), (0.028, Outcome.NOT_SEPARABLE)],
)
def test_with_one_seed_the_interval_over_images_decides(gap, outcome):
    # Intervals of 0.0392: each an error of 0.01, of the difference 0.0141, twice that 0.0283.
    assert judge(claim(), runs([0.5 + gap], [0.5], width=0.0392)).outcome is outcome
    assert judge(claim(), runs([0.5 + gap], [0.5])).outcome is Outcome.NOT_SEPARABLE  # nobody knows its error


def test_one_reversed_comparison_reverses_a_claim_and_it_holds_only_where_all_have_runs():
    both = claim(*(Above(group, cell("duet", group), cell("simclr", group)) for group in ("rot4", "hue")))
    good, bad = runs([0.6, 0.61], [0.5, 0.5]), runs([0.4, 0.41], [0.5, 0.5], group="hue")
    unsure = runs([0.5, 0.51], [0.5, 0.51], group="hue")
    assert judge(both, good).outcome is Outcome.NOT_TESTED
    assert judge(both, good + runs([0.6, 0.61], [0.5, 0.5], group="hue")).outcome is Outcome.HOLDS
    assert judge(both, good + bad).outcome is Outcome.REVERSED
    assert judge(both, good + unsure).outcome is Outcome.NOT_SEPARABLE
    assert [finding.outcome for finding in judge(both, good).findings] == [Outcome.HOLDS, Outcome.NOT_TESTED]


@pytest.mark.parametrize(
    ("other", "outcome"),
    [(0.503, Outcome.HOLDS), (0.53, Outcome.REVERSED), (0.509, Outcome.NOT_SEPARABLE)],
)
def test_near_means_surely_within(other, outcome):
    near = claim(Near("a", cell("duet"), cell("simclr"), within=0.01))
    assert judge(near, runs([0.5, 0.5], [other - 0.002, other + 0.002])).outcome is outcome


@pytest.mark.parametrize(
    ("value", "outcome"), [(2.1, Outcome.HOLDS), (1.5, Outcome.NOT_SEPARABLE), (0.9, Outcome.REVERSED)]
)
def test_far_above_is_a_factor_and_reversed_is_below(value, outcome):
    far = claim(Above("a", cell("duet"), 1.0, factor=2.0, exact=True))
    assert judge(far, [record("duet", 0, value)]).outcome is outcome


def test_a_number_that_is_missing_is_no_run():
    damaged = runs([0.6, 0.61], [0.5, 0.5])
    for one in damaged:
        one["scalars"][KEY] = None
    assert judge(claim(), damaged).outcome is Outcome.NOT_TESTED
    damaged[0]["scalars"] = {KEY: math.nan}
    assert judge(claim(), damaged).outcome is Outcome.NOT_TESTED


def test_runs_of_other_settings_are_not_taken():
    strict = claim(Above("a", cell("duet", sigma=0.2, options={}), cell("simclr")))
    others = runs([0.6, 0.61], [0.5, 0.5], sigma=0.1)
    assert judge(strict, others).outcome is Outcome.NOT_TESTED
    assert judge(strict, runs([0.6, 0.61], [0.5, 0.5])).outcome is Outcome.HOLDS
    plain = claim(Above("a", cell("duet", weight=10.0), cell("simclr")))
    assert judge(plain, runs([0.6, 0.61], [0.5, 0.5])).outcome is Outcome.HOLDS  # 10 is DUET's own
    assert judge(plain, runs([0.6, 0.61], [0.5, 0.5], weight=0.0)).outcome is Outcome.NOT_TESTED
    with pytest.raises(DuetError, match="two different runs of method duet, group rot4"):
        judge(claim(), runs([0.6, 0.61], [0.5, 0.5]) + runs([0.7, 0.61], [0.5, 0.5]))


def test_settings_that_a_record_leaves_out_are_the_defaults():
    short = {"settings": {"method": "duet", "group": "rot4"}, "scalars": {KEY: 0.9}}
    found = judge(claim(Above("a", cell("duet", sigma=0.2, options={}, bins=8), 0.5, exact=True)), [short])
    assert found.outcome is Outcome.HOLDS


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=6), st.randoms())
def test_the_order_of_the_runs_does_not_matter_and_a_mirrored_claim_is_reversed(pairs, shuffle):
    found = runs(*zip(*pairs, strict=True))
    mixed = shuffle.sample(found, len(found))
    verdict = judge(claim(), found)
    assert judge(claim(), mixed) == verdict
    differences = [a - b for a, b in pairs]
    error = statistics.stdev(differences) / math.sqrt(len(pairs))
    assert verdict.findings[0].error == pytest.approx(error)
    mirrored = judge(claim(Above("a", cell("simclr"), cell("duet"))), found).outcome
    swap = {Outcome.HOLDS: Outcome.REVERSED, Outcome.REVERSED: Outcome.HOLDS}
    assert mirrored is swap.get(verdict.outcome, verdict.outcome)


@pytest.mark.parametrize("scale", SCALES)
def test_every_claim_asks_for_runs_that_there_can_be(scale):
    listed = claims(scale)
    assert len({one.name for one in listed}) == len(listed) >= 17
    for one in listed:
        assert one.text
        assert one.paper
        assert one.command.startswith("duet reproduce " if one.comparisons else "pytest ")
        assert not one.proof or (ROOT / one.proof).exists()
        assert bool(one.comparisons) != bool(one.proof)
        assert len({comparison.label for comparison in one.comparisons}) == len(one.comparisons)
        for comparison in one.comparisons:
            for part in (comparison.first, comparison.second):
                if not isinstance(part, float):
                    Experiment(**{**part.settings, "group": (part.settings["group"],)})  # no mistyped key or value


def test_lambda_is_the_scales_own():
    weights = {
        scale: {c.label: c.first.settings["weight"] for c in claims(scale)[0].comparisons} for scale in ("cpu", "paper")
    }
    strong = {"rot360", "rot4", "vflip"}
    assert weights["paper"] == {group: 1000 if group in strong else 10 for group in GROUPS}
    assert weights["cpu"] == {group: 100 if group in strong | {"scale"} else 10 for group in GROUPS}


def study(above=0.02, seeds=3):
    """An invented study of all groups: DUET above SimCLR, the rest missing."""
    draws = random.Random(0)
    found = []
    for group in GROUPS:
        for seed in range(seeds):
            base = 0.4 + draws.gauss(0, 0.001)
            weight = {c.label: c.first.settings["weight"] for c in claims()[0].comparisons}[group]
            found.append(record("simclr", seed, base, group))
            found.append(record("duet", seed, base + above + draws.gauss(0, 0.001), group, weight=weight))
    return found


def test_the_page_is_drawn_from_records_alone_and_in_any_order(tmp_path, capsys):
    records = study()
    page = draw(claims(), records)
    assert page == draw(claims(), list(reversed(records)))
    lines = page.splitlines()
    row = next(line for line in lines if line.startswith("| DUET is above SimCLR for every group"))
    assert row.endswith("| 10 of 10 | **holds** |")
    assert "**reversed**" in draw(claims(), study(above=-0.02))
    assert "| ESSL is below SimCLR for colour transformations |" in page
    assert page.count("**not tested**") > 10
    widths = {line.count("|") for line in lines if line.startswith("| DUET") or line.startswith("| claim")}
    assert widths == {5}
    for place, one in enumerate(records):
        (tmp_path / "deep").mkdir(exist_ok=True)
        (tmp_path / "deep" / f"{place}.json").write_text(json.dumps(one))
    (tmp_path / "other.json").write_text("[1, 2]")  # not ours
    assert len(read_plain_records(tmp_path)) == len(records)
    assert main([str(tmp_path), "-o", str(tmp_path / "claims.md")]) == 0
    assert (tmp_path / "claims.md").read_text() == page


def test_of_several_sets_of_images_one_is_judged():
    both = [*runs([0.6, 0.61], [0.5, 0.5], data="cifar10"), *runs([0.6, 0.61], [0.7, 0.7], data="cifar100")]
    for one in both:
        one["settings"]["weight"] = 100.0 if one["settings"]["method"] == "duet" else None
    first = judge(claims(data="cifar10")[0], both)
    assert {finding.outcome for finding in first.findings} == {Outcome.HOLDS, Outcome.NOT_TESTED}
    assert judge(claims(data="cifar100")[0], both).outcome is Outcome.REVERSED
    with pytest.raises(DuetError, match="one set of images"):
        judge(claims()[0], both)


@pytest.mark.skipif(not PAGE.exists(), reason="no study has been run yet")
def test_the_page_in_the_docs_is_what_its_records_give():
    assert PAGE.read_text() == draw(claims(), read_plain_records(RECORDS))


def test_mistakes_are_one_line(tmp_path, capsys):
    assert main([str(tmp_path / "nowhere"), "-o", str(tmp_path / "claims.md")]) == 2
    assert "is not a folder" in capsys.readouterr().err
    assert main([str(tmp_path), "-o", str(tmp_path / "claims.md")]) == 2
    assert "holds no records" in capsys.readouterr().err
    (tmp_path / "bad.json").write_text("{")
    assert main([str(tmp_path), "-o", str(tmp_path / "claims.md")]) == 2
    assert "cannot read the record" in capsys.readouterr().err
    assert not (tmp_path / "claims.md").exists()
    with pytest.raises(DuetError, match="there are paper, cpu"):
        claims("moon")
