"""The page opens with what was learned, in words; what failed says so in the first line."""

from dataclasses import replace

import pytest

from duet.evaluation import Result
from duet.report.gathering import Run
from duet.report.judgement import open_with
from tests.making import make_results


def run(*results, **more):
    return Run("run", {"method": "duet"}, results={result.name: result for result in results}, **more)


def test_the_line_of_a_group_is_that_of_recovery():
    (line,) = open_with([run(*make_results())])
    assert (line.place, line.level, line.head) == (0, "learned", "Rotation: learned")
    assert line.text == (
        "Read to 9.0° [8.5° to 9.5°], where a linear probe of the pixels reaches 17.0°, of an untrained network 43.0° "
        "and ignoring the image 90.0°."
    )
    assert line.cause == ""


def test_without_recovery_it_is_that_of_the_classes():
    (line,) = open_with([run(make_results()[0])])
    assert line.level == "partly"
    assert line.head == "Classes: partly learned"
    assert line.text.replace("\N{NO-BREAK SPACE}", " ") == (
        "A linear classifier names the class of 90.0 % [88.0 % to 92.0 %] of the images, where one of the pixels "
        "reaches 95.0 %, of an untrained network 89.0 % and the most common class 25.0 %. Better: the pixels. "
        "Not clearly behind: an untrained network."
    )


def test_every_group_of_every_run_has_a_line_the_first_group_first():
    first, second = make_results()[1], make_results(title="hue")[1]
    lines = open_with([run(replace(second, name="recovery-hue"), first), run(first)])
    assert [(line.place, line.head) for line in lines] == [
        (0, "Rotation: learned"),
        (0, "Hue: learned"),
        (1, "Rotation: learned"),
    ]


def test_a_cause_that_two_groups_share_is_said_once():
    lost = replace(make_results()[1], intervals={"median_error_degrees": (9.0, 89.0)})
    one = replace(run(lost, replace(lost, name="recovery-hue")), config={"method": "duet", "weight": 0})
    assert [bool(line.cause) for line in open_with([one])] == [True, False]


def test_a_failed_run_says_so_first():
    result = make_results()[1]
    lost = {**result.scalars, "median_error_degrees": 84.5}
    ends = {"median_error_degrees": (80.0, 89.0)}
    (line,) = open_with([run(replace(result, scalars=lost, intervals=ends))])
    assert (line.level, line.head) == ("not", "Rotation: not learned")
    assert line.text.endswith("That is not clearly better than ignoring the image.")


@pytest.mark.parametrize(
    ("one", "head"),
    [(run(unfinished=True), "Not finished"), (run(), "Not measured")],
)
def test_what_is_not_there_is_said(one, head):
    assert [line.head for line in open_with([one])] == [head]


def test_a_strangers_numbers_cost_a_line_not_the_page():
    odd = Result("recovery", {"median_error_degrees": 9.0}, {}, {"unit": 5})
    assert open_with([run(odd, Result("own", {"value": 1.0}))]) == []
