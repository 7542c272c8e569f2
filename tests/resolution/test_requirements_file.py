"""Requirements files in pip's format."""

from __future__ import annotations

import pytest

from wheelfit.errors import InvalidRequirement
from wheelfit.resolution.requirements_file import (
    RequirementLine,
    RequirementsFile,
    read_requirements_file,
)
from wheelfit_runtime.errors import FileProblem, UserError


def reading(**files: str) -> RequirementsFile:
    """Read ``main.txt``; a double underscore in a name stands for a folder."""
    texts = {name.replace("__", "/") + ".txt": text for name, text in files.items()}

    def read(name: str) -> str:
        if name not in texts:
            raise FileProblem("no such file", where=name)
        return texts[name]

    return read_requirements_file("main.txt", read, {"TOKEN": "s3cret", "EMPTY": ""})


def test_comment_after_a_continued_line() -> None:
    """As in pip, a comment on the next line does not become part of the requirement."""
    assert [line.text for line in reading(main="rich\\\n# of it\nnumpy").requirements] == [
        "rich",
        "numpy",
    ]


def test_lines_comments_and_continuations() -> None:
    """Comments need white space before them, a backslash joins lines, numbers are of the first."""
    content = reading(
        main="# all of it\n\nnumpy>=2 # numbers\nrich \\\n  >=15\nx @ https://h.example/x.whl#a=b\n"
    )
    assert content.requirements == (
        RequirementLine("numpy>=2", "main.txt:3"),
        RequirementLine("rich   >=15", "main.txt:4"),
        RequirementLine("x @ https://h.example/x.whl#a=b", "main.txt:6"),
    )


@pytest.mark.parametrize(
    "line",
    ["-e ./a ; os_name == 'x'", '''-e "./a; os_name == 'x'"''', "--editable=./a; os_name == 'x'"],
)
def test_the_marker_of_an_editable_project(line: str) -> None:
    """A marker after ``-e`` needs no quotes around it, and keeps its own."""
    (requirement,) = reading(main=line).requirements
    assert requirement.editable
    assert requirement.text == "./a; os_name == 'x'"


def test_no_binary() -> None:
    """``--no-binary`` is refused, with what to do instead."""
    with pytest.raises(UserError, match="--no-binary") as excinfo:
        reading(main="--no-binary numpy")
    assert "--allow-source NAME" in (excinfo.value.hint or "")


def test_hashes_belong_to_their_requirement() -> None:
    """Each ``--hash`` narrows the files its requirement may take."""
    content = reading(main="numpy==2.0 --hash=sha256:AB \\\n --hash sha512:cd\nrich")
    assert content.requirements[0].hashes == (("sha256", "ab"), ("sha512", "cd"))
    assert content.requirements[1].hashes == ()


def test_files_name_other_files() -> None:
    """``-r`` and ``-c`` are read from beside the file that names them; constraints stay such."""
    content = reading(
        main="-r sub/more.txt\na\n",
        sub__more="b\n-c limits.txt\n",
        sub__limits="b<2\n-r deeper.txt",
        sub__deeper="c<3",
    )
    assert [line.text for line in content.requirements] == ["b", "a"]
    assert [line.text for line in content.constraints] == ["b<2", "c<3"]
    assert content.constraints[0].where == "sub/limits.txt:1"


def test_files_named_by_a_remote_file() -> None:
    """As in pip, names in a remote file are relative to its URL, without its query."""
    texts = {
        "https://h.example/a/main.txt?token=x/y": "-r more.txt\n-c /limits.txt\n-f wheels\n",
        "https://h.example/a/more.txt": "rich\n",
        "https://h.example/limits.txt": "rich<9\n",
    }
    content = read_requirements_file(next(iter(texts)), texts.__getitem__, {})
    assert [line.text for line in content.requirements] == ["rich"]
    assert [line.text for line in content.constraints] == ["rich<9"]
    assert content.find_links == ("https://h.example/a/wheels",)


def test_options_say_where_files_come_from() -> None:
    """Index options are collected, folders are relative to their file, variables are expanded."""
    content = reading(
        main="-i https://u:${TOKEN}@h.example/simple\n--extra-index-url=https://e.example/${NOPE}\n"
        "-f wheels\n--no-index\n--pre\n-r sub/more.txt",
        sub__more="--find-links ../links\n--trusted-host h.example\n--require-hashes",
    )
    assert content.index_url == "https://u:s3cret@h.example/simple"
    assert content.extra_index_urls == ("https://e.example/${NOPE}",)
    assert content.find_links == ("wheels", "sub/../links")
    assert content.trusted_hosts == ("h.example",)
    assert content.no_index
    assert content.pre
    assert content.require_hashes


@pytest.mark.parametrize(
    ("line", "kind", "message"),
    [
        ("numpy --config-settings=x=y", UserError, "the option --config-settings"),
        ("numpy --hash=md5:aa", InvalidRequirement, "a hash is written"),
        ("--no-such-option", UserError, "the line cannot be read"),
        ("-f 'open", UserError, "the line cannot be read"),
        ("-r main.txt", UserError, "a requirements file includes itself"),
        ("-r gone.txt", FileProblem, "no such file"),
    ],
)
def test_bad_lines(line: str, kind: type[UserError], message: str) -> None:
    """A line that cannot be followed is an error that says where, never skipped."""
    with pytest.raises(kind, match=message) as excinfo:
        reading(main=f"rich\n{line}\n")
    assert excinfo.value.where in ("main.txt:2", "main.txt", "gone.txt")
