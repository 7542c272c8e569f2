"""Requirements files in pip's format, as values.

One requirement per line, with comments, continuation lines, ``${VARIABLES}``, ``--hash`` options,
nested ``-r`` and ``-c`` files, editable projects, and the options for sources of files. Options of
pip that wheelfit does not support (build options) are an error, never skipped.
"""

from __future__ import annotations

import argparse
import re
from pathlib import PurePath
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import urljoin

from msgspec import Struct
from msgspec.structs import astuple, replace

from wheelfit.core.labels import Label, parse_label
from wheelfit.errors import InvalidRequirement
from wheelfit_runtime.errors import UserError
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


class RequirementLine(Struct, frozen=True):
    """A requirement of a file."""

    text: str
    """The requirement, a path or a URL, without its options."""
    where: str
    """File and line, such as ``requirements.txt:3``."""
    hashes: tuple[tuple[str, str], ...] = ()
    """Allowed digests as (algorithm, lower-case hexadecimal); empty: any file is allowed."""
    editable: bool = False
    """Whether it is a project to use in place (``-e``)."""
    label: Label | None = None
    """The label of the variant, from a comment ``# wheelfit: label LABEL``; None: any build."""


class RequirementsFile(Struct, frozen=True):
    """The content of a requirements file and of those it names."""

    requirements: tuple[RequirementLine, ...] = ()
    constraints: tuple[RequirementLine, ...] = ()
    index_url: str | None = None
    """The last one; None without one."""
    extra_index_urls: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    """Relative folders are joined with the folder of the file that names them."""
    trusted_hosts: tuple[str, ...] = ()
    no_index: bool = False
    pre: bool = False
    require_hashes: bool = False
    """Whether every installed file must have a known hash."""
    only_binary: tuple[str, ...] = ()
    """Names that are never built, as written, separated by commas; or ``:all:``, ``:none:``."""
    prefer_binary: bool = False
    """Whether an older release with a wheel comes before a newer one without."""


def read_requirements_file(
    name: str,
    read: Callable[[str], str],
    environ: Mapping[str, str],
    *,
    as_constraints: bool = False,
) -> RequirementsFile:
    """Read a requirements file and every file it names.

    :param name: path or URL of the file.
    :param read: returns the text of a path or URL; raises ``FileProblem`` or ``NetworkError``.
    :param environ: values of ``${VARIABLES}``; unset ones are not replaced, as in pip.
    :param as_constraints: the file was named by ``-c``.
    :raises InvalidRequirement: a line cannot be read.
    :raises UserError: a file names itself, or uses an unsupported option.
    """
    return _read(name, read, environ, as_constraints=as_constraints, enclosing=())


def option_lines(text: str, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the option lines of a requirements file, without checking others."""
    for _, line, _ in _logical_lines(text):
        if line.startswith("-"):
            yield _expand(line, environ)


def _read(
    name: str,
    read: Callable[[str], str],
    environ: Mapping[str, str],
    *,
    as_constraints: bool,
    enclosing: tuple[str, ...],
) -> RequirementsFile:
    if name in enclosing:
        raise UserError(
            "a requirements file includes itself",
            where=name,
            note=" names ".join((*enclosing[enclosing.index(name) :], name)),
        )
    if len(enclosing) > _MAX_DEPTH:
        raise UserError("requirements files include each other too deeply", where=name)
    content = RequirementsFile()
    for number, raw_line, comment in _logical_lines(read(name)):
        line, where = _expand(raw_line, environ), f"{name}:{number}"
        if not line.startswith("-"):
            requirement = replace(
                _parse_requirement_line(line, where), label=_label_of_comment(comment, where)
            )
            of_line = (
                RequirementsFile(constraints=(requirement,))
                if as_constraints
                else RequirementsFile(requirements=(requirement,))
            )
            content = _merge(content, of_line)
            continue
        if line.startswith("--no-binary"):
            raise UserError(
                f"the option {line.partition(' ')[0]} is not supported",
                where=where,
                hint="remove it; --allow-source NAME builds what has no wheel that fits",
            )
        options = _OptionParser(line, where).parse()
        if options.editable and as_constraints:
            raise UserError("an editable project cannot be a constraint", where=where)
        content = _merge(content, _content_of_options(options, name, where))
        for nested, constraints in (
            (options.requirement, as_constraints),
            (options.constraint, True),
        ):
            if nested:
                inner = _read(
                    urljoin(name, nested) if "://" in name else _relative_to(name, nested),
                    read,
                    environ,
                    as_constraints=constraints,
                    enclosing=(*enclosing, name),
                )
                content = _merge(content, inner)
    return content


_MAX_DEPTH = 100
"""The maximum nesting depth of included files."""
# A comment begins at the start of a line or after white space; a URL may contain "#".
_COMMENT = pattern(r"(^|(?<!\s)\s++)#.*$")
_VARIABLE = pattern(r"\$\{([A-Z0-9_]+)\}")
# Quotes of a marker are not those of the shell.
_MARKED_EDITABLE = pattern(r"((?:-e|--editable)\b[^\"';]*+)(;.*)")
_DIRECTIVE = pattern(r"#[ \t]*+wheelfit:[ \t]*+(.*)")


def _logical_lines(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield logical lines: first line number, content and comment; continued lines are joined."""
    first, parts = 0, list[str]()
    for number, line in enumerate(text.lstrip("\ufeff").splitlines(), 1):
        first = first or number
        is_comment = _COMMENT.match(line) is not None
        if line.endswith("\\") and not is_comment:
            parts.append(line[:-1])
            continue
        if is_comment:
            # After a continued line, "#" begins a comment only if a space precedes it (as in pip).
            parts.append(" ")
        content, comment = _split_comment("".join([*parts, line]))
        if content:
            yield first, content, comment
        first, parts = 0, []
    content, comment = _split_comment("".join(parts))
    if content:
        yield first, content, comment


def _split_comment(line: str) -> tuple[str, str]:
    """Return the content of a line and its comment."""
    comment = _COMMENT.search(line)
    start = len(line) if comment is None else comment.start()
    return line[:start].strip(), line[start:].strip()


def _expand(line: str, environ: Mapping[str, str]) -> str:
    return _VARIABLE.sub(lambda match: environ.get(match[1], match[0]), line)


def _content_of_options(options: argparse.Namespace, name: str, where: str) -> RequirementsFile:
    """Return the content of the options of one line, without that of files they include."""
    editable = (RequirementLine(options.editable, where, editable=True),)
    return RequirementsFile(
        requirements=editable if options.editable else (),
        index_url=options.index_url,
        extra_index_urls=tuple(options.extra_index_url),
        find_links=tuple(_relative_to(name, location) for location in options.find_links),
        trusted_hosts=tuple(options.trusted_host),
        no_index=options.no_index,
        pre=options.pre,
        require_hashes=options.require_hashes,
        only_binary=tuple(options.only_binary),
        prefer_binary=options.prefer_binary,
    )


def _label_of_comment(comment: str, where: str) -> Label | None:
    directive = _DIRECTIVE.match(comment)
    if directive is None:
        return None
    word, _, text = directive[1].strip().partition(" ")
    if word != "label":
        raise UserError(
            f"unknown comment {comment}",
            where=where,
            hint="a variant is named by: # wheelfit: label LABEL",
        )
    try:
        return parse_label(text.strip())
    except UserError as error:
        error.where = where
        raise


def _parse_requirement_line(line: str, where: str) -> RequirementLine:
    text, *options = re.split(r"(?<!\s)\s++(?=--[a-z])", line)
    hashes = []
    for option in options:
        name, _, value = option.replace(" ", "=", 1).partition("=")
        algorithm, _, digest = value.strip().partition(":")
        if name != "--hash":
            raise UserError(
                f"the option {name} of a requirement is not supported",
                where=where,
                hint=(
                    "use --config-settings of `wheelfit install` to pass settings to build backends"
                ),
            )
        if algorithm not in ("sha256", "sha384", "sha512") or not re.fullmatch(
            r"[0-9a-fA-F]+", digest
        ):
            raise InvalidRequirement(
                "a hash is written --hash=sha256:DIGEST (or sha384, sha512)",
                source=line,
                position=line.index(option),
                where=where,
            )
        hashes.append((algorithm, digest.lower()))
    return RequirementLine(text.strip(), where, tuple(hashes))


class _OptionParser(argparse.ArgumentParser):
    def __init__(self, line: str, where: str) -> None:
        super().__init__(add_help=False, allow_abbrev=False)
        self._line = line
        self._where = where
        self.add_argument("-r", "--requirement")
        self.add_argument("-c", "--constraint")
        self.add_argument("-e", "--editable")
        self.add_argument("-i", "--index-url", "--pypi-url")
        self.add_argument("--extra-index-url", action="append", default=[])
        self.add_argument("-f", "--find-links", action="append", default=[])
        self.add_argument("--trusted-host", action="append", default=[])
        self.add_argument("--no-index", action="store_true")
        self.add_argument("--pre", action="store_true")
        self.add_argument("--require-hashes", action="store_true")
        self.add_argument("--prefer-binary", action="store_true")
        self.add_argument("--only-binary", action="append", default=[])

    def parse(self) -> argparse.Namespace:
        import shlex

        marked = _MARKED_EDITABLE.fullmatch(self._line)
        line, marker = (self._line, "") if marked is None else marked.groups()
        try:
            words = shlex.split(line)
        except ValueError as error:  # an open quotation
            self.error(str(error))
        options = self.parse_args(words)
        if marker:
            options.editable += marker
        return options

    def error(self, message: str) -> NoReturn:
        raise UserError(f"the line cannot be read: {message}", where=self._where, note=self._line)


def _relative_to(name: str, other: str) -> str:
    """Return a path or URL that is relative to a file."""
    if "://" in other or PurePath(other).is_absolute():
        return other
    if "://" in name:
        return urljoin(name, other)
    return str(PurePath(name).parent / other)


def _merge(outer: RequirementsFile, inner: RequirementsFile) -> RequirementsFile:
    """Return the content of both; of options with a single value the inner one counts."""
    return RequirementsFile(
        *(
            first + second if isinstance(first, tuple) else second or first
            for first, second in zip(astuple(outer), astuple(inner), strict=True)
        )
    )
