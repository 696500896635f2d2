"""Kerberos' tickets, by the system's GSSAPI library: whose there is, and what proves it to a web server (SPNEGO).

The library is MIT's `libgssapi_krb5.so.2`, which hdfs-native loads as well; Python packages of it would have to be
compiled (docs/adr/0017-gssapi.md). C bindings: RFC 2744; SPNEGO over HTTP: RFC 4559.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import Structure, byref, c_char_p, c_int, c_size_t, c_uint32, c_void_p
from typing import NamedTuple

from afo.errors import PermissionDenied

#: Names a keytab by which the library gets tickets.
KEYTAB = "KRB5_CLIENT_KTNAME"
_LIBRARY = "libgssapi_krb5.so.2"
_FUNCTIONS = (
    "acquire_cred", "inquire_cred", "canonicalize_name", "display_name", "import_name", "init_sec_context"
)  # fmt: skip
#: What to do by a word of GSSAPI's, or of hdfs-native's about it; the first that fits.
_ADVICE = (
    ("Failed to load libgssapi", "install Kerberos' library, e.g. Debian's libgssapi-krb5-2"),
    ("expired", "the ticket or token is too old: run `kinit`"),
    ("Clock skew", "synchronise this machine's clock"),
    ("NO_CRED", "there is no valid ticket: run `kinit`, or have $HADOOP_TOKEN_FILE_LOCATION name a file with a"
     " delegation token for just this address"),
    ("No Kerberos credentials available", "there is no valid ticket: run `kinit`"),
    ("", "check the ticket (`klist`) and the realm in krb5.conf"),
)  # fmt: skip
_INITIATE, _GSS_CODE, _MECH_CODE = 1, 1, 2
_MUTUAL_FLAG = 2
_ERRORS = 0xFFFF0000
_INDEFINITE = 0xFFFFFFFF
_SPNEGO = bytes.fromhex("2b0601050502")
_KERBEROS = bytes.fromhex("2a864886f712010202")


class Ticket(NamedTuple):
    """Who this process is to Kerberos. `seconds` of life are left."""

    principal: str
    seconds: int


class _Buffer(Structure):
    _fields_ = [("length", c_size_t), ("value", c_void_p)]

    @property
    def content(self) -> bytes:
        return ctypes.string_at(self.value, self.length) if self.value else b""


class _Oid(Structure):
    _fields_ = [("length", c_uint32), ("elements", c_char_p)]


def advice(text: str) -> str:
    """What to do about an error of GSSAPI's."""
    return next(advice for word, advice in _ADVICE if word in text)


def ticket(principal: str = "") -> Ticket:
    """The one in `$KRB5CCNAME` of `kinit`, or got by the keytab in `$KRB5_CLIENT_KTNAME`; of `principal`, or of any.

    Raises PermissionDenied where there is none that is valid.
    """
    gss = _Calls(f"there is no ticket of {principal or 'Kerberos'}")
    with gss.new_handle("name") as wanted, gss.new_handle("cred") as credentials:
        if principal:
            gss.name(principal, "GSS_KRB5_NT_PRINCIPAL_NAME", wanted)
        gss.do("acquire_cred", wanted, c_uint32(0), None, c_int(_INITIATE), byref(credentials), None, None)
        lifetime = c_uint32()
        with gss.new_handle("name") as name, gss.buffer() as text:
            gss.do("inquire_cred", credentials, byref(name), byref(lifetime), None, None)
            gss.do("display_name", name, byref(text), None)
            seconds = lifetime.value
            if not seconds:
                raise PermissionDenied(f"the ticket of {text.content.decode()} has expired; run `kinit`")
            return Ticket(text.content.decode(), seconds if seconds != _INDEFINITE else 1 << 31)


def default_realm() -> str:
    """That of krb5.conf, '' where it names none. Raises PermissionDenied without the library."""
    gss = _Calls("Kerberos has no default realm")
    with gss.new_handle("name") as name, gss.new_handle("name") as whole, gss.buffer() as text:
        gss.name("somebody", "GSS_C_NT_USER_NAME", name)
        try:
            gss.do("canonicalize_name", name, byref(_Oid(len(_KERBEROS), _KERBEROS)), byref(whole))
        except PermissionDenied:
            return ""
        gss.do("display_name", whole, byref(text), None)
        return text.content.decode().partition("@")[2]


def negotiate(host: str) -> bytes:
    """What proves to the web server on `host` (its principal is HTTP/host) who asks. Raises PermissionDenied."""
    ticket()  # which says more clearly that there is none
    gss = _Calls(f"cannot prove to HTTP/{host} who asks")
    with gss.new_handle("name") as name:
        gss.name(f"HTTP@{host}", "GSS_C_NT_HOSTBASED_SERVICE", name)
        with gss.new_handle("sec_context") as context, gss.buffer() as token:
            mechanism = _Oid(len(_SPNEGO), _SPNEGO)
            gss.do("init_sec_context", None, byref(context), name, byref(mechanism), c_uint32(_MUTUAL_FLAG),
                   c_uint32(0), None, None, None, byref(token), None, None)  # fmt: skip
            return token.content


class _Calls:
    """Calls of the library; `what` begins the text of their errors."""

    def __init__(self, what: str) -> None:
        self._what = what
        self.library = _load_library()

    def do(self, function: str, *arguments: object) -> None:
        """Raises PermissionDenied."""
        minor = c_uint32()
        major = getattr(self.library, f"gss_{function}")(byref(minor), *arguments)
        if major & _ERRORS:
            words = f"{self._status(major, _GSS_CODE)}: {self._status(minor.value, _MECH_CODE)}"
            raise PermissionDenied(f"{self._what}; {advice(words)} ({words})")

    def name(self, text: str, kind: str, name: c_void_p) -> None:
        """Fills in `name`; `kind` is the library's symbol of how it is written."""
        content = text.encode()
        described = _Buffer(len(content), ctypes.cast(c_char_p(content), c_void_p))
        self.do("import_name", byref(described), c_void_p.in_dll(self.library, kind), byref(name))

    @contextmanager
    def new_handle(self, kind: str) -> Iterator[c_void_p]:
        """A handle that a call fills in; released."""
        handle = c_void_p()
        try:
            yield handle
        finally:
            if handle:
                extra = (None,) if kind == "sec_context" else ()
                verb = "delete" if extra else "release"
                getattr(self.library, f"gss_{verb}_{kind}")(byref(c_uint32()), byref(handle), *extra)

    @contextmanager
    def buffer(self) -> Iterator[_Buffer]:
        """One that a call fills in; released."""
        buffer = _Buffer()
        try:
            yield buffer
        finally:
            self.library.gss_release_buffer(byref(c_uint32()), byref(buffer))

    def _status(self, code: int, kind: int) -> str:
        with self.buffer() as text:
            more = c_uint32()
            self.library.gss_display_status(
                byref(c_uint32()), c_uint32(code), c_int(kind), None, byref(more), byref(text)
            )
            return text.content.decode(errors="replace")


@functools.cache
def _load_library() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(_LIBRARY)
    except OSError as error:
        raise PermissionDenied(f"Failed to load libgssapi: {error}; {advice('Failed to load libgssapi')}") from error
    for function in _FUNCTIONS:
        getattr(library, f"gss_{function}").restype = c_uint32
    return library
