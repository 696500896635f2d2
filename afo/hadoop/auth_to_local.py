"""Whom Hadoop takes a Kerberos principal for: the rules of `hadoop.security.auth_to_local` in core-site.xml.

https://hadoop.apache.org/docs/r3.4.1/hadoop-project-dist/hadoop-common/SecureMode.html#Mapping_from_Kerberos_principals_to_OS_user_accounts
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from afo.errors import SpecError

PROPERTY, MECHANISM = "hadoop.security.auth_to_local", "hadoop.security.auth_to_local.mechanism"
_RULE = re.compile(
    r"\s*(?:(?P<default>DEFAULT)"
    r"|RULE:\[(?P<parts>\d+):(?P<form>[^\]]*)\](?:\((?P<accept>[^)]*)\))?(?:s/(?P<old>[^/]*)/(?P<new>[^/]*)/(?P<all>g)?)?)"
    r"/?(?P<lower>L)?\s*"
)


class _Rule(NamedTuple):
    default: str | None
    parts: str | None
    form: str | None
    accept: str | None
    old: str | None
    new: str | None
    all: str | None
    lower: str | None

    def apply(self, realm: str, names: list[str], own_realm: str) -> str | None:
        """The user, None where it is not a rule for this principal."""
        of_default = names[0] if realm == own_realm else None
        found = self._build_user(realm, names) if self.default is None else of_default
        return found.lower() if found is not None and self.lower else found

    def _build_user(self, realm: str, names: list[str]) -> str | None:
        if len(names) != int(self.parts or 0):
            return None
        parameters = [realm, *names]
        text = re.sub(r"\$(\d+)", lambda match: parameters[int(match[1])], self.form or "")
        if self.accept is not None and not re.fullmatch(self.accept, text):
            return None
        if not self.old:
            return text
        return re.sub(self.old, lambda match: _replacement(self.new or "", match), text, count=0 if self.all else 1)


def user(principal: str, rules: str, own_realm: str, mechanism: str = "hadoop") -> str | None:
    """The user that the rules make of `name[/host]@REALM`; None where they make none.

    `own_realm` is Kerberos' default realm. Raises `SpecError` for rules that cannot be read.
    """
    name, _, realm = principal.partition("@")
    try:
        results = (rule.apply(realm, name.split("/"), own_realm) for rule in list(_rules(rules or "DEFAULT")))
        found = next((result for result in results if result is not None), None)
    except (re.error, IndexError) as error:
        raise SpecError(f"{PROPERTY} cannot be read: {error}; its rules: {rules!r}") from error
    # Hadoop refuses such a user, unless it is told to take principals as they are.
    return None if found and mechanism.lower() != "mit" and re.search("[/@]", found) else found


def _rules(text: str) -> Iterator[_Rule]:
    rest = text.strip()
    while rest:
        match = _RULE.match(rest)
        if match is None:
            raise SpecError(
                f"{PROPERTY}: {rest!r} does not begin with a rule, RULE:[n:form](accept)s/old/new/g or DEFAULT"
            )
        yield _Rule(**match.groupdict())
        rest = rest[match.end() :]


def _replacement(text: str, match: re.Match[str]) -> str:
    r"""As Java writes it: `$1` is a group, a backslash takes the next letter as it is."""
    return re.sub(
        r"\\(.)|\$(\d)",
        lambda reference: reference[1] if reference[2] is None else match[int(reference[2])] or "",
        text,
    )
