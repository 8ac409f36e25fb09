"""The progress bar speaks only on a terminal and only after a while."""

import io
from types import SimpleNamespace

from rich.console import Console

from duet import progress


def run(monkeypatch, patience, terminal, **options):
    monkeypatch.setattr(progress, "PATIENCE", patience)
    output = io.StringIO()
    console = Console(file=output, force_terminal=terminal, width=120)
    parts = list(progress.track([(2, "a"), (3, "b")], 5, "decoding", console, **options))
    assert parts == ["a", "b"]
    return output.getvalue()


def test_short_work_is_silent(monkeypatch):
    assert "decoding" not in run(monkeypatch, 60.0, terminal=True)


def test_long_work_shows_how_far_it_is(monkeypatch):
    shown = run(monkeypatch, -1.0, terminal=True)
    assert "decoding" in shown
    assert "100%" in shown


def test_a_log_file_gets_no_bar(monkeypatch):
    assert run(monkeypatch, -1.0, terminal=False) == ""


def test_the_parts_of_a_loop_come_through_a_bar_and_without_one():
    for pass_through in (progress.with_bar, progress.without_bar):
        assert list(pass_through(["a", "b"], 2, "fitting")) == ["a", "b"]


def test_images_are_counted_by_the_second(monkeypatch):
    ticks = iter([0.0, 1.0, 1.0, 2.0, 2.0])
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: next(ticks)))
    shown = run(monkeypatch, -1.0, terminal=True, unit="images")
    assert "5/5" in shown
    assert "2 images/s" in shown
