"""A Ray cluster of two nodes on this machine, in a process of its own: ``python cluster.py FOLDER``.

Prints its address; a line on its input kills the second node, all its processes with SIGKILL; the end of
its input ends the cluster. Each node has room for one task. Everything it writes is below FOLDER.
"""

from __future__ import annotations

import os
import sys


def say(line: str) -> None:
    """Write a line for the test to read."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    """Start, serve, end."""
    folder = sys.argv[1]
    # The second keeps every socket on the loopback interface.
    os.environ.update(RAY_TMPDIR=folder, RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="0", RAY_USAGE_STATS_ENABLED="0")
    os.makedirs(os.path.join(folder, "ray"), exist_ok=True)
    from ray.cluster_utils import Cluster

    common = {
        "num_cpus": 1,
        "num_gpus": 0,
        "include_dashboard": False,
        "object_store_memory": 80 << 20,
        "node_ip_address": "127.0.0.1",
        "temp_dir": folder,
    }
    # A dead node is told from a slow one sooner than by default, and a starved one not taken for dead.
    system = {
        "health_check_initial_delay_ms": 0,
        "health_check_period_ms": 1000,
        "health_check_failure_threshold": 10,
    }
    cluster = Cluster(initialize_head=True, head_node_args={**common, "_system_config": system})
    second = cluster.add_node(**common)
    say(cluster.address)
    try:
        for _line in sys.stdin:
            cluster.remove_node(second, allow_graceful=False)
            say("killed")
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    main()
