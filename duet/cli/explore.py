"""duet explore"""

from __future__ import annotations

import argparse

from .command import Command, add_turns, whole


class Explore(Command):
    """A local page with a slider for g."""

    name = "explore"
    summary = "open a local page: pick an image, see P(g|x), move g (extra `explore`)"

    def add_arguments(self, parser: argparse.ArgumentParser, chosen: bool) -> None:
        """The model and how it is served."""
        parser.add_argument("model", metavar="RUN", help="a run's folder, or a model's name")
        parser.add_argument("--data", help="other images than the run's own")
        parser.add_argument("--port", type=whole(65535, least=1), help="default: the first free one from 7860")
        add_turns(parser)
        parser.add_argument("--no-browser", action="store_true", help="only serve the page")

    def run(self, args: argparse.Namespace) -> int:
        """Serve until interrupted."""
        from ..explorer import explore

        options = {"device": args.device, "turns": args.turns, "data": args.data}
        explore(args.model, args.port, browser=not args.no_browser, **options)
        return 0
