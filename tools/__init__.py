"""The workbench: scripts around baseline workspaces, also reachable as sub-commands."""
