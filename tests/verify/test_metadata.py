from __future__ import annotations

import hashlib

from kernel_lint.verify.backends.metadata import read_assembly, read_gpu_binary, unescape

_BINARY = (
    'gpu.binary @kernels [#gpu.object<#rocdl.target<chip = "gfx942">, kernels = <['
    '#gpu.kernel_metadata<"first", !llvm.func<void (ptr<1>)>, metadata = {agpr_count = 4 : i64, '
    "group_segment_fixed_size = 2048 : i64, private_segment_fixed_size = 16 : i64, sgpr_count = 26 : i64, "
    "sgpr_spill_count = 1 : i64, vgpr_count = 128 : i64, vgpr_spill_count = 3 : i64}>, "
    '#gpu.kernel_metadata<"second", !llvm.func<void ()>, metadata = {vgpr_count = 8 : i64}>]>, '
    r'bin = "\7FELF\22\\x">]'
)
_ASSEMBLY = """
\t.amdgpu_metadata
---
amdhsa.kernels:
  - .agpr_count:     0
    .group_segment_fixed_size: 512
    .name:           alone
    .private_segment_fixed_size: 0
    .sgpr_count:     12
    .sgpr_spill_count: 0
    .vgpr_count:     20
    .vgpr_spill_count: 0
amdhsa.target:   amdgcn-amd-amdhsa--gfx942
...
\t.end_amdgpu_metadata
"""


def test_each_kernel_of_an_object_has_its_own_figures() -> None:
    first, second = read_gpu_binary(_BINARY, "gfx942")
    assert (first.kernel, first.vgprs, first.agprs, first.sgprs) == ("first", 128, 4, 26)
    assert (first.vgpr_spills, first.sgpr_spills, first.lds_bytes, first.scratch_bytes) == (3, 1, 2048, 16)
    assert first.code_sha256 == hashlib.sha256(b'\x7fELF"\\x').hexdigest()
    assert (second.kernel, second.vgprs, second.sgprs) == ("second", 8, None)


def test_assembly_has_the_same_figures_and_no_code() -> None:
    [kernel] = read_assembly(_ASSEMBLY, "gfx942")
    assert (kernel.kernel, kernel.vgprs, kernel.sgprs, kernel.lds_bytes) == ("alone", 20, 12, 512)
    assert kernel.code_sha256 is None


def test_an_operation_without_an_object_has_no_kernels() -> None:
    assert read_gpu_binary("gpu.binary @kernels []", "gfx942") == []
    assert read_assembly("s_endpgm", "gfx942") == []


def test_escapes() -> None:
    assert unescape(r"a\00\FF\\b\22") == b'a\x00\xff\\b"'
