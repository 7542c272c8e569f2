"""Fuzz one target: ``python fuzz/run.py filename fuzz/corpus/filename -max_total_time=60``.

What follows the name of the target goes to libFuzzer. See ``docs/how-to/fuzz.md``.
"""

from __future__ import annotations

import importlib.util
import shlex
import sys
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import atheris

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).resolve().parent
SLOWEST = 1.0
"""Seconds of processor time, instrumentation included, that no input may take."""
INSTRUMENTED = ["wheelfit", "wheelfit_runtime", "packaging", "elftools"]


def load(target: str) -> tuple[Callable[[bytes], None], int]:
    """Return the ``check`` of a target and its ``LONGEST``, with the code under it instrumented.

    :param target: name of a file in ``fuzz/targets``, or the path of a Python file.
    """
    path = Path(target) if target.endswith(".py") else HERE / "targets" / f"{target}.py"
    spec = importlib.util.spec_from_file_location(f"fuzz_target_{path.stem}", path)
    if spec is None or spec.loader is None or not path.is_file():
        known = ", ".join(sorted(item.stem for item in (HERE / "targets").glob("*.py")))
        sys.exit(f"there is no target {target}; there are {known}")
    module = importlib.util.module_from_spec(spec)
    with atheris.instrument_imports(include=INSTRUMENTED):
        spec.loader.exec_module(module)
    check: Callable[[bytes], None] = atheris.instrument_func(module.check)
    return check, module.LONGEST


def timed(check: Callable[[bytes], None]) -> Callable[[bytes], None]:
    """Return the check; it fails too when an input takes long.

    libFuzzer's own limit looks at the clock on the wall, which a busy machine stops at will.
    """

    def one(data: bytes) -> None:
        start = time.process_time()
        try:
            check(data)
        except BaseException:
            # libFuzzer writes the input to a file, if it gets to it.
            print(f"input: {data!r}", file=sys.stderr, flush=True)
            raise
        taken = time.process_time() - start
        if taken > SLOWEST:
            raise AssertionError(f"this input took {taken:.1f} seconds of processor time")

    return one


def main(arguments: list[str]) -> None:
    """Fuzz until libFuzzer has done what its options say."""
    if not arguments:
        sys.exit(__doc__)
    target, *options = arguments
    check, longest = load(target)
    options.insert(0, f"-max_len={longest}")
    warnings.simplefilter("error")  # a warning of Python's would reach the user
    dictionary = HERE / "dictionaries" / f"{target}.txt"
    if dictionary.is_file():
        options.insert(0, f"-dict={dictionary}")
    # When it merges, libFuzzer starts itself again by this name, through a shell.
    again = shlex.join([sys.executable, __file__, target])
    atheris.Setup([again, *options], timed(check))
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1:])
