"""What the form "which one would I get?" says: a preset, or a host file that is uploaded."""

from __future__ import annotations

import tempfile
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from wheelfit.errors import StorageUnavailable
from wheelfit.server.site.machines import machine_of_file, machine_of_preset
from wheelfit.server.store.blobs import draft_in
from wheelfit.server.uploads.form import FormLimits, read_form
from wheelfit_runtime.errors import FileProblem, UserError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from packaging.tags import Tag

    from wheelfit.server.messages import Request
    from wheelfit.server.site.machines import Machine
    from wheelfit.server.store.blobs import Draft


_LIMITS = FormLimits(file=256 << 10, fields=4 << 10, parts=8)
"""A host file has some kilobytes."""
_AT_ONCE = threading.BoundedSemaphore(4)
"""Anybody may send such a form, as slowly as is borne: of the threads for bodies, uploads of
those who have a token shall always have most."""
_LONGEST_QUERY = 4 << 10
_MOST_FIELDS = 20
_LONGEST_VALUE = 400
_LONGEST_NAME = 100


@dataclass(frozen=True, slots=True)
class Asked:
    """Hold what was typed, so that the form can show it again."""

    preset: str = ""
    python: str = ""
    """Minor version; empty: any."""
    file: str = ""
    """How an uploaded file is called."""
    data: bytes | None = None
    """The uploaded file."""

    def machine(self, wheels: Iterable[frozenset[Tag]]) -> Machine:
        """Return the machine that is meant.

        :raises UserError: there is none of that name, or the file is none.
        """
        if self.data is None:
            return machine_of_preset(self.preset, self.python, wheels)
        if not self.data:
            raise FileProblem(
                "no host file came with the form",
                hint="choose one; `wheelfit probe -o FILE` writes it on the machine",
            )
        return machine_of_file(self.data, self.file or "the host file", self.python, wheels)


def read_query(query: str) -> Mapping[str, str]:
    """Return the first value of each field of a query, without blanks around it.

    :raises UserError: it is too long, or has too many fields.
    """
    if len(query) > _LONGEST_QUERY:
        raise UserError("the address is too long")
    try:
        fields = parse_qs(query, keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    except ValueError:
        raise UserError("the address has too many fields") from None
    return {name: values[0].strip()[:_LONGEST_VALUE] for name, values in fields.items()}


def read_upload(request: Request) -> Asked:
    """Read a form with a host file.

    :raises UploadRefused: it is no such form, or too large.
    :raises StorageUnavailable: too many come at the moment.
    """
    if not _AT_ONCE.acquire(blocking=False):
        raise StorageUnavailable("too many forms are being read at the moment", hint="try again")
    try:
        return _read(request)
    finally:
        _AT_ONCE.release()


def _read(request: Request) -> Asked:
    content_type = request.headers.get("content-type", "")
    with read_form(request.body, content_type, _Temporary(), limits=_LIMITS) as upload:
        name = Path(upload.filename.replace("\\", "/")).name[:_LONGEST_NAME]
        return Asked(
            python=upload.first("python")[:_LONGEST_VALUE],
            file=name,
            data=upload.draft.path.read_bytes(),
        )


class _Temporary:
    """Give files that are gone when the form has been read."""

    @contextmanager
    def draft(self) -> Iterator[Draft]:
        """Return one."""
        with (
            tempfile.TemporaryDirectory(prefix="wheelfit-") as folder,
            draft_in(Path(folder)) as one,
        ):
            yield one
