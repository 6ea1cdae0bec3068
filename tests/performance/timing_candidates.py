"""Candidates that are right but cheat the timer, and honest ones, for a softmax of rows; torch modules.

Each hostile one says the reasons with which it may be refused.
"""

from __future__ import annotations

from dataclasses import dataclass

HEADER = "import threading\nimport time\n\nimport torch\nfrom torch import nn\n\n"
REFERENCE = """
class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1)
"""
INPUTS = """
def _make_inputs(rows, columns, dtype="float32"):
    return {"x": torch.randn(rows, columns).to(getattr(torch, dtype))}
"""


@dataclass(frozen=True, slots=True)
class Hostile:
    """A cheat, with the reasons of which one must be given; ``gpu`` needs a device with streams."""

    name: str
    source: str
    reasons: tuple[str, ...]
    gpu: bool = False


HOSTILE = (
    Hostile(
        "side_stream",
        """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.stream = torch.cuda.Stream()

    def forward(self, x):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            y = torch.empty_like(x)
            for _ in range(20):
                torch.softmax(x, dim=-1, out=y)
        return y
""",
        ("INVALID_TIMING", "TAMPERING", "VALUE", "NONDETERMINISTIC", "UNWRITTEN"),
        gpu=True,
    ),
    Hostile(
        "patched_event",
        """
torch.cuda.Event.elapsed_time = lambda self, other: 1e-3


class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1)
""",
        ("TAMPERING", "INVALID_TIMING"),
    ),
    Hostile(
        "patched_event_when_timed",
        """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        if self.calls > 12:
            torch.cuda.Event.elapsed_time = lambda self, other: 1e-3
            time.perf_counter = lambda: 0.0
        return torch.softmax(x, dim=-1)
""",
        ("TAMPERING", "INVALID_TIMING"),
    ),
    Hostile(
        "replayed_by_address",
        """
KEPT = {}


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        if self.calls > 10 and x.data_ptr() in KEPT:
            return KEPT[x.data_ptr()]
        KEPT[x.data_ptr()] = y = torch.softmax(x, dim=-1)
        return y
""",
        ("TAMPERING", "INVALID_TIMING", "VALUE"),
    ),
    Hostile(
        "first_call",
        """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls, self.kept = 0, None

    def forward(self, x):
        self.calls += 1
        if self.calls > 12 and self.kept is not None and self.kept.shape == x.shape:
            return self.kept
        self.kept = torch.softmax(x, dim=-1)
        return self.kept
""",
        ("TAMPERING", "INVALID_TIMING", "VALUE"),
    ),
    Hostile(
        "lazy_when_timed",
        """
class Later(torch.Tensor):
    pass


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        if self.calls > 12:
            return torch.empty_like(x).as_subclass(Later)
        return torch.softmax(x, dim=-1)
""",
        ("TAMPERING", "INVALID_TIMING", "RUNTIME_ERROR", "STRUCTURE"),
    ),
    Hostile(
        "thread",
        """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        if self.calls < 13:
            return torch.softmax(x, dim=-1)
        y = torch.empty_like(x)
        pause = 0.2

        def work():
            time.sleep(pause)
            y.copy_(torch.softmax(x, dim=-1))

        threading.Thread(target=work, daemon=True).start()
        return y
""",
        ("TAMPERING", "INVALID_TIMING", "VALUE", "NONDETERMINISTIC", "UNWRITTEN"),
    ),
    Hostile(
        "unwritten_when_timed",
        """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return torch.softmax(x, dim=-1) if self.calls < 13 else torch.empty_like(x)
""",
        ("TAMPERING", "INVALID_TIMING"),
    ),
)

HONEST = {
    "same": """
class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1)
""",
    "own_buffer": """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.buffer = None

    def forward(self, x):
        if self.buffer is None or self.buffer.shape != x.shape or self.buffer.dtype != x.dtype:
            self.buffer = torch.empty_like(x)
        torch.softmax(x, dim=-1, out=self.buffer)
        return self.buffer.clone()
""",
    "by_hand": """
class Model(nn.Module):
    def forward(self, x):
        wide = x.float()
        e = torch.exp(wide - wide.amax(dim=-1, keepdim=True))
        return (e / e.sum(dim=-1, keepdim=True)).to(x.dtype)
""",
}
