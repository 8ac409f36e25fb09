"""The rooms of the package: imports go downward only."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "duet"

# Lowest first. A room may import rooms of a lower level, and itself.
LEVELS = [
    {"allocator", "file"},
    {"groups", "representation", "objectives"},
    {"networks", "actions", "checkpoint"},
    {"methods", "data"},
    {"experiment"},
    {"hub", "card"},
    {"artifact"},
    {"evaluation", "pretraining", "application", "export", "sklearn"},
    {"reproduction"},
    {"report", "explorer"},
    {"commands"},
    {"cli"},
]
LEVEL = {room: level for level, rooms in enumerate(LEVELS) for room in rooms}
# Rooms of one level that never import each other are listed apart; so are method files.
LIGHTNING = {"pretraining", "evaluation"}
DRAWING = {"report", "explorer", "reproduction"}


def modules():
    return sorted(p for p in PACKAGE.rglob("*.py"))


def room_of(path):
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return parts[0]


def imported(path):
    """Absolute dotted names that a module imports, also inside functions."""
    package = ("duet", *path.relative_to(PACKAGE).parts[:-1])
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name
        elif isinstance(node, ast.ImportFrom):
            base = list(package[: len(package) - node.level + 1]) if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield module
            if module in ("duet", "duet.methods"):
                for alias in node.names:
                    yield f"{module}.{alias.name}"


def violations(path, names):
    room = room_of(path)
    for name in names:
        top, *rest = name.split(".")
        if top == "torchvision":
            yield f"{path}: imports torchvision"
        if top in ("lightning", "pytorch_lightning") and room not in LIGHTNING:
            yield f"{path}: imports Lightning"
        if top in ("matplotlib", "jinja2", "gradio") and room not in DRAWING:
            yield f"{path}: imports {top}"
        if top != "duet" or not rest or rest[0] not in LEVEL or room == "__init__":
            continue
        target = rest[0]
        if target != room and LEVEL[target] >= LEVEL[room]:
            yield f"{path}: {room} must not import {target}"
        method_file = room == "methods" and path.stem not in ("method", "__init__")
        if method_file and target == "methods" and rest[1:] and rest[1] not in ("method", "Method", "Views"):
            yield f"{path}: a method must not import another method"


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_go_downward(path):
    assert room_of(path) in LEVEL or room_of(path) == "__init__", f"{path} is in no room of the design"
    assert list(violations(path, imported(path))) == []


@pytest.mark.parametrize(
    ("room", "name"),
    [
        ("groups/views.py", "duet.representation.target"),
        ("representation/layout.py", "duet.groups"),
        ("methods/duet.py", "duet.methods.simclr"),
        ("experiment.py", "lightning"),
        ("data/sources.py", "torchvision.transforms"),
        ("artifact.py", "duet.training"),
    ],
)
def test_the_import_check_can_fail(room, name):
    assert list(violations(PACKAGE / room, [name]))
