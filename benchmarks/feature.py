"""Speed and memory of the feature side, as ratios measured side by side in one run."""

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from duet.objectives import jensen_shannon, nt_xent
from duet.representation import Axis, FittedAction, Gaussian, Table, VonMises, act, difference, shift


def median_ms(run: Callable[[], object], repeats: int) -> float:
    run()  # the first call fills caches
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return 1000 * statistics.median(times)


class Largest(TorchDispatchMode):
    """Bytes of the largest tensor that any operation makes: what a chunk is meant to bound."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        result = function(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else [result]:
            if isinstance(tensor, torch.Tensor):
                self.bytes = max(self.bytes, tensor.numel() * tensor.element_size())
        return result


def estimates(repeats: int) -> dict[str, float]:
    """10,000 marginals of 8 bins in float32, against 200 softmaxes of the same batch."""
    logits = torch.randn(10_000, 8)
    masses = logits.softmax(-1)
    budget = 200 * median_ms(lambda: logits.softmax(-1), max(repeats, 50))
    rows = {"200 softmaxes (10000, 8)": budget}
    for target in (Gaussian(0.2), VonMises(0.2)):
        rows[f"estimate {type(target).__name__} (10000, 8)"] = median_ms(lambda t=target: t.estimate(masses), repeats)
    return rows


def functions(repeats: int) -> dict[str, float]:
    """One training step's worth: 512 samples, 8 bins, 512 features."""
    g, p = torch.rand(512), torch.rand(512, 8).softmax(-1)
    rows = {}
    for target in (Gaussian(0.2), VonMises(0.2)):
        name = type(target).__name__
        layout = Table(64, Axis("a", 8, target))
        z = torch.randn(512, layout.dim)
        rows[f"masses {name} (512, 8)"] = median_ms(lambda t=target: t.masses(g, 8), repeats)
        rows[f"act {name} (512, 64 x 8)"] = median_ms(lambda z=z, x=layout: act(z, x, "a", g), repeats)
        rows[f"shift {name} (512, 64 x 8)"] = median_ms(lambda z=z, x=layout: shift(z, x, "a", g), repeats)
    rows["difference, circle (512, 8)"] = median_ms(lambda: difference(p, p, True), repeats)
    rows["jensen_shannon (512, 8)"] = median_ms(lambda: jensen_shannon(p, p), repeats)
    return rows


def contrasts(repeats: int, n: int = 1024, dim: int = 128) -> dict[str, float]:
    """nt_xent of n pairs, forward and backward, whole and in chunks."""
    first, second = torch.randn(2, n, dim, requires_grad=True).unbind()
    rows = {}
    for chunk in (None, 512, 128):
        name = f"nt_xent ({n}, {dim}), " + ("whole" if chunk is None else f"chunk {chunk}")

        def step(chunk: int | None = chunk) -> None:
            torch.autograd.grad(nt_xent(first, second, chunk=chunk), (first, second))

        rows[name] = median_ms(step, repeats)
        with Largest() as seen:
            step()
        rows[name + ", largest tensor MB"] = seen.bytes / 1e6
    return rows


def fits(repeats: int) -> dict[str, float]:
    """FittedAction.fit, order 3 on the circle, and its application to 512 samples."""
    rows = {}
    for dim, pairs in ((64, 24_000), (128, 24_000)):
        z, by = torch.randn(pairs, dim), torch.rand(pairs)
        to = z.roll(1, -1)
        rows[f"fit ({pairs}, {dim})"] = median_ms(lambda z=z, to=to, by=by: FittedAction.fit(z, to, by, True), repeats)
        action = FittedAction.fit(z, to, by, cyclic=True)
        rows[f"fitted (512, {dim})"] = median_ms(lambda a=action, z=z, by=by: a(z[:512], by[:512]), repeats)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="write the figures there, as JSON")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    rows: dict[str, float] = {}
    for part in (estimates, functions, contrasts, fits):
        rows |= part(options.repeats)
    for name, value in rows.items():
        print(f"{name:<48}{value:10.3f}" + ("" if name.endswith("MB") else " ms"))
    budget = rows["200 softmaxes (10000, 8)"]
    ratios = {k: v / budget for k, v in rows.items() if k.startswith("estimate")}
    for name, ratio in ratios.items():
        print(f"{name + ' / 200 softmaxes':<48}{ratio:10.3f}")
    if options.out:
        where = {"machine": platform.processor() or platform.machine(), "torch": torch.__version__}
        report = {**where, "threads": options.threads, "repeats": options.repeats, "figures": rows, "ratios": ratios}
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
