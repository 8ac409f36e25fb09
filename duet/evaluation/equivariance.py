"""Does T_g do to features what tau_g does to images? One normalised error with its guard, and the paper's map."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..device import widest
from ..domain import Interval, Topology, as_domain
from ..representation import ACTIONS, Action, Axis, FittedAction, Layout, Prescribed
from .context import Context, Orbit, Sweep
from .evaluation import PERCENT, Claim, Evaluation, register_evaluation
from .grid import elements_and_between
from .result import Array, Result
from .subject import axis_of
from .wording import percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BINS = 8  # for features without a table: what counts as near the diagonal, as in the paper's tables
CHUNK = 64_000_000  # numbers of moved features held at a time


@register_evaluation
class Equivariance(Evaluation):
    """What is left of |f(tau_goal x) - f(tau_start x)|^2 after T has moved f(tau_start x), from turned starts.

    Beside it the paper's map, which starts from untouched images: mean |f(tau_g1 x) - T_g2 f(x)|^2 over a grid of g1
    (rows) and g2 (columns), on z and on the group logits. An untouched image is sharper than any transformed one, so
    what starts there, `..._untouched`, measures sharpness too.
    """

    name = "equivariance"
    order = 30
    title = "Equivariance"
    question = "Can features be moved as the transformation moves the image?"
    shown = (
        *(f"error_{action.name}" for action in ACTIONS),
        *("error_*_other_classes", "sensitivity", "error_*_untouched"),
        *("row_minimum_within_one_bin*", "chance_row_minimum"),
    )
    baselines = ("chance_*",)
    words = {
        **{action.name: action.title for action in ACTIONS},
        "other_classes": "fitted on other classes",
        "untouched": "from the untouched image",
        "logits": "on group logits",
        "chance": "by chance",
    }
    captions = {
        "equivariance": "How far (squared) the features of an image that was transformed by the value on the left lie "
        "from the features of the untouched image, moved to the value below. Dark along the diagonal, with the dots on "
        "it: moving features does what transforming the image does. Dots are the nearest of each row.",
    }

    def measure(self, context: Context) -> Result:
        """The error of every action over that of standing still, and the paper's maps."""
        orbit = context.orbit()
        scalars: dict[str, float] = {}
        still = moved_distances(orbit)  # (n-1, N)
        draw = context.bootstrap(still.shape[1])
        intervals: dict[str, tuple[float, float]] = {}
        for kind, action in context.actions.items():
            left = moved_distances(orbit, action)
            scalars[f"error_{kind}"] = _ratio(left, still)
            if still.sum() > 0:
                intervals[f"error_{kind}"] = draw.ratio(left.T, still.T)
        for key, value in _foreign_errors(context, orbit).items():
            scalars[f"error_{key}_other_classes"] = value
        apart = mean_square_distance(orbit.at_start()[1])
        scalars["sensitivity"] = float(still.mean()) / apart if apart > 0 else 0.0
        numbers, arrays, bins = _paper_map(context)
        return Result("equivariance", scalars | numbers, arrays, {"bins": bins}, intervals)

    def summary(self, result: Result) -> dict[str, str]:
        """The errors, the guard, and the paper's measure of its map."""
        rows = {f"error_{a.name}": f"equivariance error, {a.title} (no action: 1)" for a in ACTIONS}
        rows["error_fitted_other_classes"] = "  the fitted action, fitted on other classes"
        rows["sensitivity"] = "  sensitivity (near 0: the features do not move)"
        rows["row_minimum_within_one_bin"] = "  rows of the paper's map with their minimum in the right place"
        return {key: text for key, text in rows.items() if key in result.scalars}

    def claim(self, result: Result) -> Claim | None:
        """The fitted action leaves less than no action does."""
        words = {"what": "moving features", "blind": "no action"}
        words["says"] = "moved by the fitted action, features miss their goal by {} of the way to it (squared)"
        return Claim(f"error_{FittedAction.name}", False, 1.0, unit=PERCENT, **words)

    def chance(self, key: str, result: Result) -> float | None:
        """What no action leaves; of rows of the map, what a random place in them gives."""
        if key.startswith("row_minimum"):
            return result.scalars.get("chance_row_minimum")
        return 1.0 if key.startswith("error_") else None

    def measured(self, key: str) -> str:
        """The same for every action, and on features and group logits."""
        found = ("row_minimum", "error", "diagonal_contrast", "sensitivity")
        return next((name for name in found if key.removeprefix("chance_").startswith(name)), key)

    def text(self, key: str, value: float) -> str:
        """Beyond 1 the size of an error says nothing."""
        return "worse than no action" if key.startswith("error_") and value > 1 else super().text(key, value)

    def figures(self, result: Result) -> dict[str, Figure]:
        """The maps."""
        return {"equivariance": draw_equivariance(result)}

    def sentence(self, result: Result) -> str:
        """How much of the distance is left, beside no action, and whether the features move at all."""
        s = result.scalars
        left = [f"{a.title} leaves {_left(s[f'error_{a.name}'])}" for a in ACTIONS if f"error_{a.name}" in s]
        text = ", ".join(left[:-1]) + f" and {left[-1]}" if len(left) > 1 else left[0]
        guard = "" if s["sensitivity"] > 0.05 else " Beware: these features hardly move, so any action looks good."
        return (
            f"Of the squared distance between two transformed copies of an image, {text}. Transforming an image moves "
            f"its features {s['sensitivity']:.2g} times as far (squared) as taking another image does.{guard}"
        )


def moved_distances(orbit: Orbit, action: Action | None = None) -> Tensor:
    """|T f(tau_start x) - f(tau_goal x)|^2 for all goals of every image; without an action T = 1: (n-1,N), CPU."""
    goals = orbit.goals()
    start, z = orbit.at_start()
    rows = torch.arange(len(start), device=start.device)
    parts = []
    for places in goals:
        moved = z if action is None else action.carry(z, start, orbit.g[places, rows])
        parts.append((moved - orbit.z[places, rows]).square().sum(1))
    return torch.stack(parts).cpu().double()


def distance_maps(sweep: Sweep, action: Action, layout: Layout, axis: Axis | None) -> dict[str, Tensor]:
    """The maps (n,m) on "z" and, where there is a table, on its "logits", on the CPU; a chunk of images at a time."""
    n, images, dim = sweep.z.shape
    totals: dict[str, Tensor] = {}
    for rows in torch.split(torch.arange(images), max(1, CHUNK // (2 * n * dim))):
        reached, moved = sweep.z[:, rows], action.orbit(sweep.base[rows], sweep.group.identity, sweep.g)
        pairs = {"z": (reached, moved)}
        if axis is not None:
            pairs["logits"] = (_logits(reached, layout, axis), _logits(moved, layout, axis))
        for where, (left, right) in pairs.items():
            part = distance_map(left, right).cpu() * (len(rows) / images)
            totals[where] = totals[where] + part if where in totals else part
    return totals


def distance_map(left: Tensor, right: Tensor) -> Tensor:
    """mean over N of |left_i - right_j|^2 = |a|^2 + |b|^2 - 2 ab: (n,N,D), (m,N,D) -> (n,m), in float64."""
    # Around a common centre the three terms are not much larger than their sum, so float32 products are enough.
    centre = left.mean(0)
    a, b = ((side - centre).flatten(1) for side in (left, right))
    wide = widest(a)
    squares = a.square().sum(1, dtype=wide).unsqueeze(1) + b.square().sum(1, dtype=wide)
    return (squares - 2 * (a @ b.T).to(wide)).clamp(min=0) / left.shape[1]


def row_minimum(table: Tensor, g: Tensor) -> Tensor:
    """The g2 at which every row of a map over (g, g) is smallest: (n,n), (n,) -> (n,)."""
    return g[table.argmin(1)]


def share_within(found: Tensor, true: Tensor, cyclic: Topology, window: float) -> float:
    """Share of found elements at most `window` from the true ones: (n,), (n,) -> number."""
    return float((as_domain(cyclic).distance(found, true) <= window + 1e-6).double().mean())


def diagonal_contrast(table: Tensor) -> float:
    """1 - mean of the diagonal / mean of the map: 0 when the diagonal is like the rest, 1 when it is 0: (n,n)."""
    return float(1 - table.diagonal().mean() / table.mean()) if table.mean() > 0 else 0.0


def mean_square_distance(z: Tensor) -> float:
    """E |z - z'|^2 over two different rows, twice the total variance: (N,D) -> number."""
    return float(2 * z.to(widest(z)).var(0).sum()) if len(z) > 1 else 0.0


def draw_equivariance(result: Result) -> Figure:
    """The maps on z and on the group logits, for every action; a dot where each row is smallest."""
    from .. import figure as draw

    facts = result.provenance
    panels = [
        (f"map{where}{_suffix(action.name)}", f"{action.title.replace('T_g', '$T_g$')}, on {space}")
        for where, space in (("", "$z$"), ("_logits", "group logits"))
        for action in ACTIONS
        if f"map{where}{_suffix(action.name)}" in result.arrays
    ]
    columns = min(2, len(panels))
    rows_of_panels = -(-len(panels) // columns)
    figure = draw.new_figure(3.9 * columns, 3.3 * rows_of_panels)
    edges = draw.edges(draw.raw(result.arrays["g"], facts))
    axes = figure.subplots(rows_of_panels, columns, squeeze=False).flat
    for axis, (key, title) in zip(axes, panels, strict=False):
        shade = axis.pcolormesh(edges, edges, result.arrays[key], cmap="cividis", rasterized=True)
        rows = draw.raw(result.arrays["true_elements"], facts)
        found = draw.raw(result.arrays[key.replace("map", "row_minimum")], facts)
        axis.plot(edges[[0, -1]], edges[[0, -1]], color="white", lw=0.8, ls=(0, (4, 3)))
        axis.plot(found, rows, "o", ms=3.2, mfc=draw.ORANGE, mec="black", mew=0.4)
        share = result.scalars[f"row_minimum_within_one_bin{key.removeprefix('map')}"]
        axis.set_title(f"{title}\n{share:.0%} of row minima within one bin", fontsize=draw.FONT)
        axis.set_aspect("equal")
        draw.element_axis(axis.xaxis, facts)
        draw.element_axis(axis.yaxis, facts)
        axis.set(xlim=edges[[0, -1]], ylim=edges[[0, -1]])
        figure.colorbar(shade, ax=axis, shrink=0.85, label="mean squared distance")
    for axis in list(axes)[len(panels) :]:
        axis.set_axis_off()
    figure.supxlabel(f"$g_2$: features moved to, {draw.element_label(facts)}", fontsize=draw.FONT + 1)
    figure.supylabel(f"$g_1$: image transformed by, {draw.element_label(facts)}", fontsize=draw.FONT + 1)
    return figure


def _foreign_errors(context: Context, orbit: Orbit) -> dict[str, float]:
    """The error of every fitted action on images of classes that it was not fitted on."""
    left: dict[str, float] = {}
    still = 0.0
    for images, actions in context.foreign_actions:
        own = orbit.of(images.to(orbit.z.device))
        still += float(moved_distances(own).sum())
        for kind, action in actions.items():
            if kind != Prescribed.name:  # it is not fitted
                left[kind] = left.get(kind, 0.0) + float(moved_distances(own, action).sum())
    return {kind: value / still for kind, value in left.items()} if still > 0 else {}


def _paper_map(context: Context) -> tuple[dict[str, float], dict[str, Array], int]:
    """The maps of every action from the untouched image, and what is read off them."""
    subject, group = context.subject, context.group
    axis = axis_of(subject, group)
    g, true_elements = elements_and_between(group, context.sizes.sweep)
    rows = g[true_elements]
    sweep = context.sweep(group, g)
    window = 1 / (axis.bins if axis else BINS)
    scalars: dict[str, float] = {}
    arrays: dict[str, Array] = {"g": g.numpy()}
    moved = float((sweep.z - sweep.base)[true_elements].square().sum(2).mean())
    for kind, action in context.actions.items():
        for where, table in distance_maps(sweep, action, subject.layout, axis).items():
            suffix = ("_logits" if where == "logits" else "") + _suffix(kind)
            observed = table[true_elements][:, true_elements]
            near = row_minimum(observed, rows)
            scalars[f"row_minimum_within_one_bin{suffix}"] = share_within(near, rows, group.domain, window)
            scalars[f"diagonal_contrast{suffix}"] = diagonal_contrast(observed)
            arrays[f"map{suffix}"] = table.float().numpy()
            arrays[f"row_minimum{suffix}"] = near.numpy()
            if where == "z":
                error = float(observed.diagonal().mean()) / moved if moved > 0 else math.nan
                scalars[f"error_{kind}_untouched"] = error
    if group.elements is not None and isinstance(group.domain, Interval):
        scalars["last_tenth"] = _last_tenth(sweep)
    apart = mean_square_distance(sweep.base)
    scalars["sensitivity_untouched"] = moved / apart if apart > 0 else 0.0
    beside = group.domain.distance(rows.unsqueeze(1), rows.unsqueeze(0)) <= window + 1e-6
    scalars["chance_row_minimum"] = float(beside.double().mean())
    arrays["true_elements"] = rows.numpy()
    return scalars, arrays, round(1 / window)


def _last_tenth(sweep: Sweep) -> float:
    """Which share of the squared distance from the first element to the last is gained in the last tenth of g.

    Features in proportion to g would gain 0.19.
    """
    way = (sweep.z - sweep.z[0]).square().sum(2).mean(1)  # (n,)
    before = (sweep.g - (0.9 * sweep.g[-1] + 0.1 * sweep.g[0])).abs().argmin()
    return float(1 - way[before] / way[-1]) if way[-1] > 0 else math.nan


def _ratio(left: Tensor, still: Tensor) -> float:
    return float(left.sum() / still.sum()) if still.sum() > 0 else math.nan


def _left(error: float) -> str:
    """An error in words; beyond 1, doing nothing would have been better."""
    return percent(error) if error <= 1 else "more than no action would"


def _suffix(kind: str) -> str:
    """The plain names are those of the paper's map."""
    return "" if kind == Prescribed.name else f"_{kind}"


def _logits(z: Tensor, layout: Layout, axis: Axis) -> Tensor:
    n, images, dim = z.shape
    return layout.group_logits(z.reshape(n * images, dim), axis).reshape(n, images, axis.bins)
