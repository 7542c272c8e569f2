"""The runner of the conformance suite, with adapters that do all sorts of things."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from programs import is_running
from python_runs import run_python
from suite.cases import Case, load_cases
from suite.judging import Outcome, judge

SUITE = Path(__file__).parents[2] / "conformance"
LABELS = {case.id: case for case in load_cases() if case.area == "label"}

# An adapter that knows the answers, but for what a test has it do.
ADAPTER = f"""
import json, os, sys, time
sys.path.insert(0, {str(SUITE)!r})
from suite.cases import load_cases
expected = {{case.id: dict(case.expected) for case in load_cases()}}
say = lambda content: print(json.dumps(content), flush=True)
say({{"tool": "parrot", "version": "7", "format": 1, "areas": ["label"]}})
for line in sys.stdin:
    name = json.loads(line)["id"]
    answer = {{"id": name, **expected[name]}}
    BODY
    say(answer)
END
"""


def run(
    folder: Path, *options: str, body: str = "pass", end: str = "", source: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the suite on an adapter that is written for it."""
    script = folder / "adapter.py"
    text = ADAPTER.replace("BODY", body).replace("END", end) if source is None else source
    script.write_text(text, encoding="utf-8")
    command = f"{sys.executable} {script}"
    words = (SUITE / "run.py", "--adapter", command, "--drawn", "0", *options)
    return run_python(*words, cwd=folder, environ={**os.environ, "PYTHONUTF8": "1"})


class TestOutcomes:
    """What tools answer is held against what is expected."""

    def test_everything_right(self, tmp_path: Path) -> None:
        """A tool that answers as expected passes, and the exit code is 0."""
        done = run(tmp_path, "--area", "label")
        assert (done.returncode, done.stderr) == (0, "")
        assert f"parrot 7: {len(LABELS)} pass, 0 differs, 0 not supported" in done.stdout

    def test_something_wrong(self, tmp_path: Path) -> None:
        """A tool that answers wrongly differs: in the table, in the sum, and in the exit code."""
        body = 'if name == "label-hash-three": answer["result"] = {"label": "00000000"}'
        done = run(tmp_path, "--area", "label", "--verbose", body=body)
        assert done.returncode == 1
        assert f"{len(LABELS) - 1} pass, 1 differs" in done.stdout
        assert "\nF-141  differs (1 of " in done.stdout
        assert "differs: label-hash-three (F-141)" in done.stdout
        assert '"cdd580bb"' in done.stdout
        assert '"00000000"' in done.stdout
        assert "parrot: label-hash-three differs (F-141)" in done.stderr

    def test_not_supported(self, tmp_path: Path) -> None:
        """What a tool does not show, and areas it does not know, are no difference."""
        body = 'answer = {"id": name, "unsupported": "not yet"}'
        done = run(tmp_path, "--area", "label", "--area", "property", body=body)
        assert done.returncode == 0
        assert "0 pass, 0 differs, 96 not supported" in done.stdout

    def test_a_crash_of_the_tool(self, tmp_path: Path) -> None:
        """A tool that crashes where it should answer differs, even where it should refuse."""
        body = 'answer = {"id": name, "error": "boom"}'
        done = run(tmp_path, "--area", "label", body=body)
        assert done.returncode == 1
        assert f"0 pass, {len(LABELS)} differs" in done.stdout

    @pytest.mark.parametrize(
        ("answer", "outcome"),
        [
            ({"result": {"a": 1, "b": [1, 2]}}, Outcome.PASS),
            ({"result": {"a": 1, "b": [1, 2], "more": 3}}, Outcome.PASS),
            ({"result": {"a": 1, "b": [2, 1]}}, Outcome.DIFFERS),
            ({"result": {"a": True, "b": [1, 2]}}, Outcome.DIFFERS),
            ({"result": {"a": 1}}, Outcome.DIFFERS),
            ({"result": {"a": 1}, "partial": True}, Outcome.PASS),
            ({"result": {"a": 2}, "partial": True}, Outcome.DIFFERS),
            ({"result": {"c": 1}, "partial": True}, Outcome.PASS),
            ({"result": {"c": 2}, "partial": True}, Outcome.UNSUPPORTED),
            ({"result": {}, "partial": True}, Outcome.PASS),
            ({"result": {"c": 1}}, Outcome.PASS),
            ({"result": None}, Outcome.DIFFERS),
            ({"invalid": "no"}, Outcome.DIFFERS),
            ({"error": "no"}, Outcome.DIFFERS),
            ({"unsupported": "no"}, Outcome.UNSUPPORTED),
        ],
    )
    def test_judging(self, answer: Mapping[str, Any], outcome: Outcome) -> None:
        """Every part that is expected must be there and be the same; other parts are ignored."""
        expected = {"result": {"a": 1, "b": [1, 2]}}
        also = ({"result": {"c": 1}},)
        case = Case("x-y", "x", ("F-1",), "It is so.", "q", {}, expected, also)
        assert judge(case, {"id": "x-y", **answer}).outcome is outcome

    def test_judging_refusals(self) -> None:
        """Where a refusal is expected, a result is a difference."""
        case = Case("x-y", "x", ("F-1",), "It is so.", "q", {}, {"invalid": True})
        assert judge(case, {"invalid": "any reason"}).outcome is Outcome.PASS
        assert judge(case, {"result": {}}).outcome is Outcome.DIFFERS


class TestKnownDifferences:
    """Others can track their own differences."""

    WRONG = 'if name.startswith("label-hash-x86"): answer["result"] = {"label": "x"}'

    def known(self, folder: Path, *patterns: str) -> str:
        """Write a file of known differences; return the option that names it."""
        entry = {"cases": list(patterns), "rule": "F-141", "why": "another hash"}
        path = folder / "known.json"
        path.write_text(json.dumps({"differences": [entry]}), encoding="utf-8")
        return f"parrot={path}"

    def test_as_expected(self, tmp_path: Path) -> None:
        """Differences that are known do not count."""
        option = self.known(tmp_path, "label-hash-x86-*")
        done = run(tmp_path, "--area", "label", "--expected", option, body=self.WRONG)
        assert (done.returncode, done.stderr) == (0, "")
        assert "4 differs" in done.stdout

    def test_one_more(self, tmp_path: Path) -> None:
        """Another difference counts."""
        option = self.known(tmp_path, "label-hash-x86-64-v1")
        done = run(tmp_path, "--area", "label", "--expected", option, body=self.WRONG)
        assert done.returncode == 1
        assert "label-hash-x86-64-v2 differs" in done.stderr
        assert "label-hash-x86-64-v1" not in done.stderr

    def test_one_that_is_gone(self, tmp_path: Path) -> None:
        """A known difference that is gone counts, if it was asked about."""
        option = self.known(tmp_path, "label-hash-x86-*", "label-null")
        done = run(tmp_path, "--area", "label", "--expected", option, body=self.WRONG)
        assert done.returncode == 1
        assert "nothing differs any more under 'label-null'" in done.stderr
        done = run(tmp_path, "--rule", "F-141", "--expected", option, body=self.WRONG)
        assert done.returncode == 0

    def test_an_unreadable_file(self, tmp_path: Path) -> None:
        """A file that cannot be read is a mistake on the command line."""
        done = run(tmp_path, "--area", "label", "--expected", f"parrot={tmp_path / 'none.json'}")
        assert done.returncode == 2
        assert "--expected" in done.stderr


class TestBadAdapters:
    """An adapter that does not do its work is told of, and is not waited for."""

    @pytest.mark.parametrize(
        ("body", "end", "says"),
        [
            ("sys.exit(3)", "", "it ended with status 3 and left 57 cases without an answer"),
            ("os._exit(0)", "", "left 57 cases without an answer, the first is label-null"),
            ("pass", "sys.exit(4)", "it answered everything, but ended with status 4"),
            ("print('hello'); continue", "", "it wrote a line that is not JSON: 'hello'"),
            ("print('[1]'); continue", "", "it wrote a line that is not a JSON object"),
            ("say({'result': {}}); continue", "", "it answers without an id"),
            ("answer = {'id': name}", "", "does not have exactly one of"),
            ("answer['unsupported'] = 'x'", "", "does not have exactly one of"),
            ("say(answer)", "", "twice"),
            ("answer['id'] = 'nothing'", "", "it answers 'nothing', which it was not asked"),
            ("time.sleep(300)", "", "it said nothing for 1.5 s and was stopped"),
            ("pass", "os.close(1); time.sleep(300)", "it closed its output but did not end"),
            ("sys.stdout.buffer.write(b'\\xff' * 200 + b'\\n'); continue", "", "not JSON"),
        ],
    )
    def test_protocol(self, tmp_path: Path, body: str, end: str, says: str) -> None:
        """What is wrong is said in one line, and the exit code is 2."""
        # Only who hangs is waited for; the others may be slow to start.
        silence = "1.5" if "1.5" in says else "5" if "sleep" in end else "60"
        done = run(tmp_path, "--area", "label", "--silence", silence, body=body, end=end)
        assert done.returncode == 2
        assert says in done.stderr
        assert "Traceback (most recent call last)" not in done.stderr.replace("adapter.py", "")

    @pytest.mark.parametrize(
        ("source", "says"),
        [
            ("", "it ended with status 0 and said nothing"),
            ("raise SystemExit(5)", "it ended with status 5 and said nothing"),
            ("print('{}')", "it speaks format None, not 1"),
            ("print('{\"format\": 2}')", "it speaks format 2, not 1"),
            ('print(\'{"format": 1, "tool": "x"}\')', "lacks tool, version or areas"),
            ("import time; time.sleep(300)", "it said nothing for 1.5 s and was stopped"),
        ],
    )
    def test_announcement(self, tmp_path: Path, source: str, says: str) -> None:
        """An adapter that does not say what it is is told of."""
        silence = "1.5" if "1.5" in says else "60"
        done = run(tmp_path, "--area", "label", "--silence", silence, source=source)
        assert done.returncode == 2
        assert says in done.stderr

    def test_a_program_that_is_not_there(self, tmp_path: Path) -> None:
        """A command that cannot be started is told of."""
        completed = run_python(SUITE / "run.py", "--adapter", tmp_path / "nothing")
        assert completed.returncode == 2
        assert "it cannot be started" in completed.stderr

    def test_the_deadline(self, tmp_path: Path) -> None:
        """An adapter that talks on and on is stopped at the deadline."""
        body = "time.sleep(0.2)"
        done = run(tmp_path, "--area", "label", "--deadline", "2", body=body)
        assert done.returncode == 2
        assert "it is not done after the time it had and was stopped" in done.stderr

    @pytest.mark.skipif(os.name != "posix", reason="process groups are a thing of POSIX")
    def test_nothing_is_left_running(self, tmp_path: Path) -> None:
        """An adapter that hangs is stopped with what it started."""
        body = (
            "import subprocess; child = subprocess.Popen([sys.executable, '-c', "
            "'import time; time.sleep(300)']); "
            "open('pids', 'w').write(f'{os.getpid()} {child.pid}'); time.sleep(300)"
        )
        done = run(tmp_path, "--area", "label", "--silence", "8", body=body)
        assert done.returncode == 2
        pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
        assert [pid for pid in pids if is_running(pid)] == []


def test_the_adapter_of_the_how_to_guide(tmp_path: Path) -> None:
    """The adapter in the documentation is complete, and shows what its tool does."""
    guide = SUITE.parent / "docs" / "how-to" / "run-the-conformance-suite.md"
    (source,) = re.findall(r"```python\n(.*?)```", guide.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "adapter.py").write_text(source, encoding="utf-8")
    tool = "__version__ = '0.0'\ndef is_label(text):\n    return text.isalnum()\n"
    (tmp_path / "mytool.py").write_text(tool, encoding="utf-8")
    command = f"{sys.executable} {tmp_path / 'adapter.py'}"
    words = (SUITE / "run.py", "--adapter", command, "--area", "label", "--json")
    completed = run_python(*words, cwd=SUITE.parent)
    assert completed.returncode == 1, completed.stderr
    (report,) = json.loads(completed.stdout)["tools"]
    outcomes = {case["id"]: case["outcome"] for case in report["cases"]}
    assert outcomes["label-null"] == "pass"
    assert outcomes["label-refuse-hyphen"] == "pass"
    assert outcomes["label-dots-and-underscores"] == "differs"
    assert outcomes["label-hash-three"] == "not supported"


class TestOutput:
    """The same is told in several forms."""

    def test_json(self, tmp_path: Path) -> None:
        """``--json`` prints one object with every case, rule and sum."""
        body = 'if name == "label-null": answer = {"id": name, "invalid": "x"}'
        done = run(tmp_path, "--area", "label", "--json", body=body)
        (tool,) = json.loads(done.stdout)["tools"]
        assert (tool["tool"], tool["version"]) == ("parrot", "7")
        assert tool["summary"] == {"pass": len(LABELS) - 1, "differs": 1, "not supported": 0}
        assert tool["rules"]["F-6"]["differs"] == 1
        outcomes = {case["id"]: case["outcome"] for case in tool["cases"]}
        assert outcomes.keys() == LABELS.keys()
        assert outcomes["label-null"] == "differs"

    def test_markdown(self, tmp_path: Path) -> None:
        """``--markdown`` prints tables, with the reasons of known differences."""
        entry = {"cases": ["label-null"], "rule": "F-6", "why": "parrots know no null"}
        path = tmp_path / "known.json"
        path.write_text(json.dumps({"differences": [entry]}), encoding="utf-8")
        body = 'if name in ("label-null", "label-digits"): answer = {"id": name, "invalid": "x"}'
        options = ("--area", "label", "--markdown", "--expected", f"parrot={path}")
        done = run(tmp_path, *options, body=body)
        assert f"| parrot 7 | {len(LABELS)} | {len(LABELS) - 2} | 2 | 0 |" in done.stdout
        assert "| F-6 | parrots know no null | `label-null` |" in done.stdout
        assert "| | not traced yet | `label-digits` |" in done.stdout

    def test_some_cases(self, tmp_path: Path) -> None:
        """``--rule`` and ``--case`` choose cases."""
        done = run(tmp_path, "--area", "label", "--rule", "F-142")
        assert "parrot 7: 1 pass" in done.stdout
        done = run(tmp_path, "--case", "label-null", "--case", "label-digits")
        assert "parrot 7: 2 pass" in done.stdout

    def test_no_case(self, tmp_path: Path) -> None:
        """A choice without a case is a mistake on the command line."""
        done = run(tmp_path, "--rule", "F-999")
        assert done.returncode == 2
        assert "no case is left" in done.stderr
