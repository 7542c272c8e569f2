"""One implementation of `sums`; import `sums`, which takes the right one."""

from ._kernels import BUILT_FOR, dot

__all__ = ["BUILT_FOR", "dot"]
