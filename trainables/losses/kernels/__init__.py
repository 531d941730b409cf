"""The weighted kernel-sum engine: row and column sums of a surrogate over all pairs, without the pair matrix."""

from trainables.losses.kernels.means import hessian_product, mean_and_gradient
from trainables.losses.kernels.sums import column_sums, row_sums

__all__ = ["column_sums", "hessian_product", "mean_and_gradient", "row_sums"]
