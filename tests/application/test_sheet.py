"""The images that are most in need of a look, out of any number."""

import random
from pathlib import Path

from duet.application.sheet import Case, Sheet


def case(number, probability):
    return Case(Path(str(number)), Path(str(number)), 0.0, probability, True)


def test_the_least_sure_are_kept_in_order():
    values = [number / 1000 for number in range(1000)]
    random.Random(0).shuffle(values)
    sheet = Sheet(longest=50)
    for number, value in enumerate(values):
        sheet.add(case(number, value))
    assert [kept.probability for kept in sheet.cases] == sorted(values)[:50]
    assert sheet.seen == 1000


def test_of_equals_the_first_come_first():
    sheet = Sheet(longest=3)
    for number in range(5):
        sheet.add(case(number, 0.5))
    assert [str(kept.path) for kept in sheet.cases] == ["0", "1", "2"]


def test_what_has_no_probability_comes_first():
    sheet = Sheet()
    sheet.add(case(0, 0.1))
    sheet.add(case(1, float("nan")))
    assert [str(kept.path) for kept in sheet.cases] == ["1", "0"]
