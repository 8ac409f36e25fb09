"""Tables come from records alone: means over seeds and nothing else, bold only where the lead exceeds its error."""

import csv
import io
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from duet.cli import main
from duet.error import DuetError
from duet.study.drawing import draw_table
from duet.study.form import as_csv, as_latex, as_markdown, number
from duet.study.record import Record, record_of
from duet.study.table import Cell, separable, tabulate

VALUES = {
    **{("simclr", "rot4"): (0.50, 0.51, 0.52), ("duet", "rot4"): (0.60, 0.61, 0.62)},
    **{("simclr", "hue"): (0.50, 0.55, 0.60), ("duet", "hue"): (0.51, 0.56)},
}
NAME = "classification/logistic"


def records(values=VALUES, **settings):
    for (method, group), numbers in values.items():
        for seed, value in enumerate(numbers):
            labels = {"method": method, "group": group, "seed": str(seed)}
            own = {"method": method, "group": [group], "seed": seed, "lr": 0.1, **settings}
            hashed = f"{seed:012d}"
            yield Record(f"{method}-{group}-seed{seed}", hashed, labels, own, ["classification"], "demo", {NAME: value})


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=6))
def test_a_cell_has_the_mean_and_the_deviation_of_its_seeds(values):
    cell = Cell.of(values)
    assert cell.mean == pytest.approx(statistics.fmean(values), abs=1e-9)
    assert cell.std == pytest.approx(statistics.stdev(values), rel=1e-6, abs=1e-9)
    assert cell.seeds == len(values)


@given(
    st.lists(st.floats(0, 1), min_size=2, max_size=5, unique=True),
    st.lists(st.floats(0, 1), min_size=2, max_size=5, unique=True),
)
def test_two_means_are_separable_where_welchs_test_says_so(first, second):
    if np.ptp(first) < 1e-3 or np.ptp(second) < 1e-3:
        return
    p = stats.ttest_ind(first, second, equal_var=False).pvalue
    if abs(p - 0.05) > 1e-6:
        assert separable(Cell.of(first), Cell.of(second)) == (p < 0.05)


def test_one_seed_is_never_separable():
    assert not separable(Cell(0.9), Cell(0.1))
    assert not separable(Cell(0.9), Cell(0.1, 0.01, 3))


def test_rows_columns_and_the_best_of_a_column():
    table = tabulate(records(), "method", "group", NAME).with_best()
    assert (table.rows, table.columns) == (("duet", "simclr"), ("hue", "rot4"))
    assert table.cells["duet", "rot4"].mean == pytest.approx(0.61)
    assert {place for place, cell in table.cells.items() if cell.best} == {("duet", "rot4")}
    lowest = tabulate(records(), "method", "group", NAME).with_best(lowest=True)
    assert {place for place, cell in lowest.cells.items() if cell.best} == {("simclr", "rot4")}


def test_an_order_that_is_asked_for_comes_first_and_numbers_go_by_size():
    order = {"method": ["simclr"]}
    assert tabulate(records(), "method", "group", NAME, order=order).rows == ("simclr", "duet")
    assert tabulate(records({("duet", "rot4"): [0.1] * 11}), "seed", "group", NAME).rows[:3] == ("0", "1", "2")


def test_what_differs_in_more_than_seeds_is_not_averaged():
    other = list(records({("duet", "rot4"): (0.7,)}, lr=0.2))
    with pytest.raises(DuetError, match=r"duet rot4 differ in lr.*--where lr=0\.2"):
        tabulate([*records(), *other], "method", "group", NAME)
    table = tabulate([*records(), *other], "method", "group", NAME, {"lr": "0.2"})
    assert table.cells == {("duet", "rot4"): Cell(0.7)}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("methods", "group", NAME), "no 'methods' .did you mean 'method'"),
        (("method", "group", "classification/logistics"), "did you mean 'classification/logistic'"),
        (("method", "group", NAME, {"group": "rot8"}), "no finished run is left"),
    ],
)
def test_what_is_not_there_is_said(arguments, message):
    with pytest.raises(DuetError, match=message):
        tabulate(records(), *arguments)


def test_a_value_that_could_not_be_measured_is_no_seed():
    rows = list(records({("duet", "rot4"): (0.5, 0.7, None)}))
    assert tabulate(rows, "method", "group", NAME).cells["duet", "rot4"].seeds == 2


def test_text_in_three_forms():
    table = tabulate(records(), "method", "group", NAME).with_best().times(100)
    markdown = as_markdown(table)
    assert "| duet | 53.50 ± 3.54 (2) | **61.00 ± 1.00** |" in markdown
    assert "over 3 seeds; (n): so many seeds only" in markdown
    latex = as_latex(table)
    assert "duet & 53.50\\textsubscript{3.54} (2) & \\textbf{61.00}\\textsubscript{1.00} \\\\" in latex
    read = list(csv.DictReader(io.StringIO(as_csv(table))))
    assert [(row["row"], row["column"], row["seeds"], row["best"]) for row in read] == [
        *(("duet", "hue", "2", "0"), ("duet", "rot4", "3", "1")),
        *(("simclr", "hue", "3", "0"), ("simclr", "rot4", "3", "0")),
    ]
    assert float(read[1]["mean"]) == pytest.approx(61)


@pytest.mark.parametrize(("value", "text"), [(0, "0.000"), (1.5, "1.500"), (61.2, "61.20"), (1e-5, "1.00e-05")])
def test_numbers_for_people(value, text):
    assert number(value) == text


def test_the_picture_has_a_point_for_every_cell():
    axes = draw_table(tabulate(records(), "method", "group", NAME)).axes[0]
    drawn = sorted(float(y) for line in axes.containers for y in line[0].get_ydata())
    assert drawn == pytest.approx(sorted(statistics.fmean(numbers) for numbers in VALUES.values()))


def test_the_command_draws_a_folder(tmp_path, capsys):
    for record in records():
        record.save(tmp_path)
    assert main(["study", "table", str(tmp_path), "--percent"]) == 0
    assert "**61.00 ± 1.00**" in capsys.readouterr().out
    assert main(["study", "table", str(tmp_path), "--format", "png", "--file", str(tmp_path / "t.png")]) == 0
    assert (tmp_path / "t.png").read_bytes().startswith(b"\x89PNG")
    assert main(["study", "table", str(tmp_path), "--format", "latex", "--file", str(tmp_path / "t.tex")]) == 0
    assert "\\toprule" in (tmp_path / "t.tex").read_text()
    assert main(["study", "table", str(tmp_path), "--format", "png"]) == 2
    assert "--file table.png" in capsys.readouterr().err
    assert main(["study", "table", str(tmp_path / "none")]) == 2


@pytest.mark.parametrize("value", ["much", [1], {}, 10**400])
@pytest.mark.parametrize("place", ["scalars", "seconds", "baselines"])
def test_a_record_with_what_is_no_number_is_refused(place, value):
    plain = next(iter(records())).to_dict()
    plain[place] = {"pixels": {NAME: value}} if place == "baselines" else {NAME: value}
    with pytest.raises(DuetError, match="does not hold a whole record"):
        record_of(plain, "a.json")
