"""The line between glue and compute: what PyTorch names may stand on the path from ``forward``.

Glue is what the contract's clause P2 lists: allocation, reshape and view, indexing, data
movement, metadata, devices and launch orchestration. Everything else under ``torch`` that is
called with tensors is compute. The names are those of PyTorch 2.13; docs/glue-and-compute.md
is made from these tables, and the settings ``glue`` and ``compute`` move names over the line.
"""

from __future__ import annotations

from functools import lru_cache

ALLOCATION = frozenset(
    """empty empty_like empty_strided empty_permuted zeros zeros_like ones ones_like full full_like
    tensor as_tensor asarray from_numpy from_dlpack scalar_tensor arange linspace eye new_empty
    new_empty_strided new_zeros new_ones new_full new_tensor sparse_coo_tensor sparse_csr_tensor
    frombuffer""".split()
)
VIEWS = frozenset(
    """reshape reshape_as view view_as view_as_real view_as_complex flatten unflatten ravel transpose
    swapaxes swapdims t permute movedim moveaxis squeeze unsqueeze expand expand_as broadcast_to
    broadcast_tensors atleast_1d atleast_2d atleast_3d narrow select unbind split split_with_sizes chunk
    tensor_split vsplit hsplit dsplit as_strided diagonal unfold slice_scatter adjoint mT mH detach
    alias real imag T H data squeeze_ unsqueeze_ t_ transpose_ resolve_conj resolve_neg positional
    as_subclass requires_grad_ rename view_copy set_ resize_ resize_as_ sparse_mask""".split()
)
MOVEMENT = frozenset(
    """contiguous clone to type type_as cpu cuda float half bfloat16 double int long short char byte
    bool copy_ fill_ zero_ cat concat concatenate stack hstack vstack dstack column_stack index_select
    gather take take_along_dim index_copy_ index_copy index_put_ index_put masked_select scatter_
    scatter roll flip fliplr flipud rot90 repeat tile repeat_interleave pad pin_memory record_stream
    non_blocking to_dense to_sparse""".split()
)
METADATA = frozenset(
    """size numel nelement dim ndimension ndim shape stride storage_offset element_size itemsize nbytes
    data_ptr dtype device layout is_cuda is_cpu is_contiguous is_floating_point is_complex is_tensor
    is_storage is_nonzero is_sparse is_quantized is_leaf is_meta is_conj is_neg is_inference is_shared
    is_pinned is_same_size is_signed get_device untyped_storage storage storage_type item tolist numpy
    requires_grad grad grad_fn names has_names finfo iinfo Size Tensor device dtype result_type
    promote_types can_cast get_default_dtype is_grad_enabled is_inference_mode_enabled
    is_autocast_enabled broadcast_shapes Generator memory_format contiguous_format channels_last
    preserve_format strided version get_autocast_dtype typename register_hook _version __version__
    set_grad_enabled no_grad enable_grad inference_mode set_default_dtype compile
    set_float32_matmul_precision get_float32_matmul_precision manual_seed initial_seed _assert backward
    retain_grad __class__ __len__ __getitem__ __setitem__ __contains__ __iter__ __hash__ __repr__
    __format__ __int__ __float__ __bool__ __index__ sym_int sym_max sym_min""".split()
)
DTYPES = frozenset(
    """float64 float32 float16 bfloat16 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz
    float8_e8m0fnu float4_e2m1fn_x2 complex32 complex64 complex128 cfloat cdouble chalf uint8
    uint16 uint32 uint64 int8 int16 int32 int64 bits8 bits16 quint8 qint8 qint32 uint4 int4
    uint1 uint2 uint3 uint5 uint6 uint7""".split()
)
GLUE = DTYPES | ALLOCATION | VIEWS | MOVEMENT | METADATA
# Methods and attributes of a tensor whose result is no tensor.
HOST_RESULT = frozenset(
    """size numel nelement dim ndimension ndim shape stride storage_offset element_size itemsize nbytes
    data_ptr dtype device layout is_cuda is_cpu is_contiguous is_floating_point is_complex is_nonzero
    is_sparse is_quantized is_leaf is_meta is_conj is_neg is_inference is_shared is_pinned is_same_size
    is_signed get_device untyped_storage storage storage_type item tolist numpy requires_grad grad_fn
    names has_names equal _version __class__ __len__ __dict__ __bool__ __int__ __float__ __index__""".split()
)
# Functions of torch whose result is no tensor.
HOST_FUNCTIONS = METADATA | frozenset({"allclose", "equal", "set_printoptions", "numel"})
# Parts of torch that hold no operators on tensors.
SUPPORT = frozenset(
    """cuda device dtype version backends autograd _C utils cuda accelerator hip mps xpu cpu types
    typing random multiprocessing profiler compiler testing overrides serialization package hub library
    classes finfo iinfo storage amp futures monitor""".split()
)
# Namespaces under torch that hold nothing but operators.
COMPUTE_NAMESPACES = (
    "torch.nn.functional.",
    "torch.linalg.",
    "torch.fft.",
    "torch.special.",
    "torch.ops.",
    "torch.sparse.",
    "torch.signal.",
    "torch._C._nn.",
    "torch._C._linalg.",
    "torch._C._fft.",
    "torch._C._VariableFunctions.",
    "torch._C._special.",
    "torch.ao.",
    "torch.quantization.",
    "torch.masked.",
    "torch.nested.",
    "torch.func.",
    "torch.vmap",
    "torch.distributed.",
    "torch.distributions.",
    "torch.nn.attention.",
    "torch.nn.init.",
    "torch._VF.",
    "torch._refs.",
    "torch._prims.",
    "torch._decomp.",
    "torch.autograd.functional.",
    "torch.optim.",
    "torch.utils.checkpoint.",
    "torch.nn.utils.clip_",
    "torch.nn.utils.stateless.",
    "torch.nn.utils.parametrize.",
)
# Ways from a module to the modules inside it.
_SUBMODULES = frozenset("children modules named_children named_modules _modules get_submodule".split())
# What runs a layer.
_LAYER_CALLS = frozenset({"forward", "__call__", "_call_impl", "_wrapped_call_impl", "_slow_forward"})
# nn modules that hold weights or other modules and do nothing when kept.
HOLDERS = frozenset(
    """Parameter ParameterList ParameterDict Buffer ModuleList ModuleDict Identity
    UninitializedParameter""".split()
)
# Methods that only a tensor has: compute whatever is known of the object.
TENSOR_ONLY_METHODS = frozenset(
    """softmax log_softmax matmul mm bmm addmm baddbmm addbmm addmv mv einsum relu relu_ sigmoid
    sigmoid_ tanh_ gelu silu layer_norm rsqrt rsqrt_ cumsum cumprod logsumexp argmax argmin topk argsort
    msort clamp clamp_ clamp_min clamp_max masked_fill masked_fill_ addcmul addcdiv addcmul_ addcdiv_
    mul_ add_ sub_ div_ pow_ exp_ sqrt_ neg_ abs_ amax amin erf erfc erfinv lerp lerp_ nan_to_num
    bernoulli_ normal_ uniform_ index_add index_add_ scatter_add scatter_add_ scatter_reduce
    scatter_reduce_ tril triu tril_ triu_ where logical_and logical_or logical_not floor_divide
    true_divide square expm1 log1p log2 log10 exp2 heaviside hardshrink kthvalue bincount histc var std
    median mode nansum quantile cholesky inverse pinverse det logdet svd qr renorm outer cross kron
    trace ger vdot softmax_ hardtanh dropout_""".split()
)
# Methods that other objects have too: compute when the object may be a tensor.
SHARED_METHODS = frozenset(
    """sum mean prod max min abs neg pow exp log sqrt sin cos tan tanh floor ceil round trunc add sub
    mul div dot any all sort unique norm dist eq ne lt le gt ge fmod remainder reciprocal sign""".split()
)


@lru_cache(maxsize=8192)
def is_compute(
    path: str, *, glue: frozenset[str] = frozenset(), compute: frozenset[str] = frozenset()
) -> bool:
    """Tell whether a dotted path is a PyTorch operation that does the work of a kernel.

    ``glue`` and ``compute`` are full paths or bare names that the settings move over the line.
    """
    name = path.rpartition(".")[2]
    if path in compute or (name in compute and path.startswith("torch")):
        return True
    if path in glue or (name in glue and path.startswith("torch")):
        return False
    if path.startswith("operator."):
        return path in _OPERATORS
    if not path.startswith("torch."):
        return False
    if path.startswith(("torch.Tensor.", "torch._C.TensorBase.")):
        return name not in GLUE and not (name.startswith("__") and name not in TENSOR_DUNDERS)
    if path.startswith(COMPUTE_NAMESPACES):
        return name not in GLUE and "(" not in path and not name.startswith("__")
    if path.startswith("torch.nn."):
        return _is_layer_use(path)
    parts = path.split(".")
    if "(" in path:
        return False
    if path == "torch.autograd.grad":
        return True
    if len(parts) == 2:
        if name.startswith(("get_", "is_", "set_")):
            return False
        if name.startswith("_foreach_"):
            return True
        return name not in GLUE and name not in SUPPORT and not name.startswith("_") and name.islower()
    return False


def _is_layer_use(path: str) -> bool:
    """A layer that is called (``nn.Linear()()``) or whose forward is (``nn.Linear().forward``)."""
    rest = path[len("torch.nn.") :]
    layer, called, tail = rest.partition("()")
    if not called:
        # nn.Linear.forward(layer, x)
        owner, _, method = rest.rpartition(".")
        return method in _LAYER_CALLS and owner not in HOLDERS and owner[:1].isupper() and owner != "Module"
    if layer == "Module":
        return False
    # What a ModuleList or ModuleDict holds is a layer, whatever the holder is.
    if tail in ("[]()", "[].forward", "[].__call__") or tail.endswith(("().values()[]()", "().items()[]()")):
        return True
    return (tail == "()" or tail[1:] in _LAYER_CALLS) and layer.rpartition(".")[2] not in HOLDERS


@lru_cache(maxsize=2048)
def is_submodule(path: str) -> bool:
    """Tell whether a path is some module inside the model, which one the text does not show."""
    if not path.startswith("torch.nn.Module()."):
        return False
    name = path.split(".", 3)[3].partition("(")[0].partition("[")[0].partition(".")[0]
    return name in _SUBMODULES and path.endswith(("[]", "get_submodule()"))


@lru_cache(maxsize=8192)
def returns_tensor(path: str) -> bool:
    """Tell whether a dotted path (with its calls) is a tensor, as far as names tell."""
    if (path.startswith("torch.nn.") and path.endswith(".weight")) or path.endswith("().bias"):
        return True
    if not path.endswith("()"):
        return path.startswith("torch.nn.") and path.rpartition(".")[2] in ("weight", "bias", "data")
    called = path[:-2]
    name = called.rpartition(".")[2]
    if is_submodule(called):
        return True
    if called in ("torch.nn.Parameter", "torch.nn.Buffer"):
        return True
    if called.startswith(
        ("torch.cuda.", "torch.autograd.", "torch.backends.", "torch.utils.", "torch.random.")
    ):
        return False
    if called.startswith("torch.nn.") and not called.startswith("torch.nn.functional."):
        return called.endswith("()")
    if called.startswith("torch."):
        return name not in HOST_FUNCTIONS and (name.islower() or name == "Tensor") and name not in HOST_RESULT
    return False


_OPERATORS = frozenset(
    f"operator.{name}"
    for name in """matmul imatmul __matmul__ add iadd __add__ sub isub __sub__ mul imul __mul__ truediv
    itruediv
    __truediv__ floordiv ifloordiv pow ipow __pow__ neg __neg__ abs mod imod and_ or_ xor invert""".split()
)
# Operators as methods, which only a tensor among the host's objects is called with.
TENSOR_DUNDERS = frozenset(
    """__matmul__ __rmatmul__ __imatmul__ __add__ __radd__ __iadd__ __sub__ __rsub__ __isub__ __mul__
    __rmul__ __imul__ __truediv__ __rtruediv__ __itruediv__ __floordiv__ __pow__ __rpow__ __ipow__
    __neg__ __abs__ __mod__ __and__ __or__ __xor__ __invert__ __eq__ __ne__ __lt__ __le__ __gt__
    __ge__""".split()
)
