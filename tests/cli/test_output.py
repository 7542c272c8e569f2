"""How commands speak: results here, remarks there, one object for machines."""

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


class Terminal(io.StringIO):
    """Be a terminal."""

    def isatty(self) -> bool:
        """Say so."""
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
    """The option counts more than NO_COLOR, that more than FORCE_COLOR, that more than TERM."""
    with redirect_stdout(Terminal()), redirect_stderr(Terminal()):
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
    """Without a terminal there is colour only when somebody insists."""
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        output = Output.of(colour=colour, environ=environ)
    assert (output.colour, output.error_colour) == (colours, colours)


def test_each_stream_decides_for_itself() -> None:
    """Results in a pipe have no colour while remarks on the terminal do."""
    with redirect_stdout(io.StringIO()), redirect_stderr(Terminal()):
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
def test_bars_are_for_terminals(
    changes: dict[str, bool],
    environ: Mapping[str, str],
    animated: bool,  # noqa: FBT001
) -> None:
    """Bars move on a terminal only, and not in CI, not when quiet, not when unwanted."""
    with redirect_stderr(Terminal()):
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
def test_how_much_is_said(
    verbosity: int, remarks: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Warnings and remarks are said unless quiet, details when verbose; results always."""
    output = Output(verbosity=verbosity)
    output.say("hello")
    output.detail("by the way")
    output.warn("careful")
    output.result("the result")
    captured = capsys.readouterr()
    assert captured.err.splitlines() == remarks
    assert captured.out == "the result\n"


def test_json_is_all_there_is_on_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    """Under ``--json`` lines for people disappear from the result; remarks stay where they are."""
    output = Output(json=True)
    output.result("for people")
    output.say("a remark")
    output.result_json({"name": "tōrch", "values": [1, None]})
    captured = capsys.readouterr()
    assert json.loads(captured.out) == {"name": "tōrch", "values": [1, None]}
    assert "tōrch" in captured.out
    assert captured.err == "a remark\n"


def test_without_json_no_object(capsys: pytest.CaptureFixture[str]) -> None:
    """People get lines only."""
    Output().result_json({"a": 1})
    assert capsys.readouterr().out == ""


def test_styles() -> None:
    """A style wraps the text in codes and resets; empty text gets none."""
    output = Output(colour=True, error_colour=True)
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        output.result("fine", "good")
        output.result("", "bad")
        output.result("plain")
        output.warn("careful")
    assert out.getvalue() == "\x1b[32mfine\x1b[0m\n\nplain\n"
    assert err.getvalue() == "\x1b[33mwarning: careful\x1b[0m\n"


def test_an_error_has_its_parts_below_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    """Reference in the first line; further lines of a part stay under its own margin."""
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


def test_an_error_for_machines(capsys: pytest.CaptureFixture[str]) -> None:
    """All parts, faults included, in one object on standard output, and nothing beside it."""
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
def test_credentials_are_never_shown(
    error: WheelfitError,
    as_json: bool,  # noqa: FBT001
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Whatever somebody has typed where, credentials of URLs do not come back in an error."""
    Output(json=as_json).error(error)
    Output(json=as_json).traceback(error)
    captured = capsys.readouterr()
    assert "s3cret" not in captured.out + captured.err
    assert "****" in captured.out + captured.err


def test_the_caret_moves_with_what_it_points_at(capsys: pytest.CaptureFixture[str]) -> None:
    """A text that becomes shorter without credentials keeps its caret in place."""
    source = "some @ https://me:s3cret@host.example/some.whl ; bogus > 1"
    Output().error(InvalidRequirement("no", source=source, position=source.index("bogus")))
    _, note, caret = capsys.readouterr().err.splitlines()
    assert note == "  note: some @ https://****@host.example/some.whl ; bogus > 1"
    assert caret.index("^") == note.index("bogus")


def test_the_caret_stays(run: Runner) -> None:
    """A requirement that cannot be read is shown with a caret right below the fault."""
    result = run("install", "some ==", code=1)
    _, note, caret, *_ = result.err.splitlines()
    assert note[: caret.index("^")].endswith("some ")


def test_nobody_else_steers_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Control characters in words of an index are shown, not obeyed; line breaks stay."""
    output = Output(colour=True, error_colour=True)
    output.result("yanked: \x1b[2J\x07\x9b2J\r gone\n\tnext", "dim")
    output.warn("\x1b]0;title\x07")
    captured = capsys.readouterr()
    shown = "yanked: \\x1b[2J\\x07\\x9b2J\\x0d gone\n\tnext"
    assert captured.out == f"\x1b[2m{shown}\x1b[0m\n"
    assert captured.err == "\x1b[33mwarning: \\x1b]0;title\\x07\x1b[0m\n"


def narrow(encoding: str) -> io.TextIOWrapper:
    """Return a stream of an encoding that keeps the bytes."""
    return io.TextIOWrapper(io.BytesIO(), encoding=encoding, write_through=True)


def written(stream: io.TextIOWrapper) -> str:
    """Return what was written to it."""
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode(stream.encoding)


def test_a_narrow_encoding() -> None:
    """Where a character does not exist it is spelled out; JSON stays JSON."""
    with redirect_stdout(narrow("ascii")) as lines:
        Output().result("tōrch …")
    assert written(lines) == "t\\u014drch \\u2026\n"
    with redirect_stdout(narrow("ascii")) as objects:
        Output(json=True).result_json({"text": "tōrch …"})
    assert json.loads(written(objects)) == {"text": "tōrch …"}


def test_a_file_name_that_is_no_text() -> None:
    """A name with bytes that are no UTF-8 can be printed, also as JSON."""
    with redirect_stdout(narrow("utf-8")) as lines:
        Output().result("\udcff.whl")
    assert written(lines) == "\\udcff.whl\n"
    with redirect_stdout(narrow("utf-8")) as objects:
        Output(json=True).result_json({"name": "\udcff.whl"})
    assert json.loads(written(objects)) == {"name": "\udcff.whl"}
    lenient = narrow("utf-8")
    lenient.reconfigure(errors="surrogateescape")  # as standard output is in the locale C.UTF-8
    with redirect_stdout(lenient):
        Output(json=True).result_json({"name": "\udcff.whl"})
    assert json.loads(written(lenient)) == {"name": "\udcff.whl"}


class Gone(io.StringIO):
    """Be a pipe that nobody reads any more."""

    def write(self, text: str) -> int:
        """Fail."""
        raise BrokenPipeError(text)


def test_nobody_listens_to_remarks() -> None:
    """A reader of standard error that goes away does not stop the work."""
    with redirect_stderr(Gone()):
        Output().warn("careful")


def test_no_streams_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that was started without standard streams works silently."""
    monkeypatch.setattr("sys.stdout", None)
    monkeypatch.setattr("sys.stderr", None)
    output = Output.of(environ={})
    assert not output.colour
    output.result("a")
    output.say("b")
    Output(json=True).result_json({})
