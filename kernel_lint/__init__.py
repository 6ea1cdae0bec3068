"""kernel-lint: lint, package and verify FlyDSL GPU kernels before they are handed in."""

__version__ = "0.1.0"
