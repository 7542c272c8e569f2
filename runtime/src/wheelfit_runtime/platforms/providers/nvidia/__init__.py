"""NVIDIA's GPUs: the driver and the CUDA versions that it runs, and the code that the GPUs run."""
