"""AMD's GPUs and ROCm."""
