"""DUET: 2D structured and approximately equivariant image representations."""
