"""What the capacities of a spectrum add up to: dimensions that ignore the group, and dimensions that follow it."""

from __future__ import annotations

from .spectrum import Spectrum


def dimensions(spectrum: Spectrum) -> dict[str, float]:
    """Capacities by harmonic, and their sums; a plane of a harmonic has two dimensions."""
    capacity = {k: spectrum.capacity(k) for k in spectrum.harmonics}
    planes = sum(value for k, value in capacity.items() if not spectrum.is_real(k))
    lines = sum(value for k, value in capacity.items() if k > 0 and spectrum.is_real(k))
    return {
        **{f"capacity_{k}": value for k, value in capacity.items()},
        "invariant_dimensions": capacity.get(0, 0.0),
        "equivariant_planes": planes,
        "equivariant_dimensions": 2 * planes + lines,
    }
