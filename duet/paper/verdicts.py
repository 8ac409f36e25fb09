"""Every claim of the paper, judged by the runs that are there."""

from __future__ import annotations

from ..error import DuetError
from ..file import write_text
from .claim_page import draw, read_plain_records
from .claims import claims
from .reproduction import Reproduction, Request, register


@register
class Verdicts(Reproduction):
    """A page drawn from the records in the scale's folder; it computes nothing."""

    name = "claims"
    summary = "every claim of the paper, and what the finished runs say of it"

    def run(self, request: Request) -> None:
        """Read the records and write claims.md beside them."""
        if request.only or request.dry:
            raise DuetError("claims are drawn from what is finished, all at once: leave out --only and --dry-run")
        path = request.out / "claims.md"
        records = read_plain_records(request.out / "results")
        write_text(path, draw(claims(request.scale, "cifar10" if request.scale == "paper" else None), records))
        print(path)
