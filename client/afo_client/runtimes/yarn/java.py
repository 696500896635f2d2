"""The Java that a submission starts."""

import os
from pathlib import Path


def command() -> str:
    """Its path, or a name to look for on PATH."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else "java"


def realm_options() -> list[str]:
    """Java looks for the realm in /etc alone; everything else that speaks Kerberos here follows `$KRB5_CONFIG`."""
    config = os.environ.get("KRB5_CONFIG", "").partition(":")[0]
    return [f"-Djava.security.krb5.conf={config}"] if config else []
