"""Operations on static indexes, called without the command line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from server.generate.folders import build_release

from wheelfit.errors import UsageError
from wheelfit.operations.check import CheckRequest, check
from wheelfit.operations.check_index import CheckIndexRequest, check_index
from wheelfit.operations.context import Context
from wheelfit.operations.convert_index import ConvertIndexRequest, convert_index
from wheelfit.operations.generate_index import GenerateIndexRequest, generate_index
from wheelfit.operations.publish import PublishRequest, publish
from wheelfit_runtime.errors import FileProblem


@pytest.fixture
def context(tmp_path: Path) -> Context:
    """Return a context with a cache of their own and a silent reporter."""
    return Context({"WHEELFIT_CACHE_DIR": str(tmp_path / "cache")})


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    """Write a release of three wheels."""
    build_release(tmp_path / "dist")
    return tmp_path / "dist"


def test_generate_check_and_convert(
    dist: Path, tmp_path: Path, context: Context, capsys: pytest.CaptureFixture[str]
) -> None:
    """An index is generated, checked and converted, and nothing is printed."""
    index, anew = tmp_path / "index", tmp_path / "anew"
    made = generate_index(GenerateIndexRequest(folder=str(dist), to=str(index)), context)
    assert made.generated.is_published
    assert made.generated.files == 4
    checked = check_index(CheckIndexRequest(index=str(index / "simple")), context)
    assert checked.findings.counts.wheels == 3
    assert not checked.findings.has_faults(strict=False)
    converted = convert_index(ConvertIndexRequest(source=str(index), to=str(anew)), context)
    assert converted.generated.is_published
    assert list(converted.projects) == ["fast"]
    assert capsys.readouterr() == ("", "")


def test_generate_in_place_by_another_name(dist: Path, tmp_path: Path, context: Context) -> None:
    """Wheels are not copied into their own folder if a link to it is the target."""
    link = tmp_path / "link"
    link.symlink_to(dist)
    request = GenerateIndexRequest(folder=str(dist), to=str(link))
    assert generate_index(request, context).generated.is_published
    assert (dist / "simple").is_dir()
    assert not (dist / "files").exists()


def test_check(dist: Path, context: Context) -> None:
    """Findings that are ignored are not in the report, and unknown names are refused."""
    (dist / "fast-1.0-py3-none-any.whl").unlink()
    everything = check(CheckRequest(targets=(str(dist),)), context).findings
    assert "no-plain-wheel" in {finding.code for finding in everything.findings}
    ignoring = CheckRequest(targets=(str(dist),), ignore=("no-plain-wheel",))
    assert check(ignoring, context).findings == everything.without(["no-plain-wheel"])
    with pytest.raises(UsageError, match="unknown check"):
        check(CheckRequest(targets=(str(dist),), ignore=("no-plain-wheels",)), context)


def test_publish(dist: Path, tmp_path: Path, context: Context) -> None:
    """A dry run sends nothing; a second run finds all files there."""
    pytest.importorskip("twine", reason="needs the extra `publish`")
    request = PublishRequest(paths=(str(dist),), to=str(tmp_path / "index"), dry_run=True)
    report = publish(request, context)
    assert report.result is None
    assert {report.state(file.filename) for file in report.outgoing.files} == {"new"}
    sending = PublishRequest(paths=(str(dist),), to=str(tmp_path / "index"))
    report = publish(sending, context)
    assert report.result is not None
    assert len(report.result.sent) == 3
    assert report.method == "static"
    report = publish(sending, context)
    assert {report.state(file.filename) for file in report.outgoing.files} == {"existing"}


def test_a_whole_release_without_naming_files(
    dist: Path, tmp_path: Path, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a path the folder ``dist`` of the project is published, of the current one too."""
    first = publish(PublishRequest(project=str(tmp_path), to=str(tmp_path / "one")), context)
    assert first.result is not None
    assert len(first.result.sent) == 3
    monkeypatch.chdir(dist.parent)
    second = publish(PublishRequest(to="./two"), context)
    assert second.result == first.result


def test_a_checkout_is_published_as_it_is(dist: Path, tmp_path: Path, context: Context) -> None:
    """GitHub Pages gets a site that Jekyll leaves alone, and no file that git hosts refuse."""
    site = tmp_path / "site" / "docs"
    (tmp_path / "site" / ".git").mkdir(parents=True)
    report = publish(PublishRequest(paths=(str(dist),), to=str(site)), context)
    assert report.result is not None
    assert (site / ".nojekyll").is_file()
    assert report.forecasts[0].limits.file == 100 << 20
    whole = publish(PublishRequest(paths=(str(dist),), to=str(site.parent)), context)
    assert whole.forecasts[0].limits.file == 100 << 20
    for other in (tmp_path / "other", site.parent / "public"):  # as of a project
        elsewhere = publish(PublishRequest(paths=(str(dist),), to=str(other)), context)
        assert elsewhere.forecasts[0].limits.file is None
        assert not (other / ".nojekyll").exists()


def test_a_checkout_that_cannot_be_written(dist: Path, tmp_path: Path, context: Context) -> None:
    """The error names the folder, not a file of it."""
    (tmp_path / "site" / ".git").mkdir(parents=True)
    (tmp_path / "site" / ".nojekyll").symlink_to(tmp_path / "absent" / "file")
    with pytest.raises(FileProblem, match="the folder cannot be written") as excinfo:
        publish(PublishRequest(paths=(str(dist),), to=str(tmp_path / "site")), context)
    assert excinfo.value.where == str(tmp_path / "site")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_publishing_beside_a_pipe(dist: Path, tmp_path: Path, context: Context) -> None:
    """A pipe in place of the project's file is not opened: nobody may ever write to it."""
    os.mkfifo(tmp_path / "pyproject.toml")
    request = PublishRequest(
        to=str(tmp_path / "index"), paths=(str(dist),), project=str(tmp_path), dry_run=True
    )
    assert publish(request, context).dry_run
