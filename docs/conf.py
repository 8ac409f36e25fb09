"""Documentation: the guide, and the API from its docstrings."""

import re

project = "duet"
copyright = "2026, the duet maintainers"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "show-inheritance": True}
autodoc_preserve_defaults = True
html_theme = "alabaster"
html_theme_options = {"description": "Image features that keep what was done to the image", "page_width": "1080px"}
html_title = "duet"
default_role = "literal"


def as_plain_text(app, what, name, obj, options, lines):
    """Docstrings are plain text with formulas: what reStructuredText would read as markup stays as it is written."""
    for number, line in enumerate(lines):
        parts = line.split("`")
        parts[::2] = [re.sub(r"([*|])|(?<=\w)(_)(?=\W|$)", r"\\\1\2", part) for part in parts[::2]]
        lines[number] = "`".join(parts)


def setup(app):
    app.connect("autodoc-process-docstring", as_plain_text)
