"""YAML of plain values, from anybody: no tags but YAML's own, not nested deeply, and every mistake with its line."""

from __future__ import annotations

import math
from typing import Any

import yaml

DEEPEST = 50
"""Brackets within brackets; a study needs five. PyYAML's time grows with the square of them."""
MOST_VALUES = 100_000
"""In a file, those that stand for others counted as often as they stand: a few lines could ask for all memory."""
TOO_DEEP = f"nested deeper than {DEEPEST} levels"


class PlainLoader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML has no types
    """SafeLoader, which lets any error of Python's out where a value is not what its tag says: here it has a line."""

    depth = 0

    def fetch_flow_collection_start(self, kind: Any) -> None:
        """An opening bracket; the scanner reads many of them before the first is composed."""
        if self.flow_level >= DEEPEST:
            raise yaml.scanner.ScannerError(None, None, TOO_DEEP, self.get_mark())
        super().fetch_flow_collection_start(kind)

    def compose_node(self, parent: Any, index: Any) -> Any:
        """A node and all in it, unless it lies too deep."""
        self.depth += 1
        if self.depth > DEEPEST:
            mark = self.peek_event().start_mark
            raise yaml.composer.ComposerError(None, None, TOO_DEEP, mark)
        try:
            return super().compose_node(parent, index)
        finally:
            self.depth -= 1

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        """The value of a node: `!!bool 3` and `!!timestamp x` have none."""
        try:
            return super().construct_object(node, deep=deep)
        except (ValueError, LookupError, TypeError, AttributeError, OverflowError):
            kind = str(node.tag).rpartition(":")[2][:40]
            raise yaml.constructor.ConstructorError(None, None, f"a value that is no {kind}", node.start_mark) from None


def parse_yaml(text: str) -> Any:
    """The plain values of a text, counted before any of them is made; what it gets wrong is a yaml.YAMLError."""
    loader = PlainLoader(text)
    try:
        node = loader.get_single_node()
        if _values(node, {}) > MOST_VALUES:
            raise yaml.YAMLError(f"it stands for more than {MOST_VALUES:,} values; write fewer, or without anchors")
        return None if node is None else loader.construct_document(node)
    finally:
        loader.dispose()


def _values(node: Any, known: dict[int, float]) -> float:
    """How many values a node of YAML stands for; infinitely many where it holds itself."""
    if not isinstance(node, yaml.CollectionNode):
        return 1
    if id(node) not in known:
        known[id(node)] = math.inf
        # A mapping holds pairs of nodes, a list nodes.
        parts = (part for item in node.value for part in (item if isinstance(item, tuple) else (item,)))
        known[id(node)] = 1 + sum(_values(part, known) for part in parts)
    return known[id(node)]
