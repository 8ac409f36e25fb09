"""Every number stands beside its interval, its rivals and chance."""

from dataclasses import replace

from duet.evaluation.result import Scores
from duet.report.gathering import Run
from duet.report.table import MOST, numbers, overview
from tests.making import make_results

SPACE = "\N{NO-BREAK SPACE}"


def run(results, name="run"):
    return Run(name, results={result.name: result for result in results})


def texts(row):
    return [cell.text.replace(SPACE, " ") for cell in row.cells]


def test_one_run_has_a_row_for_every_claim():
    table = overview([run(make_results())])
    assert [head for head, _ in table.heads] == ["Verdict", "This run", "Pixels", "Untrained", "Chance"]
    rows = {row.head: row for row in table.rows}
    assert texts(rows["Recovery"]) == ["learned", "9.0°", "17.0°", "43.0°", "90.0°"]
    assert texts(rows["Classification"]) == ["partly", "90.0 %", "95.0 %", "89.0 %", "25.0 %"]
    assert [cell.note for cell in rows["Recovery"].cells] == ["", "[8.5° to 9.5°]", "worse", "worse", ""]
    assert [cell.note for cell in rows["Classification"].cells[2:4]] == ["better", "as good"]
    assert rows["Retrieval"].cells[2].text == "–"  # no rival was measured
    assert rows["Recovery"].help == "median error, degrees; lower is better"


def test_of_several_runs_the_best_of_a_column_is_marked_rivals_included():
    table = overview([run(make_results(), "a"), run(make_results()[:1], "b")])
    assert [row.head for row in table.rows] == ["a", "b", "Pixels", "Untrained", "Chance"]
    best = [[row.head for row in table.rows if row.cells[column].strong] for column in range(len(table.heads))]
    assert best == [["Pixels"], ["a"], []]  # who is alone is not the best of anything


def test_rivals_that_differ_between_runs_are_all_shown():
    first, second = make_results()[0], make_results()[0]
    second = replace(second, rivals={"pixels": Scores({"logistic": 0.97})})
    table = overview([run([first], "a"), run([second], "b")])
    pixels = next(row for row in table.rows if row.head == "Pixels")
    assert texts(pixels) == ["95.0 % / 97.0 %"]
    assert pixels.cells[0].sort == 0.97


def test_the_numbers_of_an_evaluation_with_interval_rivals_and_chance():
    main, rest = numbers([run(make_results())], "recovery")
    assert [head for head, _ in main.heads] == ["Value", "95 % interval", "Pixels", "Untrained", "Chance"]
    rows = {row.help: texts(row) for row in main.rows}
    assert rows["median_error_degrees"] == ["9.0°", "8.5° to 9.5°", "–", "–", "90.0°"]
    assert rows["probe_median_error_degrees"] == ["12.0°", "–", "17.0°", "43.0°", "90.0°"]
    assert "constant_median_error_degrees" not in rows
    assert "constant_median_error_degrees" in {row.help for row in rest.rows}


def test_a_few_numbers_are_shown_and_the_others_fold():
    result = make_results()[1]
    many = {**result.scalars, **{f"median_error_degrees_{k}": 1.0 for k in range(20)}}
    main, rest = numbers([run([replace(result, scalars=many)])], "recovery")
    assert len(main.rows) == MOST
    assert len(main.rows) + len(rest.rows) == len(many)


def test_several_runs_have_a_column_each_with_the_interval_below():
    main, _ = numbers([run(make_results(), "a"), run(make_results(), "b")], "recovery")
    assert [head for head, _ in main.heads] == ["a", "b", "Pixels", "Untrained", "Chance"]
    assert main.rows[0].cells[1].note == "8.5° to 9.5°"


def test_no_absurd_figures():
    result = make_results()[1]
    errors = {"error_prescribed": 249.4, "error_fitted": 0.1}
    odd = replace(result, name="equivariance", scalars=errors, intervals={"error_prescribed": (200.0, 300.0)})
    main, _ = numbers([run([odd])], "equivariance")
    assert texts(main.rows[0]) == ["worse than no action", "–", "–", "–", "1.000"]


def test_where_there_are_several_groups_each_row_says_its_own():
    first, second = make_results()[1], replace(make_results(group="hue")[1], name="recovery-hue")
    assert [row.head for row in overview([run([first, second])]).rows] == ["Recovery: rotation", "Recovery: hue"]
    assert [row.head for row in overview([run([first])]).rows] == ["Recovery"]


def test_a_strangers_result_is_shown_as_it_is():
    table = overview([run([])])
    assert table.rows == []


def test_what_was_not_reported_has_a_row_of_dashes_and_the_others_keep_theirs():
    whole = make_results()[0]
    scalars = {key: value for key, value in whole.scalars.items() if key != "logistic"}
    failed = replace(whole, scalars=scalars, provenance={"missing": {"logistic": "it did not converge"}}, rivals={})
    main, _ = numbers([run([failed])], "classification")
    assert set(next(texts(row) for row in main.rows if row.help == "logistic")[:2]) == {"–"}
    table = overview([run([whole], "a"), run([failed], "b")])
    assert [texts(row)[0] for row in table.rows[:2]] == ["90.0 %", "–"]
    main, _ = numbers([run([whole], "a"), run([failed], "b")], "classification")
    assert next(texts(row) for row in main.rows if row.help == "logistic")[:2] == ["90.0 %", "–"]
