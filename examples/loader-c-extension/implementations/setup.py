"""Build one of the implementations, which SUMS_BUILD names: the same source, other flags."""

import os
from pathlib import Path

from setuptools import Extension, setup

FLAGS = {
    "generic": [],
    "avx2": ["-march=x86-64-v3"],
    "avx512": ["-march=x86-64-v4", "-mprefer-vector-width=512"],
}

build = os.environ.get("SUMS_BUILD", "generic")
package = f"sums_{build}"

# Each build sees the sources in a folder of its own, with the one declaration that is true of it.
# So of several editable installations each has what was compiled for it, and declares no other.
tree = Path("trees", build)
declaration = f"sums-{build}.json"
links = {f"{package}/{path.name}": path for path in Path("src/package").glob("*.py")}
links[f"wheelfit_implementations/{declaration}"] = Path("declarations", declaration)
for name, path in links.items():
    place = tree / name
    place.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and not place.exists():  # a source distribution has the files themselves
        place.symlink_to(path.resolve())

setup(
    name=f"sums-{build}",
    version="1.0",
    description=f"Implementation of sums: {build}",
    python_requires=">=3.11",
    install_requires=["sums"],  # which people import, whatever they install
    # The same modules under a name of their own, so that any number fits into one environment.
    packages=[package, "wheelfit_implementations"],
    package_dir={"": str(tree)},
    package_data={"wheelfit_implementations": [declaration]},
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
