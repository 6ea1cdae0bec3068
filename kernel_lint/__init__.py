"""kernel-lint: lint, package and verify FlyDSL GPU kernels before they are handed in."""

__version__ = "0.1.0"

# Type checkers take this name for true. Importing typing for it, and for what only they read, would take
# as long as linting from the cache; the modules that a lint loads import it from here.
TYPE_CHECKING = False
