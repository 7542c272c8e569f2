"""What owners and operators may have a server do, by the address and the method of a request."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from wheelfit.server.hosting.access import OPERATOR, Denied, is_operator
from wheelfit.server.hosting.administration import StoreAdministration
from wheelfit.server.store.tokens import written
from wheelfit_runtime.errors import InvalidConfiguration

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from wheelfit.server.hosting.access import Visitor
    from wheelfit.server.hosting.rules import Rules
    from wheelfit.server.hosting.said import Said
    from wheelfit.server.store.opening import Store
    from wheelfit.server.store.records import Scope, StoredFile

    Result = Mapping[str, object]


_SCOPES = ("read", "upload", "admin")


@dataclass(frozen=True, slots=True)
class Acts:
    """Do what somebody may do with an index beside uploading.

    Each of ``files``, ``stages`` and ``tokens`` takes the method, the words of the address, what
    was said and who asks; it returns what is answered, or None if there is no such act.
    """

    store: Store
    rules: Rules
    now: Callable[[], datetime]

    def do(self, method: str, words: Sequence[str], said: Said, who: Visitor) -> Result | None:
        """Do what is asked for; None: there is no such act.

        :raises Denied: he may not.
        :raises UserError: it cannot be done.
        """
        for acts in (self.files, self.stages, self.tokens):
            result = acts(method, words, said, who)
            if result is not None:
                return result
        return None

    def files(self, method: str, words: Sequence[str], said: Said, who: Visitor) -> Result | None:
        """Yank files, take that back, or delete them."""
        match method, *words:
            case ["POST", ("yank" | "unyank") as act]:
                acts = replace(self._acts, admits=lambda files: _need_upload(who, files))
                reason = said.text("reason") if act == "yank" else None
                return {"files": acts.yank(said.texts("what"), reason)}
            case ["POST", "delete"]:
                acts = replace(self._acts, admits=lambda files: self._need_delete(who, files))
                return {"files": acts.delete(said.texts("what"))}
        return None

    def stages(self, method: str, words: Sequence[str], said: Said, who: Visitor) -> Result | None:
        """List, open, publish and drop stages."""
        match method, *words:
            case ["GET", "stages"]:
                who.need_scope("upload")
                stages = self._acts.stages()
                if not is_operator(who.token):
                    stages = [one for one in stages if one["owner"] == who.token.owner]
                return {"stages": stages}
            case ["POST", "stages"]:
                who.need_scope("upload")
                lasts = said.seconds("lasts", self.rules.stage_lasts)
                return self._acts.open_stage(who.token.owner, lasts)
            case ["POST", "stages", stage, "publish"]:
                who.need_whole_stage(stage, now=self.now())
                return {"files": self._acts.publish(stage)}
            case ["DELETE", "stages", stage]:
                who.need_whole_stage(stage, now=self.now())
                return {"count": self._acts.drop(stage)}
        return None

    def tokens(self, method: str, words: Sequence[str], said: Said, who: Visitor) -> Result | None:
        """List, make and revoke tokens."""
        if words[:1] != ["tokens"]:
            return None
        who.need_operator()
        match method, *words[1:]:
            case ["GET"]:
                return {"tokens": self._acts.tokens()}
            case ["POST"]:
                return self._create_token(said)
            case ["DELETE", token]:
                return {"revoked": self._acts.revoke(token)}
        return None

    @property
    def _acts(self) -> StoreAdministration:
        return StoreAdministration(self.store, self.now)

    def _create_token(self, said: Said) -> Result:
        scopes = said.texts("scopes")
        if not scopes or not set(scopes) <= set(_SCOPES):
            raise InvalidConfiguration(f"scopes are {', '.join(_SCOPES)}")
        return self._acts.create_token(
            said.text("owner", OPERATOR),
            scopes,  # type: ignore[arg-type]  # they were looked at
            said.texts("projects") if said.values.get("projects") is not None else None,
            said.seconds("lasts", 0.0) or None,
            said.text("note"),
        )

    def _need_delete(self, who: Visitor, files: Sequence[StoredFile]) -> None:
        rule = self.rules.deletes
        if rule == "never":
            raise Denied(403, "nothing is ever deleted from this index; yank it")
        _need_upload(who, files)
        if "admin" in who.token.scopes:
            return
        if rule == "admin":
            raise Denied(403, "a token of the scope admin is needed to delete; yank it")
        since = written(self.now() - rule)
        if late := [one.filename for one in files if one.uploaded < since]:
            raise Denied(
                403, f"{late[0]} was uploaded too long ago to be deleted without admin; yank it"
            )


def _need_upload(who: Visitor, files: Sequence[StoredFile]) -> None:
    scope: Scope = "upload"
    for project in {one.project for one in files}:
        who.need(scope, project)
