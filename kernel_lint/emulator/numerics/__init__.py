"""What AMD's instructions compute, as pure functions on torch tensors: no MLIR, no state, any device.

formats: floating-point and integer formats. packing: fields of registers. conversions: the conversion
instructions. lanes, dpp: moves between the lanes of a wave. mfma, mfma_table: the matrix instructions.
"""
