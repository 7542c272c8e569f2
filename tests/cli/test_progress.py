"""Progress bars in terminals, and lines elsewhere."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cli.running import tree
from cli.terminal import in_terminal, screen
from programs import run_program
from sampled_cases import sampled

from wheelfit.cli.output import Output
from wheelfit.cli.progress import Bars, Cancelled
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel

BAR = "━"


class TestPlainLines:
    """Progress without a terminal."""

    def test_line_for_each_transfer(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Successful transfers are reported, with the size that was received."""
        with Bars(Output()) as bars:
            one, two = bars.transfer("one.whl"), bars.transfer("2 wheels", "unpacked")
            one.start(100)
            one.advance(60)
            one.start(100)  # from the beginning again
            one.advance(100)
            two.start(None)
            two.advance(2000)
            one.done()
            two.done()
            bars.transfer("failed.whl").start(5)
        captured = capsys.readouterr()
        assert captured.err == "  downloaded one.whl (100 B)\n  unpacked 2 wheels (2.0 kB)\n"
        assert captured.out == ""

    def test_line_for_each_wheel(self, capsys: pytest.CaptureFixture[str]) -> None:
        """A wheel is reported when it is unpacked; cached wheels are not."""
        with Bars(Output()) as bars:
            wheels = bars.wheels([100, None, 7])
            one, two, three = (wheels.wheel(f"{name} 1.0", None) for name in ("one", "two", "old"))
            one.start(100)
            one.advance(60)
            one.start(90)  # from the beginning again
            one.advance(90)
            unpacking = one.unpacking(500)
            one.done()
            unpacking.advance(500)
            assert capsys.readouterr().err == ""
            one.end()
            three.end()
            two.start(None)
            two.advance(2000)
            two.done()
            two.end()
        lines = capsys.readouterr().err.splitlines()
        assert [line.rpartition(" in ")[0] for line in lines] == [
            "  downloaded one 1.0: 90 B",
            "  downloaded two 1.0: 2.0 kB",
            "Downloaded 2 wheels (2.1 kB)",
        ]
        assert all(re.fullmatch(r"[\d.]+ m?s", line.rpartition(" in ")[2]) for line in lines)

    def test_line_for_a_delta_download(self, capsys: pytest.CaptureFixture[str]) -> None:
        """A delta download is reported with the downloaded and the total size."""
        with Bars(Output()) as bars:
            wheels = bars.wheels([5_000_000, 5_000_000])
            one, two = wheels.wheel("one 1.0", None), wheels.wheel("two 1.0", None)
            for wheel in (one, two):
                wheel.start(2000)
                wheel.set_full_size(5_000_000)
                wheel.advance(2000)
            one.done()
            one.end()
            two.start(5_000_000)  # something was wrong
            two.advance(5_000_000)
            two.done()
            two.end()
        lines = capsys.readouterr().err.splitlines()
        assert [line.rpartition(" in ")[0] for line in lines] == [
            "  exchanged one 1.0: 2.0 kB of 5.0 MB",
            "  downloaded two 1.0: 5.0 MB",
            "Downloaded 2 wheels (5.0 MB)",
        ]

    def test_quiet(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Quiet output has no progress."""
        with Bars(Output(verbosity=-1)) as bars:
            transfer = bars.transfer("one.whl")
            transfer.start(1)
            transfer.advance(1)
            transfer.done()
        assert capsys.readouterr().err == ""

    def test_cached_wheel(self, capsys: pytest.CaptureFixture[str]) -> None:
        """A cached wheel is not reported as downloaded."""
        with Bars(Output()) as bars:
            bars.transfer("one.whl").done()
        assert capsys.readouterr().err == ""


def test_cancelled_transfer() -> None:
    """A cancelled transfer stops at its next bytes."""
    with Bars(Output()) as bars:
        transfer = bars.transfer("one.whl")
        transfer.start(10)
        transfer.advance(1)
        bars.cancel()
        with pytest.raises(Cancelled):
            transfer.advance(1)


SLOW = 40_000
"""Bytes of what the slow wheel brings, and cannot compress."""


@pytest.fixture
def slow_index(tmp_path: Path) -> Iterator[RecordingIndex]:
    """Serve a slow wheel of about 40 kB."""
    content = os.urandom(SLOW)
    build_wheel(tmp_path / "index", "slow", "1.0", files={"slow/data.bin": content})
    build_wheel(tmp_path / "index", "broken", "1.0")
    with RecordingIndex(tmp_path / "index") as index:
        index.faults.trickle["slow-1.0-py3-none-any.whl"] = 0.02
        yield index


def install_command(index: RecordingIndex, target: Path, *more: str) -> list[str]:
    """Return the command that installs from the slow index."""
    command = [
        "-m",
        "wheelfit",
        "install",
        "-i",
        index.url,
        "--no-cache-dir",
        "--target",
        str(target),
    ]
    return [*command, *more]


class TestBars:
    """Progress in a terminal."""

    def test_bar_of_a_wheel(self, slow_index: RecordingIndex, tmp_path: Path) -> None:
        """A download has a bar with its name; at the end each step has a line."""
        done = in_terminal(install_command(slow_index, tmp_path / "target", "slow"), {})
        assert done.code == 0
        assert done.out == "installed slow 1.0\n"
        assert BAR in done.shown
        assert "slow 1.0 " in done.shown
        assert done.shown.rindex("\x1b[?25h") > done.shown.rindex("\x1b[?25l"), "no cursor"
        summaries = [line.rpartition(" in ")[0] for line in screen(done.shown)]
        summaries = [line.partition(" (")[0] for line in summaries]
        assert summaries == ["Resolved 1 package", "Downloaded 1 wheel", "Installed 1 package"]

    @pytest.mark.integration
    def test_bar_of_several_wheels(self, tmp_path: Path) -> None:
        """Several wheels share a bar; slow ones have a separate one."""
        names = [f"quick{number}" for number in range(12)]
        for name in names:
            build_wheel(tmp_path / "index", name, "1.0")
        files = {"slow/data.bin": os.urandom(SLOW)}
        build_wheel(tmp_path / "index", "slow", "1.0", files=files)
        with RecordingIndex(tmp_path / "index") as index:
            index.faults.trickle["slow-1.0-py3-none-any.whl"] = 0.03
            done = in_terminal(install_command(index, tmp_path / "target", "slow", *names), {})
        assert done.code == 0
        assert "12 of 13 wheels" in done.shown
        assert "slow 1.0 " in done.shown
        tallest = max(map(len, re.findall(r"(?:\x1b\[1A\x1b\[2K)+", done.shown)), default=0)
        assert tallest <= 4 * len("\x1b[1A\x1b[2K"), (
            "more than one line each for four, and one for all"
        )
        assert not any(BAR in line for line in screen(done.shown))

    @pytest.mark.integration
    def test_warnings_and_json_with_bars(self, slow_index: RecordingIndex, tmp_path: Path) -> None:
        """A warning remains readable among bars; with ``--json`` the object is complete."""
        command = install_command(slow_index, tmp_path / "target", "slow", "--json", "--proxy", "")
        done = in_terminal(command, {"WHEELFIT_OVERRIDE_X86_64_LEVEL": "v3"})
        assert done.code == 0
        assert done.out.startswith("{\n")
        assert BAR in done.shown
        assert screen(done.shown) == [
            "warning: the environment overrides detection: WHEELFIT_OVERRIDE_X86_64_LEVEL=v3"
        ]
        assert json.loads(done.out)["seconds"].keys() == {"resolve", "download", "install"}

    @pytest.mark.integration
    def test_bars_after_an_error(self, slow_index: RecordingIndex, tmp_path: Path) -> None:
        """After an error there is no bar."""
        slow_index.faults.wrong_hash.add("slow-1.0-py3-none-any.whl")
        done = in_terminal(install_command(slow_index, tmp_path / "target", "slow"), {})
        assert done.code == 4
        lines = screen(done.shown)
        assert lines[0].startswith("Resolved 1 package in ")
        assert lines[1] == "error: the sha256 hash does not match [hash-mismatch]"
        assert not any(BAR in line for line in lines)
        assert done.shown.rindex("\x1b[?25h") > done.shown.rindex("\x1b[?25l"), "no cursor"

    @pytest.mark.integration
    @pytest.mark.parametrize(("more", "environ"), [(["--no-progress"], {}), ([], {"CI": "1"})])
    def test_disabled_bars(
        self, more: list[str], environ: dict[str, str], slow_index: RecordingIndex, tmp_path: Path
    ) -> None:
        """An option and CI disable the bars."""
        done = in_terminal(install_command(slow_index, tmp_path / "target", "slow", *more), environ)
        assert done.code == 0
        assert BAR not in done.shown
        assert "\x1b[2K" not in done.shown


class TestEarlyEnd:
    """Failures and interruptions, after which nothing is awaited."""

    @pytest.mark.integration
    def test_failure_cancels_other_downloads(
        self, slow_index: RecordingIndex, tmp_path: Path
    ) -> None:
        """A wrong hash is reported at once, before the other downloads end."""
        slow_index.faults.trickle["slow-1.0-py3-none-any.whl"] = 0.5  # 20 s
        slow_index.faults.wrong_hash.add("broken-1.0-py3-none-any.whl")
        completed = run_program(
            sys.executable, *install_command(slow_index, tmp_path / "target", "slow", "broken"),
            code=4, timeout=60,
        )  # fmt: skip
        assert "[hash-mismatch]" in completed.stderr
        assert slow_index.bytes_sent("slow-1.0-py3-none-any.whl") < SLOW
        assert not (tmp_path / "target").exists()

    @pytest.mark.parametrize("more", sampled([[], ["--json"]], fast={0}))
    def test_interrupt(self, more: list[str], slow_index: RecordingIndex, tmp_path: Path) -> None:
        """Ctrl-C exits with 130 soon; nothing is installed or left behind."""
        name = "slow-1.0-py3-none-any.whl"
        slow_index.faults.trickle[name] = 0.5  # 20 s

        def begun() -> None:
            while not slow_index.bytes_sent(name):
                time.sleep(0.01)

        interrupt(
            [*install_command(slow_index, tmp_path / "target", "slow"), *more], begun, tmp_path
        )
        assert slow_index.bytes_sent(name) < SLOW

    @pytest.mark.integration
    def test_interrupt_during_a_connection(self, tmp_path: Path) -> None:
        """Ctrl-C works while a server does not answer."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            url = f"http://127.0.0.1:{server.getsockname()[1]}/"
            command = ["-m", "wheelfit", "install", "-i", url, "--no-cache-dir", "one", "two"]

            def begun() -> None:  # the connection waits to be accepted, which never happens
                assert select.select([server], [], [], 20)[0]

            interrupt([*command, "--target", str(tmp_path / "target")], begun, tmp_path)

    @pytest.mark.integration
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    @pytest.mark.parametrize("size", [SLOW, 20 << 20])
    def test_interrupt_of_a_stalled_download(
        self, size: int, number: signal.Signals, tmp_path: Path
    ) -> None:
        """Signals work during a stalled download. The cache has only complete files afterwards."""
        name = "slow-1.0-py3-none-any.whl"
        build_wheel(tmp_path / "index", "slow", "1.0", files={"slow/data.bin": os.urandom(size)})
        with RecordingIndex(tmp_path / "index") as index:
            index.faults.stall[name] = 1000

            def begun() -> None:
                while not index.bytes_sent(name):
                    time.sleep(0.01)

            command = [*install_command(index, tmp_path / "target", "slow")[:5], "--target"]
            command += [str(tmp_path / "target"), "--cache-dir", str(tmp_path / "cache"), "slow"]
            interrupt(command, begun, tmp_path, number)
        assert not [name for name in tree(tmp_path / "cache") if name.endswith(".part")]


def interrupt(
    command: list[str],
    wait: Callable[[], None],
    folder: Path,
    number: signal.Signals = signal.SIGINT,
) -> None:
    """Send a signal once ``wait`` returns, and check the end of the process."""
    scratch = folder / "scratch"
    scratch.mkdir()
    with subprocess.Popen(
        [sys.executable, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(scratch)},
    ) as process:
        wait()
        time.sleep(0.3)
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
    if number is signal.SIGTERM:
        assert (process.returncode, out) == (143, "")
        assert err.endswith("[terminated]\n")
    else:
        assert process.returncode == 130
    if number is signal.SIGTERM:
        pass
    elif "--json" in command:
        assert json.loads(out)["error"]["code"] == "interrupted"
        assert err == ""
    else:
        *before, last = err.splitlines()
        assert (out, last) == ("", "error: interrupted from the keyboard [interrupted]")
        assert all(line.startswith("Resolved ") for line in before)
    assert tree(scratch) == {}
    assert not (folder / "target").exists()
