"""Where other programs call kernel-lint: flake8, editors, coding agents, validators of pyproject.toml."""
