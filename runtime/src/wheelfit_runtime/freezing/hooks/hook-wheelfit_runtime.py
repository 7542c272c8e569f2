"""List the files of `wheelfit_runtime` that PyInstaller must include."""

from PyInstaller.utils.hooks import collect_submodules

from wheelfit_runtime.freezing import declaration_files, implementation_modules

hiddenimports = collect_submodules(
    "wheelfit_runtime", filter=lambda name: not name.startswith("wheelfit_runtime.freezing")
)
for module in implementation_modules():
    hiddenimports += collect_submodules(module) or [module]
datas = list(declaration_files())
