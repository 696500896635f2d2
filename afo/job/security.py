"""The section `security`: what protects a job beyond what protects all of them."""

from typing import Annotated

from msgspec import Meta

from afo.job.section import Section


class Security(Section, frozen=True):
    """Of a job's own connections; `docs/security.md`."""

    tunnel: Annotated[
        bool, Meta(description="TensorFlow's connections go over TLS, and its servers answer tasks of the job alone.")
    ] = False
