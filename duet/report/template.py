"""The templates of all pages: whatever is put into them is escaped, and what is missing is an error."""

from __future__ import annotations

from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined


def open_templates() -> Environment:
    """Where pages find their templates."""
    return Environment(
        loader=PackageLoader("duet", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def read_part(name: str) -> str:
    """A style sheet or script that pages carry."""
    return (files("duet") / "templates" / name).read_text("utf-8")
