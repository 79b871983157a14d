"""PyTorch made ready for a job: one thread, deterministic kernels, the device that is asked for."""

import os

import torch

from rlvr.errors import UserError


def prepare_torch(device: str) -> torch.device:
    """One thread, deterministic kernels, and the device that a `device` setting means.

    Raises a `UserError` where CUDA is asked for and there is none.
    """
    torch.set_num_threads(1)  # sums are then added in one order, and jobs share cores fairly
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS needs it for that
    # What torch.use_deterministic_algorithms(True) does, without importing the compiler for it.
    torch.set_deterministic_debug_mode("error")
    torch.utils.deterministic.fill_uninitialized_memory = False  # we read none
    if device == "cuda" and not torch.cuda.is_available():
        raise UserError(
            "device is 'cuda', but PyTorch finds no CUDA device here. Use 'cpu' or 'auto'."
        )
    if device == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    # The fused attention kernels of CUDA add gradients in any order; the plain one does not.
    torch.backends.cuda.enable_flash_sdp(False)
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    torch.backends.cuda.enable_cudnn_sdp(False)
    return torch.device("cuda")
