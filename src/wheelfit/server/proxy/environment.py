"""Environment variables that send installers to the proxy."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime


_HERE = ("127.0.0.1", "localhost")


def environment_for(
    environ: Mapping[str, str],
    base: str,
    *,
    whole: bool = False,
    whole_for_pip: bool = False,
    extra_index_urls: Iterable[str] = (),
    pip_index: str | None = None,
    uv_index: str | None = None,
    in_project: bool = False,
    cutoff: datetime | None = None,
) -> dict[str, str]:
    """Return an environment in which pip, uv and pdm use the proxy.

    It replaces all other indexes, or comes beside them: then uv uses it first, and pip takes the
    variant by its build tag. pdm has one index only, so it gets all projects from the proxy.

    :param base: URL of the proxy, ending with a slash.
    :param whole: whether the proxy replaces all indexes.
    :param whole_for_pip: whether it does so for pip, which would put the pages of all together.
    :param extra_index_urls: the configured extra indexes of pip, which a variable would replace.
    :param pip_index: the index beside the proxy that pip uses instead of its default, which could
        have a public project of the same name; None: as configured.
    :param uv_index: the same for uv.
    :param in_project: whether uv changes a project, whose files must not name the proxy.
    :param cutoff: files uploaded later are too new, also on the indexes beside the proxy; None: as
        pip and uv are configured.
    """
    changed = dict(environ)
    for_pip, for_uv = f"{base}pip/simple/", f"{base}uv/simple/"
    changed["PDM_PYPI_URL"] = f"{base}pdm/full/simple/"
    # Of the newer variables `uv add` writes the URLs down, in the project's own file.
    if whole:
        for name in ("UV_INDEX", "UV_DEFAULT_INDEX"):
            changed.pop(name, None)
        changed |= {
            # pip ignores an empty variable, and uses its configuration.
            "PIP_INDEX_URL": for_pip,
            "PIP_EXTRA_INDEX_URL": for_pip,
            # First as well as last: an index of uv's files would be used before the last one.
            "UV_EXTRA_INDEX_URL": for_uv,
            "UV_INDEX_URL": for_uv,
        }
    else:
        own = environ.get("UV_INDEX", "").split()
        if not own:
            extra = environ.get("UV_EXTRA_INDEX_URL", "").split()
            changed["UV_EXTRA_INDEX_URL"] = " ".join([for_uv, *extra])
        elif not in_project:
            changed["UV_INDEX"] = " ".join([for_uv, *own])  # its own come before the others
        if whole_for_pip:
            all_of_pip = f"{base}pip/full/simple/"
            changed |= {"PIP_INDEX_URL": all_of_pip, "PIP_EXTRA_INDEX_URL": all_of_pip}
        else:
            changed["PIP_EXTRA_INDEX_URL"] = " ".join([*extra_index_urls, for_pip])
            if pip_index is not None:
                changed["PIP_INDEX_URL"] = pip_index
        if uv_index is not None:
            changed.pop("UV_DEFAULT_INDEX", None)
            changed["UV_INDEX_URL"] = uv_index
    if cutoff is not None and not whole:
        text = cutoff.astimezone(UTC).isoformat(timespec="seconds")
        for name in ("PIP_UPLOADED_PRIOR_TO",) * (not whole_for_pip) + ("UV_EXCLUDE_NEWER",):
            changed[name] = environ.get(name) or text
    for name in ("NO_PROXY", "no_proxy"):
        known = [host.strip() for host in _first(environ, name).split(",") if host.strip()]
        changed[name] = ",".join(dict.fromkeys((*known, *_HERE)))
    return changed


def _first(environ: Mapping[str, str], name: str) -> str:
    """Return a variable by its name in upper or lower case."""
    return environ.get(name) or environ.get(name.swapcase()) or ""
