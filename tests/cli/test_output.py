"""Output of commands: results, messages and JSON objects."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout

import pytest
from cli.running import Runner

from wheelfit.cli.output import Output
from wheelfit.errors import InvalidRequirement, NoSolution
from wheelfit_runtime.errors import Fault, InvalidDocument, UserError, WheelfitError


class _Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        """Return True."""
        return True


@pytest.mark.parametrize(
    ("colour", "environ", "colours"),
    [
        ("auto", {}, True),
        ("auto", {"TERM": "xterm"}, True),
        ("auto", {"TERM": "dumb"}, False),
        ("auto", {"NO_COLOR": "1"}, False),
        ("auto", {"NO_COLOR": ""}, True),
        ("auto", {"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
        ("auto", {"FORCE_COLOR": "1", "TERM": "dumb"}, True),
        ("always", {"NO_COLOR": "1", "TERM": "dumb"}, True),
        ("never", {"FORCE_COLOR": "1"}, False),
    ],
)
def test_colour_on_a_terminal(colour: str, environ: Mapping[str, str], colours: bool) -> None:  # noqa: FBT001
    """The precedence is option, NO_COLOR, FORCE_COLOR, TERM."""
    with redirect_stdout(_Terminal()), redirect_stderr(_Terminal()):
        output = Output.of(colour=colour, environ=environ)
    assert (output.colour, output.error_colour) == (colours, colours)


@pytest.mark.parametrize(
    ("colour", "environ", "colours"),
    [
        ("auto", {}, False),
        ("auto", {"FORCE_COLOR": "1"}, True),
        ("always", {}, True),
        ("always", {"NO_COLOR": "1"}, True),
    ],
)
def test_colour_in_a_pipe(colour: str, environ: Mapping[str, str], colours: bool) -> None:  # noqa: FBT001
    """In a pipe there is colour only on request."""
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        output = Output.of(colour=colour, environ=environ)
    assert (output.colour, output.error_colour) == (colours, colours)


def test_colour_of_each_stream() -> None:
    """Standard output and standard error have colour independently."""
    with redirect_stdout(io.StringIO()), redirect_stderr(_Terminal()):
        output = Output.of(environ={})
    assert (output.colour, output.error_colour) == (False, True)


@pytest.mark.parametrize(
    ("changes", "environ", "animated"),
    [
        ({}, {}, True),
        ({"json": True}, {}, True),
        ({"quiet": True}, {}, False),
        ({"progress": False}, {}, False),
        ({"colour": "never"}, {}, True),
        ({}, {"CI": "true"}, False),
        ({}, {"TERM": "dumb"}, False),
    ],
)
def test_progress_bars(
    changes: dict[str, bool],
    environ: Mapping[str, str],
    animated: bool,  # noqa: FBT001
) -> None:
    """Bars are shown in terminals only, and not in CI, when quiet, or when disabled."""
    with redirect_stderr(_Terminal()):
        assert Output.of(environ=environ, **changes).animate is animated  # type: ignore[arg-type]
    with redirect_stderr(io.StringIO()):
        assert not Output.of(environ=environ, **changes).animate  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("verbosity", "remarks"),
    [
        (-1, []),
        (0, ["hello", "warning: careful"]),
        (1, ["hello", "by the way", "warning: careful"]),
    ],
)
def test_verbosity(verbosity: int, remarks: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Warnings are printed unless quiet, details when verbose, results always."""
    output = Output(verbosity=verbosity)
    output.remark("hello")
    output.detail("by the way")
    output.warn("careful")
    output.result("the result")
    captured = capsys.readouterr()
    assert captured.err.splitlines() == remarks
    assert captured.out == "the result\n"


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    """With ``--json`` standard output has only the object; messages are unaffected."""
    output = Output(json=True)
    output.result("for people")
    output.remark("a remark")
    output.result_json({"name": "tōrch", "values": [1, None]})
    captured = capsys.readouterr()
    assert json.loads(captured.out) == {"name": "tōrch", "values": [1, None]}
    assert "tōrch" in captured.out
    assert captured.err == "a remark\n"


def test_no_json(capsys: pytest.CaptureFixture[str]) -> None:
    """Without ``--json`` no object is printed."""
    Output().result_json({"a": 1})
    assert capsys.readouterr().out == ""


def test_styles() -> None:
    """A styled text ends with a reset; an empty text has no codes."""
    output = Output(colour=True, error_colour=True)
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        output.result("fine", "good")
        output.result("", "bad")
        output.result("plain")
        output.warn("careful")
    assert out.getvalue() == "\x1b[32mfine\x1b[0m\n\nplain\n"
    assert err.getvalue() == "\x1b[33mwarning: careful\x1b[0m\n"


def test_layout_of_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    """The code is in the first line; the lines of each part are indented below it."""
    Output(verbosity=-1).error(
        NoSolution("no way", where="somewhere", note="because\n  of this\nand that", hint="stop")
    )
    assert capsys.readouterr().err.splitlines() == [
        "error: no way [no-solution]",
        "  where: somewhere",
        "  note: because",
        "          of this",
        "        and that",
        "  hint: stop",
    ]


def test_error_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    """All parts of an error, faults included, are in one object on standard output."""
    error = InvalidDocument([Fault("variants.a", "is empty", "F-23"), Fault("", "no more")])
    Output(json=True).error(error)
    captured = capsys.readouterr()
    assert json.loads(captured.out) == {"error": error.parts()}
    assert captured.err == ""


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize(
    "error",
    [
        WheelfitError("cannot read https://me:s3cret@index.example/simple/"),
        WheelfitError("m", where="http://me:s3cret@index.example/simple/?token=s3cret"),
        WheelfitError("m", note="first\nhttps://s3cret@index.example and http://a:s3cret@b\nlast"),
        WheelfitError("m", hint="try //me:s3cret@index.example"),
        InvalidDocument([Fault("", "see https://me:s3cret@index.example"), Fault("", "more")]),
        UserError("m", note="https://me:p@s3cret@index.example"),
    ],
)
def test_credentials_are_removed(
    error: WheelfitError,
    as_json: bool,  # noqa: FBT001
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Credentials in URLs are removed from errors."""
    Output(json=as_json).error(error)
    Output(json=as_json).traceback(error)
    captured = capsys.readouterr()
    assert "s3cret" not in captured.out + captured.err
    assert "****" in captured.out + captured.err


def test_caret_after_removed_credentials(capsys: pytest.CaptureFixture[str]) -> None:
    """The caret moves with the text when credentials are removed."""
    source = "some @ https://me:s3cret@host.example/some.whl ; bogus > 1"
    Output().error(InvalidRequirement("no", source=source, position=source.index("bogus")))
    _, note, caret = capsys.readouterr().err.splitlines()
    assert note == "  note: some @ https://****@host.example/some.whl ; bogus > 1"
    assert caret.index("^") == note.index("bogus")


def test_caret(run: Runner) -> None:
    """The caret is below the fault of a requirement."""
    result = run("install", "some ==", code=1)
    _, note, caret, *_ = result.err.splitlines()
    assert note[: caret.index("^")].endswith("some ")


def test_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    """Control characters are escaped; line breaks are kept."""
    output = Output(colour=True, error_colour=True)
    output.result("yanked: \x1b[2J\x07\x9b2J\r gone\n\tnext", "dim")
    output.warn("\x1b]0;title\x07")
    captured = capsys.readouterr()
    shown = "yanked: \\x1b[2J\\x07\\x9b2J\\x0d gone\n\tnext"
    assert captured.out == f"\x1b[2m{shown}\x1b[0m\n"
    assert captured.err == "\x1b[33mwarning: \\x1b]0;title\\x07\x1b[0m\n"


def encoded_stream(encoding: str) -> io.TextIOWrapper:
    """Return a stream with an encoding that keeps the bytes."""
    return io.TextIOWrapper(io.BytesIO(), encoding=encoding, write_through=True)


def written(stream: io.TextIOWrapper) -> str:
    """Return the text written to a stream."""
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode(stream.encoding)


def test_missing_characters() -> None:
    """Characters that the encoding lacks are escaped; JSON remains valid."""
    with redirect_stdout(encoded_stream("ascii")) as lines:
        Output().result("tōrch …")
    assert written(lines) == "t\\u014drch \\u2026\n"
    with redirect_stdout(encoded_stream("ascii")) as objects:
        Output(json=True).result_json({"text": "tōrch …"})
    assert json.loads(written(objects)) == {"text": "tōrch …"}


def test_file_name_that_is_not_utf8() -> None:
    """A file name that is not UTF-8 can be printed, also as JSON."""
    with redirect_stdout(encoded_stream("utf-8")) as lines:
        Output().result("\udcff.whl")
    assert written(lines) == "\\udcff.whl\n"
    with redirect_stdout(encoded_stream("utf-8")) as objects:
        Output(json=True).result_json({"name": "\udcff.whl"})
    assert json.loads(written(objects)) == {"name": "\udcff.whl"}
    lenient = encoded_stream("utf-8")
    lenient.reconfigure(errors="surrogateescape")  # as standard output is in the locale C.UTF-8
    with redirect_stdout(lenient):
        Output(json=True).result_json({"name": "\udcff.whl"})
    assert json.loads(written(lenient)) == {"name": "\udcff.whl"}


class _ClosedPipe(io.StringIO):
    """A pipe without a reader."""

    def write(self, text: str) -> int:
        """Fail."""
        raise BrokenPipeError(text)


def test_closed_standard_error() -> None:
    """A closed standard error does not stop the work."""
    with redirect_stderr(_ClosedPipe()):
        Output().warn("careful")


def test_no_standard_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process without standard streams works silently."""
    monkeypatch.setattr("sys.stdout", None)
    monkeypatch.setattr("sys.stderr", None)
    output = Output.of(environ={})
    assert not output.colour
    output.result("a")
    output.remark("b")
    Output(json=True).result_json({})
