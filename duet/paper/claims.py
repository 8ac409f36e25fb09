"""Every claim of the paper that runs can decide, and the page that says what they decided.

`python -m duet.paper.claims FOLDER -o docs/results/claims.md` reads the records of a study, JSON files anywhere below
the folder, and draws the page from them alone.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..error import DuetError
from ..file import write_text
from .claim import Above, Cell, Claim, Near
from .claim_page import draw, read_plain_records

ROTATIONS = ("rot360", "rot4")
COLOURS = ("grayscale", "brightness", "contrast", "saturation", "hue")
GROUPS = ("scale", *ROTATIONS, "hflip", "vflip", *COLOURS)
SCALES = {
    # What a scale calls its accuracy, and its lambda: for these groups the first, for all others the second.
    "paper": ("classification/head", (*ROTATIONS, "vflip"), 1000.0, 10.0),
    "cpu": ("classification/logistic", (*ROTATIONS, "vflip", "scale"), 100.0, 10.0),
    "cifar": ("classification/logistic", (*ROTATIONS, "vflip"), 1000.0, 10.0),
}
GAINS = {
    **dict.fromkeys(ROTATIONS, ("caltech101", "cifar100", "dtd", "pets")),
    "hue": ("cifar100", "food101"),
    "grayscale": ("flowers102",),
}
"""The sets on which the paper reports that a group's structure helps; of round flowers, for one, it does not."""
SMALLER = {"dtd": "dtd10"}
"""Sets of which the small scale has a part, by its name."""
SIGMAS = (0.05, 0.1, 0.5, 1.0, 10.0)
BINS = (4, 16)


def claims(scale: str = "cpu", data: str | None = None) -> list[Claim]:
    """All of them, for the runs of a scale; of a study of several sets of images, for one of them."""
    if scale not in SCALES:
        raise DuetError(f"no scale {scale!r}; there are {', '.join(SCALES)}")
    accuracy, strong, high, low = SCALES[scale]

    def run(method: str, group: str, scalar: str = accuracy, **changes: Any) -> Cell:
        """A scalar of the run of a method and group with the scale's own settings, but for changes."""
        usual: dict[str, Any] = {"stack": "rrc", "sigma": 0.2, "bins": 8, "target": None, "options": {}}
        if data is not None:
            usual["data"] = data
        if method == "duet":
            usual["weight"] = high if group in strong else low
        return Cell(scalar, {"method": method, "group": group, **usual, **changes})

    def better(first: str, second: str, groups: Sequence[str], scalar: str = accuracy) -> tuple[Above, ...]:
        return tuple(Above(f"{group}", run(first, group, scalar), run(second, group, scalar)) for group in groups)

    def lambda_0(group: str, scalar: str = accuracy) -> Cell:
        return run("duet", group, scalar, weight=0.0)

    def own(group: str, scalar: str, least: float) -> Above:
        """A number of DUET's own run that must be above another."""
        return Above(group, run("duet", group, scalar), least, exact=True)

    def command(name: str) -> str:
        return f"duet reproduce {name} --scale {scale}"

    table = command("rrc-plus-one")
    sweep = command("sweeps")
    return [
        Claim(
            "duet-above-simclr",
            "DUET is above SimCLR for every group in RRC+1",
            "CIFAR-10 +1.75 % (grayscale), +2.8 % (hflip), 3 to 5 % (colours); CIFAR-100 rot4 47.25 against 35.52",
            better("duet", "simclr", GROUPS),
            table,
        ),
        Claim(
            "essl-below-simclr-colour",
            "ESSL is below SimCLR for colour transformations",
            "grayscale -12.8 %, brightness -4.3 %",
            better("simclr", "essl", COLOURS),
            table,
        ),
        Claim(
            "lambda-0-above-simclr",
            "DUET with lambda 0 is above SimCLR",
            "CIFAR-100, rotations and flips 39.17 against 36.06, colours 47.29 against 44.56",
            tuple(Above(group, lambda_0(group), run("simclr", group)) for group in GROUPS),
            table,
        ),
        Claim(
            "lambda-0-behind-duet",
            "DUET with lambda 0 stays behind DUET on rotations and vertical flip",
            "CIFAR-100 rot360 34.77 against 42.17",
            tuple(Above(group, run("duet", group), lambda_0(group)) for group in (*ROTATIONS, "vflip")),
            table,
        ),
        Claim(
            "flips",
            "Horizontal flip is ambiguous in the data, vertical flip is not",
            "Figure 5: two modes of P(g|x) against one",
            (
                Above(
                    "ambiguity, hflip above vflip",
                    run("duet", "hflip", "marginals/ambiguity"),
                    run("duet", "vflip", "marginals/ambiguity"),
                    factor=2.0,
                    exact=True,
                ),
            ),
            command("marginals"),
            percent=False,
        ),
        Claim(
            "diagonal",
            "The maps of distances are smallest on the diagonal",
            "Figure 2",
            tuple(own(group, "equivariance/row_minimum_within_one_bin", 0.9) for group in ("rot360", "rot4", "hue")),
            command("maps"),
            percent=False,
        ),
        Claim(
            "grayscale-jump",
            "Grey jumps: features stay as colour fades, and move at the very end",
            "Figure 2: constant, then a sudden jump close to 1",
            (own("grayscale", "equivariance/last_tenth", 0.5),),
            command("maps"),
            percent=False,
        ),
        Claim(
            "reconstruction",
            "A decoder's error is below SimCLR's and ESSL's",
            "66 % smaller than SimCLR's (rot4), 70 % smaller than ESSL's (grayscale)",
            tuple(
                Above(
                    f"{group}, {other}",
                    run(other, group, "reconstruction/error"),
                    run("duet", group, "reconstruction/error"),
                )
                for group in ("rot360", "rot4", "grayscale", "hue")
                for other in ("simclr", "essl")
            ),
            command("reconstruction"),
            percent=False,
        ),
        Claim(
            "transfer",
            "Structure for rotation and for colour helps on other sets",
            "rotation +21 % on Caltech-101, hue +7.13 % on CIFAR-100, grayscale +6.36 % on Flowers",
            tuple(
                Above(f"{group} to {name}", run("duet", group, scalar), run("simclr", group, scalar))
                for group, names in GAINS.items()
                for name in names
                for scalar in [f"transfer/{SMALLER.get(name, name) if scale == 'cpu' else name}/logistic"]
            ),
            command("transfer"),
        ),
        Claim(
            "dependence",
            "Content and group depend on each other on images, hardly on noise, not for random features",
            "Delta P 178 >> 0.015 >> 0.00075",
            tuple(
                Above(
                    f"{group}, {more} above {less}".replace("_", " "),
                    run("duet", group, f"dependence/delta_p_{more}"),
                    run("duet", group, f"dependence/delta_p_{less}"),
                    factor=10.0,
                    exact=True,
                )
                for group in ("rot360", "rot4", "hue")
                for more, less in (("images", "iid_pixels"), ("iid_pixels", "iid_features"))
            ),
            command("dependence"),
            percent=False,
        ),
        Claim(
            "sigma",
            "A sigma near 0.2 is best",
            "Figure 9: 0.2 is best of those tried",
            tuple(
                Above(f"{group}, 0.2 above {sigma:g}", run("duet", group), run("duet", group, sigma=sigma))
                for group in ("rot360", "hue")
                for sigma in SIGMAS
            ),
            sweep,
        ),
        Claim(
            "bins",
            "The number of columns G hardly matters",
            "less than 1 % between G = 2, 4, 8, 16",
            tuple(
                Near(f"{group}, 8 and {bins}", run("duet", group), run("duet", group, bins=bins), within=0.01)
                for group in ("rot360", "hue")
                for bins in BINS
            ),
            sweep,
        ),
        Claim(
            "lambda",
            "Colour wants lambda 10, rotation bears 1000",
            "Figure 10",
            (
                Above("hue, 10 above 1000", run("duet", "hue", weight=10.0), run("duet", "hue", weight=1000.0)),
                Above(
                    "rot360, 1000 above 10", run("duet", "rot360", weight=1000.0), run("duet", "rot360", weight=10.0)
                ),
            ),
            sweep,
        ),
        Claim(
            "von-mises",
            "On rotations a von Mises target is better than a Gaussian",
            "Figure 4",
            tuple(Above(group, run("duet", group), run("duet", group, target="gaussian")) for group in ROTATIONS),
            sweep,
        ),
        Claim(
            "cost-of-duet",
            "DUET trains as fast as SimCLR",
            "practically the same",
            (
                Near(
                    "rot4, step over SimCLR's",
                    run("duet", "rot4", "cost/duet/relative_seconds_per_step"),
                    1.0,
                    within=0.1,
                    exact=True,
                ),
            ),
            command("cost"),
            percent=False,
        ),
        Claim(
            "cost-of-essl",
            "ESSL takes twice as long on quarter turns",
            "2.01 times DUET's time",
            (
                Near(
                    "rot4, step over SimCLR's",
                    run("duet", "rot4", "cost/essl/relative_seconds_per_step"),
                    2.01,
                    within=0.25,
                    exact=True,
                ),
            ),
            command("cost"),
            percent=False,
        ),
        Claim(
            "axioms",
            "T_g satisfies the axioms of a group",
            "Appendix B",
            command="pytest tests/representation/test_prescribed.py",
            proof="tests/representation/test_prescribed.py",
        ),
        Claim(
            "bound",
            "The equivariance error is bounded, by a Lipschitz constant in closed form",
            "Appendix A",
            command="pytest tests/representation/test_bound.py",
            proof="tests/representation/test_bound.py",
        ),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw the page of a folder of records."""
    parser = argparse.ArgumentParser(prog="python -m duet.paper.claims", description="What runs say of the paper.")
    parser.add_argument("folder", type=Path, help="records of a study: JSON files anywhere below")
    parser.add_argument("-o", "--out", type=Path, required=True, help="the page, such as docs/results/claims.md")
    parser.add_argument("--scale", default="cpu", choices=list(SCALES), help="of the runs [%(default)s]")
    parser.add_argument("--data", help="the set of images, where a study has several")
    args = parser.parse_args(arguments)
    try:
        write_text(args.out, draw(claims(args.scale, args.data), read_plain_records(args.folder)))
    except (DuetError, OSError) as error:
        print(f"duet: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    print(f"written to {args.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
