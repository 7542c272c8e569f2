"""Build one of the implementations, which SUMS_BUILD names: the same source, other flags."""

import os

from setuptools import Extension, setup

FLAGS = {
    "generic": [],
    "avx2": ["-march=x86-64-v3"],
    "avx512": ["-march=x86-64-v4", "-mprefer-vector-width=512"],
}

build = os.environ.get("SUMS_BUILD", "generic")
package = f"sums_{build}"

setup(
    name=f"sums-{build}",
    version="1.0",
    description=f"Implementation of sums: {build}",
    python_requires=">=3.11",
    install_requires=["sums"],  # which people import, whatever they install
    # The same modules under a name of their own, so that any number fits into one environment.
    packages=[package, "wheelfit_implementations"],
    package_dir={package: "src/package", "wheelfit_implementations": "declarations"},
    package_data={"wheelfit_implementations": [f"sums-{build}.json"]},
    ext_modules=[
        Extension(
            f"{package}._kernels",
            ["src/kernels.c"],
            # `-ffast-math` allows the compiler to add in another order, hence in parallel.
            extra_compile_args=["-O3", "-ffast-math", *FLAGS[build]],
        )
    ],
    # Else the second build would find what the first one left.
    options={"build": {"build_base": f"build/{build}"}, "egg_info": {"egg_base": "."}},
)
