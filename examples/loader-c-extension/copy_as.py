"""Copy this package under another name: python copy_as.py ham ~/projects/ham."""

import re
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).parent
LEFT_OUT = ("copy_as.py", "README.md", "build", "trees", "wheels", "dist")
LEFT_OUT += ("*.egg-info", "__pycache__")


def main(name: str, folder: str) -> None:
    """Copy all of it, and give files, modules and variables the new name."""
    if not re.fullmatch("[a-z][a-z0-9_]*", name):
        sys.exit(f"{name!r} cannot be imported; take small letters, digits and _")
    target = Path(shutil.copytree(HERE, folder, ignore=shutil.ignore_patterns(*LEFT_OUT)))
    # What is deepest comes first, so that nothing has moved when it is its turn.
    for path in sorted(target.rglob("*"), key=lambda path: -len(path.parts)):
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            text = text.replace("sums", name).replace("SUMS", name.upper())
            path.write_text(text, encoding="utf-8")
        if "sums" in path.name:
            path.rename(path.with_name(path.name.replace("sums", name)))
    print(f"{folder}: {name}, {name}-generic, {name}-avx2, {name}-avx512")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
