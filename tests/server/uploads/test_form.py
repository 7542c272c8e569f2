"""The form of the upload API, parsed while it arrives."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from server.uploading import BOUNDARY, CONTENT_TYPE, fields_of, form

from wheelfit.errors import UploadRefused
from wheelfit.server.store.opening import Store
from wheelfit.server.uploads.form import FormLimits, read_form

NAME = "some-1.0-py3-none-any.whl"
CONTENT = b"\r\n--not the boundary\r\n" * 50_000


@pytest.fixture
def store(opened: Callable[[], Store]) -> Store:
    """Return a store."""
    return opened()


class Drops(io.BytesIO):
    """A body that arrives a few bytes at a time."""

    def read(self, size: int | None = -1, /) -> bytes:
        """Return the next few bytes."""
        return super().read(min(size or 1, 977))


def refusal(store: Store, body: bytes, kind: str = CONTENT_TYPE, **limits: int) -> str:
    """Return the only reason for which a form is refused."""
    with (
        pytest.raises(UploadRefused) as excinfo,
        read_form(io.BytesIO(body), kind, store.blobs.draft(), limits=FormLimits(**limits)),
    ):
        pass
    (reason,) = excinfo.value.details
    return str(reason["reference"])


@pytest.mark.parametrize("body", [io.BytesIO, Drops])
def test_pieces_of_any_size(
    store: Store, body: Callable[[bytes], io.BytesIO], tmp_path: Path
) -> None:
    """Fields and file do not depend on how the body is cut into pieces."""
    fields = fields_of(NAME, CONTENT)
    with read_form(body(form(NAME, CONTENT, fields)), CONTENT_TYPE, store.blobs.draft()) as came:
        assert came.filename == NAME
        assert came.draft.path.read_bytes() == CONTENT
        assert came.draft.sha256 == fields["sha256_digest"]
        assert came.draft.blake2_256 == fields["blake2_256_digest"]
        assert {name: values[0] for name, values in came.fields.items()} == fields
        assert came.first("nothing") == ""
    assert not list(tmp_path.rglob("*.part"))


def test_repeated_fields(store: Store) -> None:
    """Metadata fields can be repeated, and keep their order."""
    extra = "".join(
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="Requires-Dist"\r\n\r\n{one}\r\n'
        for one in ("numpy", "scipy ; extra == 'ü'")
    )
    body = extra.encode() + form(NAME, b"", {})
    with read_form(io.BytesIO(body), CONTENT_TYPE, store.blobs.draft()) as came:
        assert came.fields["requires_dist"] == ("numpy", "scipy ; extra == 'ü'")


def altered(old: bytes, new: bytes, fields: Mapping[str, str] = {"name": "some"}) -> bytes:
    """Write a form with one change."""
    written = form(NAME, b"abc", fields)
    assert old in written
    return written.replace(old, new, 1)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"nothing of a form",
        form(NAME, b"abc", {})[:-8],
        altered(b'name="content"', b'name="other"'),
        altered(b'; name="content"', b""),
        altered(b'; filename="' + NAME.encode() + b'"', b""),
        altered(b"form-data", b"attachment"),
        altered(b"some", b"\xff\xfe"),
        altered(b"Content-Disposition", b"Content Disposition"),
        form(NAME, b"abc", {}).removesuffix(b"--\r\n") + b"\r\n" + form(NAME, b"abc", {}),
    ],
)
def test_invalid_forms(store: Store, body: bytes, tmp_path: Path) -> None:
    """Invalid or incomplete forms are refused, and leave nothing."""
    assert refusal(store, body) == "bad-form"
    assert not list(tmp_path.rglob("*.part"))


@pytest.mark.parametrize(
    "kind",
    ["", "application/json", "multipart/form-data", "multipart/form-data; boundary=",
     f"multipart/form-data; boundary={'x' * 5000}", "multipart/mixed; boundary=x", "\x00é"],
)  # fmt: skip
def test_other_content_types(store: Store, kind: str) -> None:
    """Other content types are refused."""
    assert refusal(store, form(NAME, b"abc", {}), kind) == "bad-form"


def test_limits(store: Store) -> None:
    """Size of the file, size of the fields and number of fields are limited."""
    body = form(NAME, bytes(5000), {f"field{number}": "y" * 100 for number in range(50)})
    assert refusal(store, body, file=4999) == "too-large"
    assert refusal(store, body, fields=4999) == "bad-form"
    assert refusal(store, body, parts=50) == "bad-form"
    limits = FormLimits(file=5000, fields=5000, parts=51)
    with read_form(io.BytesIO(body), CONTENT_TYPE, store.blobs.draft(), limits=limits) as came:
        assert came.draft.size == 5000


def test_endless_part_headers(store: Store) -> None:
    """Endless headers of a part are refused before they fill the memory."""
    body = f"--{BOUNDARY}\r\n".encode() + b"X-Header: y\r\n" * 100_000
    assert refusal(store, body) == "bad-form"
    assert refusal(store, f"--{BOUNDARY}\r\nX: ".encode() + b"y" * 1_000_000) == "bad-form"


@pytest.mark.parametrize("where", ["headers", "behind"])
def test_limits_outside_fields(store: Store, where: str) -> None:
    """Part headers and the epilogue count against the limit."""
    fields = fields_of(NAME, b"x")
    body = form(NAME, b"x", fields)
    assert sum(map(len, fields.values())) < 2000
    if where == "headers":
        part = f"--{BOUNDARY}\r\nContent-Disposition: form-data; name=a\r\nX: {'y' * 2000}\r\n"
        body = f"{part}\r\n\r\n".encode() * 4 + body
    else:
        body += bytes(1 << 19)
    assert refusal(store, body, fields=6000) == "bad-form"
