"""Matrix products by the fastest library on this processor.

On a CPU torch multiplies float32 by MKL, which on some processors has half the speed of oneDNN. Torch brings both.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor


def product(left: Float[Tensor, "m k"], right: Float[Tensor, "k n"]) -> Float[Tensor, "m n"]:
    """left @ right, without a gradient."""
    if left.dtype != torch.float32 or not _by_onednn(left) or 0 in (*left.shape, *right.shape):
        return left @ right
    found: Tensor = torch.ops.mkldnn._linear_pointwise(left, right.T, None, "none", [], "")
    return found


def laid_out(
    weight: Float[Tensor, "V D"], bias: Float[Tensor, " V"] | None, rows: int
) -> Callable[[Float[Tensor, "n D"]], Float[Tensor, "n V"]]:
    """features @ weight.T + bias in autocast's precision, as a function that is called again and again.

    The weight is laid out once, for calls with some `rows`.
    """
    dtype, device = weight.dtype, weight.device.type
    if torch.is_autocast_enabled(device) and dtype != torch.float64:
        dtype = torch.get_autocast_dtype(device)
    right, more = weight.detach().to(dtype), None if bias is None else bias.detach().to(dtype)
    if _by_onednn(right):
        right = torch.ops.mkldnn._reorder_linear_weight(right, rows)
        return lambda features: torch.ops.mkldnn._linear_pointwise(features.to(dtype), right, more, "none", [], "")
    return lambda features: torch.nn.functional.linear(features.to(dtype), right, more)


def _by_onednn(weight: Tensor) -> bool:
    """Whether oneDNN is here and computes in this precision."""
    if weight.device.type != "cpu" or not torch.backends.mkldnn.is_available():
        return False
    if not hasattr(torch.ops.mkldnn, "_linear_pointwise") or not hasattr(torch.ops.mkldnn, "_reorder_linear_weight"):
        return False
    supported = weight.dtype == torch.bfloat16 and torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return weight.dtype == torch.float32 or supported
