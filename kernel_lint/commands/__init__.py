"""One module per sub-command: parse, call, report, return the exit code. Nothing else."""
