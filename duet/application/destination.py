"""Where copies go: below one folder, in the folders that they come from. Nothing that is there is written over."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path

from ..error import DuetError
from .files import Found


def check_report(report: Path, flag: str, files: list[Found]) -> None:
    """A report is a file, and none of the inputs."""
    if report.is_dir():
        raise DuetError(f"{report} is a folder; give a file's name")
    # What is not there yet is none of them.
    if report.exists() and any(file.path.exists() and file.path.samefile(report) for file in files):
        raise DuetError(f"{report} is one of the inputs; choose another {flag}")


def check_apart(reports: Mapping[str, Path | None], copies: Collection[Path] = ()) -> None:
    """No report goes where a copy goes, nor another report."""
    taken: dict[Path, str] = dict.fromkeys(copies, "a copy")
    for flag, report in reports.items():
        if report is not None:
            other = taken.setdefault(report.resolve(), flag)
            if other != flag:
                raise DuetError(f"{report} is the place of {other} too; choose another {flag}")


def plan_copies(files: list[Found], folder: Path) -> dict[Found, Path]:
    """Where each copy goes. No original is written over, nor anything else, and no two copies go to one place."""
    root = folder.resolve()
    for file in files:
        if file.path.resolve().is_relative_to(root):
            raise DuetError(f"{folder} contains the input {file.path}; choose another folder")
    several = len({file.folder for file in files if file.folder is not None}) > 1
    common = _common_folder(files)
    targets: dict[Found, Path] = {}
    taken: dict[Path, Path] = {}
    for file in files:
        if file.folder is None:
            place = Path(os.path.abspath(file.path)).relative_to(common)
        else:
            place = file.path.relative_to(file.folder)
        if several and file.folder is not None:
            # Each folder keeps its own name, so that a/1.png and b/1.png stay apart.
            place = Path(file.folder.resolve().name) / place
        target = root / place
        if taken.setdefault(target, file.path).resolve() != file.path.resolve():
            raise DuetError(f"{taken[target]} and {file.path} have one name; give them separately")
        if os.path.lexists(target):
            raise DuetError(f"{target} is there already, and nothing is written over; choose another folder")
        targets[file] = target
    return targets


def _common_folder(files: list[Found]) -> Path:
    """The folder that all files lie in which were named themselves: below it their own folders are kept."""
    named = [os.path.dirname(os.path.abspath(file.path)) for file in files if file.folder is None]
    return Path(os.path.commonpath(named)) if named else Path()
