"""A process that is killed anywhere leaves a store that works, and nothing half-written in it."""

from __future__ import annotations

import pytest
from python_runs import printed_by

pytestmark = pytest.mark.integration

STEPS = """
import os, signal, shutil, sys
from wheelfit_runtime.loader.driver import Driver
from wheelfit_runtime.libraries import selecting
from wheelfit_runtime.libraries.initializing import prepare
from wheelfit_runtime.libraries.store import Store
from wheelfit_runtime.libraries.verifying import damage_of
root = os.environ["WHEELFIT_LIBRARY_STORE"]
EVENTS = ("open", "os.mkdir", "os.rename", "os.remove", "os.link", "os.rmdir", "os.scandir")

def bring():
    return prepare("cuda", "12", ["cudart"], driver=Driver(None), progress=False)

def killed_at(step):
    child = os.fork()
    if not child:
        left = step
        def count(event, arguments):
            nonlocal left
            if event in EVENTS and root in str(arguments):
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
        sys.addaudithook(count)
        bring()
        os._exit(0)
    return os.waitpid(child, 0)[1] == signal.SIGKILL

step = 1
while True:
    shutil.rmtree(root, ignore_errors=True)
    was_killed = killed_at(step)
    store = Store(root)
    for entry in store.entries():
        assert not damage_of(entry), (step, damage_of(entry))
    assert len(bring().libraries) == 1, step
    if not was_killed:
        break
    step += 1
print(step)
"""


def test_killed_at_every_step(environ: dict[str, str]) -> None:
    """Killed at each change of the store, one after the other; the next process has it all."""
    assert int(printed_by("-c", STEPS, environ=environ, deadline=600)) > 20
