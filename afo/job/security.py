"""The sections `acls` and `security`: who may see a job and act on it, and what protects its connections."""

from typing import Annotated

from msgspec import Meta

from afo.job.section import Section

#: Stands for every user.
EVERYBODY = "*"
Users = tuple[Annotated[str, Meta(min_length=1, max_length=100)], ...]


class Acls(Section, frozen=True):
    """Users, by name, who may see or change the job besides its owner; `*` is everybody."""

    view: Annotated[Users, Meta(description="May see it, where the history server authenticates users.")] = ()
    modify: Annotated[
        Users, Meta(description="May see, kill, annotate and profile it, have it save, and delete it once ended.")
    ] = ()

    def may_modify(self, user: str) -> bool:
        """Is this user one of those who may act on the job? The owner may without being named."""
        return bool(user) and (user in self.modify or EVERYBODY in self.modify)

    def may_view(self, user: str) -> bool:
        """Is this user one of those who may see it?"""
        return bool(user) and (user in self.view or EVERYBODY in self.view or self.may_modify(user))


class Security(Section, frozen=True):
    """Security of a job's own connections; see `docs/security.md`."""

    tunnel: Annotated[
        bool,
        Meta(description="TensorFlow's connections go over TLS, and its servers answer only tasks of the job. With "
             "`engine: psplus` it may be set and changes nothing: those connections need no tunnel."),
    ] = False  # fmt: skip
