"""The sections `acls` and `security`: who may see a job and act on it, and what protects its connections."""

from typing import Annotated

from msgspec import Meta

from afo.job.section import Section

#: Stands for every user.
EVERYBODY = "*"
Users = tuple[Annotated[str, Meta(min_length=1, max_length=100)], ...]


class Acls(Section, frozen=True):
    """Users who may, beyond the one who submitted the job, by name; `*` is everybody."""

    view: Annotated[Users, Meta(description="See it where the history server knows who asks; `*`: everybody.")] = ()
    modify: Annotated[Users, Meta(description="See it, kill it, have it save, delete it once it has ended.")] = ()

    def may_modify(self, user: str) -> bool:
        """Is this user one of those who may act on the job? The owner may without being named."""
        return bool(user) and (user in self.modify or EVERYBODY in self.modify)

    def may_view(self, user: str) -> bool:
        """Is this user one of those who may see it?"""
        return bool(user) and (user in self.view or EVERYBODY in self.view or self.may_modify(user))


class Security(Section, frozen=True):
    """Of a job's own connections, beyond what protects all jobs; `docs/security.md`."""

    tunnel: Annotated[
        bool, Meta(description="TensorFlow's connections go over TLS, and its servers answer tasks of the job alone.")
    ] = False
