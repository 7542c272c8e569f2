"""Former place of the requirements and preferences of a request."""

from wheelfit.operations.preferences import choice_policy
from wheelfit.operations.requirements import Wanted, limited, read_wanted, source_of

__all__ = ["Wanted", "choice_policy", "limited", "read_wanted", "source_of"]
