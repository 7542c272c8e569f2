"""Tell PyInstaller what an application needs that imports `wheelfit.runtime`."""

from PyInstaller.utils.hooks import collect_submodules

from wheelfit.runtime.freezing import declaration_files, implementation_modules

hiddenimports = [
    *collect_submodules(
        "wheelfit.runtime", filter=lambda name: not name.startswith("wheelfit.runtime.freezing")
    ),
    *collect_submodules("wheelfit.platforms"),
]
for module in implementation_modules():
    hiddenimports += collect_submodules(module) or [module]
datas = list(declaration_files())
