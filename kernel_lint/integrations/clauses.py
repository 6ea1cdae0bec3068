"""The output contract in one sentence a clause: what ``kernel-lint explain`` tells, what rules refer to."""

from __future__ import annotations

CLAUSES: dict[str, str] = {
    "F1": "The file is called generated_kernel.py and lies in the working directory.",
    "F2": "It is valid Python and nothing else: no Markdown fences, no prose around the code.",
    "F3": "It is one module: it imports and needs no other local file.",
    "F4": "Every import that it needs is in it.",
    "F5": "It defines `class Model(nn.Module)` at module level.",
    "F6": "`Model.__init__` takes the reference's initialization arguments.",
    "F7": "`Model.forward` takes the reference's inputs, named as the keys that `_make_inputs` returns.",
    "F8": "Every kernel, schedule and helper that it needs is in it, and nothing else.",
    "P1": "The main computation is FlyDSL kernels launched from `Model.forward`.",
    "P2": "PyTorch does set-up and glue only: allocation, views, indexing, metadata, launches.",
    "P3": "The reference is not called, instantiated, wrapped or fallen back to.",
    "P4": "No torch.compile, no torch.jit.",
    "P5": "No C++ extension is built or loaded.",
    "P6": "Lower precision inside is fine when the outputs pass at every shape.",
    "P7": "Masks, routing, indexing and output layout are the reference's.",
    "X1": 'No `if __name__ == "__main__"` block.',
    "X2": "No debug prints.",
    "X3": "No tests.",
    "X4": "No benchmarks, no profiling.",
    "X5": "No command lines, no reports.",
    "X6": "No explanatory prose, no Markdown.",
    "X7": "Nothing unfinished, no placeholders.",
    "X8": "No reads of files: shapes.json, input.py, profiles, reports, temporary files.",
    "X9": "`_make_inputs` is not defined again.",
    "X10": "No answers or settings keyed on the evaluator's exact shapes.",
}

EVALUATION = (
    "For each id of shapes.json, in order, while the step before passed: 1. the file imports, "
    "Model(**init_kwargs) builds, its kernels compile; 2. Model(**init_kwargs)(**inputs) matches the "
    "reference in structure, shapes, devices, dtypes, and values within tolerance, on inputs drawn under "
    "secret seeds; 3. faster is better."
)
