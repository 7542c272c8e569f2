"""Updates of expected detections: ``python -m wheelfit.testing.machines MACHINE …``.

Review the difference before you commit it. A machine is added by ``wheelfit probe --record FOLDER``
and opened by `wheelfit_runtime.platforms.recording.open_recorded`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from wheelfit_runtime.platforms.recording import write_expected

if __name__ == "__main__":
    for folder in sys.argv[1:]:
        write_expected(Path(folder))
