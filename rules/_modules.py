"""Packages by what a candidate would import them for; each belongs to one rule."""

from __future__ import annotations

# KL204: other kernel languages and prebuilt operators.
FOREIGN = frozenset(
    """aiter apex bitsandbytes causal_conv1d composable_kernel cublas cudnn cudf cuml cupy cupyx cutlass cute deep_gemm
    deepspeed fla flash_attn flash_attn_interface flashinfer fbgemm_gpu hipblas hipblaslt hipsparse iree jax jaxlib
    keras liger_kernel lightllm mamba_ssm megablocks mlx mindspore mojo numba onnxruntime paddle pallas pycuda pyopencl
    quack rocblas sageattention sgl_kernel sglang taichi tensorflow tensorrt tensorrt_llm thunderkittens tilelang
    tinygrad tokenspeed transformer_engine triton triton_kernels trtllm tvm_ffi vllm warp xformers hidet helion
    transformers diffusers torchao torchvision torchaudio einops scipy sklearn pandas opt_einsum""".split()
)
# KL106: ways to build or load native code.
NATIVE = frozenset(
    "cffi pybind11 cppyy nanobind Cython pyximport hip pyhip nvrtc hiprtc tvm distutils setuptools ninja".split()
)
# KL107: tests, benchmarks, profilers.
TESTING = frozenset(
    "pytest hypothesis nose unittest doctest timeit cProfile profile pstats pyinstrument line_profiler".split()
)
# KL108: command lines and reports.
COMMAND_LINE = frozenset(
    "argparse click typer fire docopt optparse getopt absl hydra tyro simple_parsing".split()
)
REPORTING = frozenset("matplotlib seaborn plotly tabulate prettytable".split())
# KL102: printing with ornaments.
OUTPUT = frozenset("rich loguru tqdm icecream colorama termcolor pprint logging pdb ipdb pudb".split())
# KL105: the network.
NETWORK = frozenset("requests httpx aiohttp urllib3 boto3 huggingface_hub wget".split())
# What a candidate may import besides the standard library and its kernel language.
ALLOWED = frozenset({"torch", "numpy", "typing_extensions", "ml_dtypes"})
CLAIMED = FOREIGN | NATIVE | TESTING | COMMAND_LINE | REPORTING | OUTPUT | NETWORK
