"""A hosted index that tests call without a socket."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from server.running import basic, bearer
from server.uploading import CONTENT_TYPE, fields_of, form

from wheelfit.server.hosting.administration import HostingRules
from wheelfit.server.hosting.application import HostedIndex
from wheelfit.server.hosting.logs import Log
from wheelfit.server.hosting.metrics import Metrics
from wheelfit.server.messages import Request, Response
from wheelfit.server.site.site import Site
from wheelfit.server.store.opening import Store
from wheelfit.server.store.records import Scope
from wheelfit.server.store.stored_index import StoredIndex
from wheelfit.server.store.tokens import issue_token

CLIENT = "192.0.2.7"
START = datetime(2026, 11, 22, 12, tzinfo=UTC)


class Host:
    """A hosted index with its log and a clock that the test sets."""

    def __init__(self, store: Store, rules: HostingRules) -> None:
        self.store = store
        self.time = START
        self.written = io.StringIO()
        self.log = Log(self.written, "json")
        self.index = HostedIndex(
            store,
            log=self.log,
            metrics=Metrics(),
            rules=rules,
            site=partial(Site, recent=StoredIndex(store).recent),
            now=lambda: self.time,
        )

    def token(self, *scopes: Scope, owner: str = "admin", **options: Any) -> str:
        """Make a token; return its secret."""
        return issue_token(self.store.records, owner, scopes, now=self.time, **options)[1]

    def ask(
        self,
        method: str,
        path: str,
        token: str = "",
        said: object = None,
        *,
        kind: str = "application/json",
    ) -> Response:
        """Send a request; requests to the API have the type that it requires."""
        show = bearer if path.startswith("/-/") else basic
        headers = {"authorization": show(token)} if token else {}
        if said is not None or method == "POST":
            headers["content-type"] = kind
        body = io.BytesIO(b"" if said is None else json.dumps(said).encode())
        path, _, query = path.partition("?")
        return self.index(Request(method, path, headers, query=query, body=body, client=CLIENT))

    def upload(self, path: Path, token: str, *, at: str = "/legacy/", accept: str = "") -> Response:
        """Upload a file."""
        content = path.read_bytes()
        body = io.BytesIO(form(path.name, content, fields_of(path.name, content)))
        headers = {"authorization": basic(token), "content-type": CONTENT_TYPE, "accept": accept}
        return self.index(Request("POST", at, headers, body=body, client=CLIENT))


def text(answer: Response) -> str:
    """Return the body of a response."""
    return b"".join(answer.body).decode()
