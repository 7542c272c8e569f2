"""The administration of an index by operators and owners: over a store, or over its server."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from packaging.utils import InvalidName, NormalizedName, canonicalize_name
from packaging.version import Version

from wheelfit.core.durations import parse_duration
from wheelfit.core.filename import project_of
from wheelfit.core.project_patterns import check_patterns, normalised
from wheelfit.core.versions import version_of
from wheelfit.server.store.audit import ACTIONS, AuditFilter
from wheelfit.server.store.database import timestamp
from wheelfit.server.store.tokens import issue_token, open_stage
from wheelfit.sources.page import STATUSES, Status
from wheelfit_runtime.errors import FileProblem, InvalidConfiguration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from wheelfit.server.store.opening import Store
    from wheelfit.server.store.records import Scope, StoredFile, Token

AUDIT_FILTERS = ("project", "actor", "action", "outcome", "since", "until", "max_count")
"""The filters for entries of the audit log."""
_MAX_LIFETIME = 300 * 365 * 86400.0


@dataclass(frozen=True, slots=True)
class StoreAdministration:
    """The administration of an index in its store; results have the types of JSON."""

    store: Store
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    check_files: Callable[[Sequence[StoredFile]], None] = lambda files: None  # noqa: ARG005
    """Raises an error if the user may not change these files."""
    may_read: Callable[[NormalizedName], bool] = lambda project: True  # noqa: ARG005
    """Returns whether a project is visible to the user."""

    def yank(self, names: Sequence[str], reason: str | None) -> list[str]:
        """Yank files, or undo that; return their names.

        :param names: file names, ``NAME==VERSION``, or names of projects.
        :param reason: shown by installers, may be empty; None: undo the yank.
        """
        filenames = self._select_filenames(names)
        self.store.records.yank(filenames, reason, time=timestamp(self.now()))
        return filenames

    def set_status(self, project: str, marker: str, reason: str) -> dict[str, Any]:
        """Set the status of a project (PEP 792); return its name and status.

        :param marker: ``active``, ``archived``, ``deprecated`` or ``quarantined``.
        :param reason: shown by installers, may be empty.
        """
        if marker not in STATUSES:
            raise InvalidConfiguration(f"a status is one of {', '.join(STATUSES)}")
        name = canonicalize_name(project)
        # A project without files, all of which were deleted, has a status too.
        if not self.store.records.serial(name) or not self.may_read(name):
            raise FileProblem("the index has no such project", where=project[:200])
        status = Status(marker, " ".join(reason.split()))
        self.store.records.set_status(name, status, time=timestamp(self.now()))
        return {"project": name, "status": status.marker, "reason": status.reason}

    def delete(self, names: Sequence[str]) -> list[str]:
        """Delete files permanently; return their names."""
        filenames = self._select_filenames(names)
        self.store.records.delete(filenames, time=timestamp(self.now()))
        return filenames

    def open_stage(self, owner: str, lifetime: float) -> dict[str, Any]:
        """Open a stage; return its ``id``, ``expires`` and ``secret``.

        :param lifetime: seconds until it expires.
        """
        stage, secret = open_stage(
            self.store.records, owner, now=self.now(), lifetime=timedelta(seconds=lifetime)
        )
        return {"id": stage.id, "expires": stage.expires, "secret": secret}

    def stages(self) -> list[dict[str, Any]]:
        """Return the open stages, each with its ``files``."""
        records = self.store.records
        return [
            {**asdict(stage), "files": self._staged_files(stage.id)}
            for stage in records.stages()
            if all(map(self.may_read, records.staged_projects(stage.id)))
        ]

    def publish(self, stage: str) -> list[str]:
        """Publish all files of a stage at once; return their names."""
        self._check_stage(stage)
        files = self.store.records.publish(stage, time=timestamp(self.now()))
        return [file.filename for file in files]

    def drop(self, stage: str) -> int:
        """Delete a stage and its files; return their number."""
        self._check_stage(stage)
        return self.store.records.drop(stage)

    def create_token(
        self,
        owner: str,
        scopes: Sequence[Scope],
        projects: Sequence[str] | None,
        lifetime: float | None,
        note: str,
    ) -> dict[str, Any]:
        """Create a token; return it with its ``secret``.

        :param projects: its projects, by names and patterns; None: every project of its owner, and
            new ones.
        :param lifetime: seconds until it expires; None: never.
        """
        token, secret = issue_token(
            self.store.records,
            owner,
            scopes,
            now=self.now(),
            projects=None if projects is None else list(map(_normalised_project, projects)),
            lifetime=None if lifetime is None else timedelta(seconds=lifetime),
            note=note,
        )
        return {**_token_fields(token), "secret": secret}

    def tokens(self) -> list[dict[str, Any]]:
        """Return all tokens, without secrets."""
        return [_token_fields(token) for token in self.store.records.tokens()]

    def revoke(self, token: str) -> bool:
        """Revoke a token by its identifier; return False if it does not exist."""
        return self.store.records.revoke(token)

    def audit(self, filters: Mapping[str, str]) -> list[dict[str, Any]]:
        """Return entries of the audit log, the newest first.

        :param filters: texts by the names in `AUDIT_FILTERS`; empty ones match any.
        """
        action, outcome = filters["action"], filters["outcome"]
        max_count = filters["max_count"] or "100"
        if action and action not in ACTIONS:
            raise InvalidConfiguration(f"actions are {', '.join(ACTIONS)}", where=action[:80])
        if outcome not in ("", "done", "refused"):
            raise InvalidConfiguration("an outcome is done or refused", where=outcome[:80])
        if not (max_count.isascii() and max_count.isdigit() and len(max_count) <= 4):
            raise InvalidConfiguration(
                "the number of entries must be a whole number up to 9999", where=max_count[:80]
            )
        since, until = (
            timestamp(parse_moment(filters[name], self.now())) if filters[name] else ""
            for name in ("since", "until")
        )
        entries = self.store.records.audit.entries(
            AuditFilter(
                project=canonicalize_name(filters["project"]),
                actor=filters["actor"],
                action=action,
                outcome=outcome,
                since=since,
                until=until,
                max_count=int(max_count),
            )
        )
        return [asdict(entry) for entry in entries]

    def close(self) -> None:
        """Close the database."""
        self.store.close()

    def _select_filenames(self, names: Sequence[str]) -> list[str]:
        files = select_files(self.store, names, self.may_read)
        self.check_files(files)
        return [file.filename for file in files]

    def _staged_files(self, stage: str) -> list[dict[str, str]]:
        records = self.store.records
        return [
            {"filename": file.filename, "sha256": file.sha256}
            for project in sorted(records.staged_projects(stage))
            if (listing := records.listing(project, stage)) is not None
            for file in listing.files
            if file.stage == stage
        ]

    def _check_stage(self, stage: str) -> None:
        if stage not in {record.id for record in self.store.records.stages()}:
            raise FileProblem(
                "the stage does not exist: it was published, dropped, or expired", where=stage[:80]
            )


def _normalised_project(name: str) -> str:
    """Return the normalised name of a project, or the pattern of several."""
    if "*" in name or "?" in name:
        check_patterns([name])
        return normalised(name)
    try:
        return canonicalize_name(name, validate=True)
    except InvalidName:
        raise InvalidConfiguration("no project can have this name", where=name) from None


def select_files(
    store: Store, names: Iterable[str], may_read: Callable[[NormalizedName], bool]
) -> tuple[StoredFile, ...]:
    """Select published files by file names, ``NAME==VERSION``, or names of projects.

    :param may_read: returns whether a project is visible; others are treated as missing.
    :raises FileProblem: a name has no match.
    """
    selected: dict[str, StoredFile] = {}
    for text in names:
        name, is_release, version = text.partition("==")
        if not is_release and project_of(text) is not None:
            file = store.records.file(text)
            files = [] if file is None else [file]
        else:
            files = _published_files(
                store, canonicalize_name(name), version if is_release else None
            )
        if not files or not may_read(files[0].project):
            raise FileProblem(
                "the index has no such file, release or project",
                where=text[:200],
                hint="name a file, a release as NAME==VERSION, or a project",
            )
        selected |= {file.filename: file for file in files}
    return tuple(selected.values())


def _published_files(store: Store, name: NormalizedName, version: str | None) -> list[StoredFile]:
    listing = store.records.listing(name)
    if listing is None:
        return []
    if version is None:
        return list(listing.files)
    parsed = version_of(version)
    return [file for file in listing.files if Version(file.version) == parsed]


def project_of_name(name: str) -> str:
    """Return the project of the name of a file, of a release or of a project."""
    return project_of(name) or canonicalize_name(name.partition("==")[0])


def parse_moment(text: str, now: datetime) -> datetime:
    """Return a point in time.

    :param text: a date or time of RFC 3339, in UTC unless it names a zone; or how long ago, as
        ``7d``.
    :raises InvalidConfiguration: it is neither.
    """
    try:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            return now - timedelta(seconds=parse_duration(text))
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise InvalidConfiguration(
            "this is neither a date or time, as 2026-01-31T12:00:00Z, nor how long ago, as 7d",
            where=text[:80],
        ) from None


def parse_seconds(text: str) -> float:
    """Return the seconds of a span of time, for options, files and requests.

    :raises InvalidConfiguration: it is not a span of time.
    """
    try:
        return parse_duration(text)
    except ValueError as error:
        raise InvalidConfiguration(str(error)) from None


def parse_lifetime(value: Any, name: str) -> float:
    """Return the seconds for which a token or a stage is valid, for options and requests.

    :param name: the name of the value, for messages.
    :raises InvalidConfiguration: it is not a span of time, zero, or longer than 300 years.
    """
    seconds = parse_seconds(value) if isinstance(value, str) else value
    is_number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
    if not is_number or not 0 < seconds < _MAX_LIFETIME:
        raise InvalidConfiguration(
            f"{name} must be a span of time of more than 0 seconds and less than 300 years"
        )
    return float(seconds)


def _token_fields(token: Token) -> dict[str, Any]:
    projects = None if token.projects is None else sorted(token.projects)
    return {**asdict(token), "scopes": sorted(token.scopes), "projects": projects}
