"""YAML of plain values, from anybody: no tags but YAML's own, not nested deeply, and every mistake with its line."""

from __future__ import annotations

from typing import Any

import yaml

DEEPEST = 50
"""Brackets within brackets; a study needs five. PyYAML's time grows with the square of them."""
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
