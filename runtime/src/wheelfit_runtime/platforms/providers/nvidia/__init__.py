"""NVIDIA's GPUs: the CUDA versions of the driver, and the code that the GPUs run."""
