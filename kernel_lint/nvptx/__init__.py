"""Runs FlyDSL kernels on an NVIDIA GPU: the lowered IR is rewritten and becomes PTX, by FlyDSL's own LLVM.

FlyDSL lowers to AMD's operations. Those that have a meaning on any GPU are rewritten (:mod:`buffers`,
:mod:`waves`, :mod:`maths`); the rest is refused, naming the operation and its line. What runs is the same
kernel, with the same launches; how fast it is says nothing about an AMD GPU.

The emulator's hook stops FlyDSL's pipeline and its host interpreter runs the launcher; :mod:`session` takes
the place of emulation. A launch goes through ``cuda-bindings``; nothing is compiled but PTX.
"""
