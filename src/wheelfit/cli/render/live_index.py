"""Reports of live indexes, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wheelfit.cli.output import Output
    from wheelfit.operations.index_files import FilesReport
    from wheelfit.operations.index_stages import DroppedStage, OpenedStage, StagesReport
    from wheelfit.operations.index_tokens import CreatedToken, RevokedToken, TokensReport
    from wheelfit.operations.proxy import ServedProxy
    from wheelfit.operations.serve import ServedIndex


def show_served_index(report: ServedIndex, output: Output) -> None:
    """Print the URL of an index, and how to upload."""
    output.result_json(report.to_json())
    output.result(report.index_url)
    output.flush()
    if report.token_file is not None:
        from shlex import quote

        token = f'"$(cat {quote(str(report.token_file))})"'
        upload = report.upload_url
        output.say(f"a token for uploads is in {report.token_file}; with it", "dim")
        output.say(f"  uv publish --publish-url {upload} --token {token}", "dim")
        output.say(
            f"  twine upload --repository-url {upload} -u __token__ -p {token} dist/*", "dim"
        )


def show_files(report: FilesReport, output: Output) -> None:
    """Print the files that were changed."""
    output.result_json(report.to_json())
    for name in report.files:
        output.result(name)


def show_opened_stage(report: OpenedStage, output: Output) -> None:
    """Print the ID of a stage, and the URLs that it has."""
    stage = report.stage
    output.result_json(report.to_json())
    output.result(stage["id"])
    if report.server is not None:
        output.say(f"upload to {report.upload_url} with your own token", "dim")
        output.say(f"see it at {report.index_url}", "dim")
    else:
        output.say(f"its secret is {stage['secret']}", "dim")
    output.say(f"publish it before {stage['expires']}", "dim")


def show_stages(report: StagesReport, output: Output) -> None:
    """Print the open stages."""
    output.result_json(report.to_json())
    for one in report.stages:
        output.result(f"{one['id']}  {one['owner']}  until {one['expires']}")


def show_dropped_stage(report: DroppedStage, output: Output) -> None:
    """Print how many files were dropped."""
    output.result_json(report.to_json())
    output.result(f"{report.count} files are forgotten")


def show_created_token(report: CreatedToken, output: Output) -> None:
    """Print a new token."""
    output.result_json(report.to_json())
    output.result(report.token["secret"])
    output.say(f"its ID is {report.token['id']}; it is shown this once", "dim")


def show_tokens(report: TokensReport, output: Output) -> None:
    """Print the tokens with their rights."""
    output.result_json(report.to_json())
    for one in report.tokens:
        projects = "every project" if one["projects"] is None else ", ".join(one["projects"])
        until = f"until {one['expires']}" if one["expires"] else "always"
        parts = [one["id"], one["owner"], "+".join(one["scopes"]), projects, until, one["note"]]
        output.result("  ".join(part for part in parts if part))


def show_revoked_token(report: RevokedToken, output: Output) -> None:
    """Print which token was revoked."""
    output.result_json(report.to_json())
    output.result(f"{report.token} is revoked")


def show_served_proxy(report: ServedProxy, output: Output) -> None:
    """Print the URL of a proxy."""
    output.result_json(report.to_json())
    output.result(report.index_url)
    output.flush()
    output.say(f"for another machine: {report.base}/for/PRESET/simple/", "dim")
