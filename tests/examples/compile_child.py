"""Compile one example for every shape, in a process of its own: LLVM ends the process on some faults.

Usage: compile_child.py WORKSPACE DUMPS. The environment sets COMPILE_ONLY, ARCH and FLYDSL_DUMP_IR;
FlyDSL's dumps for each shape land in DUMPS/<shape>. Where linking fails, the assembly of
the last stage before it is written to DUMPS/<shape>/assembly.mlir instead.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path


def main(workspace: Path, dumps: Path) -> None:
    sys.path.insert(0, str(workspace))
    spec = importlib.util.spec_from_file_location("example_input", workspace / "input.py")
    task = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(task)
    from flydsl.compiler.diagnostics import DSLCompileError
    from kernel import Model

    for shape, kwargs in json.loads((workspace / "shapes.json").read_text("utf-8")).items():
        os.environ["FLYDSL_DUMP_DIR"] = str(dumps / shape)
        model, inputs = Model(**kwargs["init_kwargs"]), task._make_inputs(**kwargs["input_kwargs"])
        try:
            model(**inputs)
        except DSLCompileError as error:
            if "lld" not in str(error):
                raise
            write_assembly(dumps / shape)


def write_assembly(dump: Path) -> None:
    from flydsl._mlir.passmanager import PassManager
    from flydsl.compiler import jit_function

    (last,) = dump.glob("*/*_reconcile_unrealized_casts.mlir")
    with jit_function._create_mlir_context():
        module = jit_function.ir.Module.parse(last.read_text("utf-8"))
        PassManager.parse("builtin.module(gpu-module-to-binary{format=isa})").run(module.operation)
        (dump / "assembly.mlir").write_text(module.operation.get_asm(), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
