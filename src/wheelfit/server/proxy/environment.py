"""Environment variables that send installers to the proxy."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


_LOOPBACK_HOSTS = ("127.0.0.1", "localhost")


def proxy_environment(
    environ: Mapping[str, str],
    base: str,
    *,
    replaces_indexes: bool = False,
    replaces_pip_indexes: bool = False,
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
    :param replaces_indexes: whether the proxy replaces all indexes.
    :param replaces_pip_indexes: whether it does so for pip, which merges the pages of all indexes.
    :param extra_index_urls: the configured extra indexes of pip, which a variable would replace.
    :param pip_index: the index beside the proxy that pip uses instead of its default, which could
        have a public project of the same name; None: as configured.
    :param uv_index: the same for uv.
    :param in_project: whether uv changes a project, whose files must not name the proxy.
    :param cutoff: the time after which uploaded files are ignored, also on the indexes beside the
        proxy; None: as pip and uv are configured.
    """
    variables = dict(environ)
    for_pip, for_uv = f"{base}pip/simple/", f"{base}uv/simple/"
    variables["PDM_PYPI_URL"] = f"{base}pdm/full/simple/"
    # `uv add` writes the URLs of UV_INDEX and UV_DEFAULT_INDEX into the project's own file, but not
    # those of the older variables UV_EXTRA_INDEX_URL and UV_INDEX_URL.
    if replaces_indexes:
        for name in ("UV_INDEX", "UV_DEFAULT_INDEX"):
            variables.pop(name, None)
        variables |= {
            # pip ignores an empty variable, and uses its configuration.
            "PIP_INDEX_URL": for_pip,
            "PIP_EXTRA_INDEX_URL": for_pip,
            # uv uses the first of these, then the indexes of its files, then the second one.
            "UV_EXTRA_INDEX_URL": for_uv,
            "UV_INDEX_URL": for_uv,
        }
    else:
        uv_indexes = environ.get("UV_INDEX", "").split()
        if not uv_indexes:
            extra = environ.get("UV_EXTRA_INDEX_URL", "").split()
            variables["UV_EXTRA_INDEX_URL"] = " ".join([for_uv, *extra])
        elif not in_project:
            # These are used before the indexes of uv's files.
            variables["UV_INDEX"] = " ".join([for_uv, *uv_indexes])
        if replaces_pip_indexes:
            full_for_pip = f"{base}pip/full/simple/"
            variables |= {"PIP_INDEX_URL": full_for_pip, "PIP_EXTRA_INDEX_URL": full_for_pip}
        else:
            variables["PIP_EXTRA_INDEX_URL"] = " ".join([*extra_index_urls, for_pip])
            if pip_index is not None:
                variables["PIP_INDEX_URL"] = pip_index
        if uv_index is not None:
            variables.pop("UV_DEFAULT_INDEX", None)
            variables["UV_INDEX_URL"] = uv_index
    if cutoff is not None and not replaces_indexes:
        text = cutoff.astimezone(UTC).isoformat(timespec="seconds")
        variables["UV_EXCLUDE_NEWER"] = environ.get("UV_EXCLUDE_NEWER") or text
        if not replaces_pip_indexes:
            variables["PIP_UPLOADED_PRIOR_TO"] = environ.get("PIP_UPLOADED_PRIOR_TO") or text
    for name in ("NO_PROXY", "no_proxy"):
        value = environ.get(name) or environ.get(name.swapcase()) or ""
        hosts = [host.strip() for host in value.split(",") if host.strip()]
        variables[name] = ",".join(dict.fromkeys((*hosts, *_LOOPBACK_HOSTS)))
    return variables
