"""API keys and what their tenants may use: a file that holds no key, only what a key is recognised by.

A key is `qk_ID_SECRET`; the secret has 256 random bits, so that its sha256 is enough: there is nothing to guess from.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import os
import re
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import msgspec

from quintain.serve.words import Scope
from quintain.types import FaultKind, HouseError

_KEY = re.compile(r"qk_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
_TENANT = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
_GIBIBYTE = 1024**3
#: Who asks without a key, where none was made.
LOCAL = "local"


class Quota(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The most that one tenant may use at a time. `runs` are played at once, `waiting` wait for that; `run_sandboxes`
    bounds the sandboxes of one run; `kept_bytes` is what its runs and tasks may take on the disk; `streams` may be open
    at once; `requests_per_second` refills a bucket of
    `burst`."""

    sandboxes: int = 16
    runs: int = 2
    run_sandboxes: int = 16
    waiting: int = 100
    kept_bytes: int = 20 * _GIBIBYTE
    streams: int = 50
    requests_per_second: float = 100.0
    burst: int = 200

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if not getattr(self, name) >= (1 if name in ("burst", "requests_per_second") else 0):
                raise ValueError(f"quota.{name} is too small, found {getattr(self, name)!r}")


class Key(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is kept of a key: `digest` is the sha256 (hex) of its secret. Times are Unix seconds."""

    id: str
    tenant: str
    scopes: tuple[Scope, ...]
    digest: str
    note: str = ""
    created_unix_seconds: float = 0.0
    expires_unix_seconds: float | None = None


class _Kept(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    keys: tuple[Key, ...] = ()
    quotas: dict[str, Quota] = {}


class KeyRing:
    """The keys in `path` (mode 0600). What another process changes there is in force with the next request.

    Raises HouseError(STORE_ERROR) for a file that cannot be read as such: then nobody gets in.
    """

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.time) -> None:
        self.path = path
        self._clock = clock
        self._stamp: tuple[int, int, int] | None = (-1, -1, -1)
        self._kept = _Kept()
        self._keys: Mapping[str, Key] = {}

    @property
    def keys(self) -> tuple[Key, ...]:
        self._refresh()
        return self._kept.keys

    def create(
        self, tenant: str, scopes: Iterable[Scope], *, note: str = "", seconds: float | None = None,
    ) -> tuple[str, Key]:
        """A new key, as its owner needs it: this is the only time that it is there. Raises ValueError for a tenant
        that cannot be called so."""
        if _TENANT.fullmatch(tenant) is None:
            raise ValueError(f"expected a tenant of at most 32 of a-z, 0-9 and -, found {tenant!r}")
        now, secret, id = self._clock(), secrets.token_urlsafe(32), secrets.token_hex(6)
        key = Key(
            id=id, tenant=tenant, scopes=tuple(sorted(set(scopes))), digest=_digest(secret), note=note,
            created_unix_seconds=now, expires_unix_seconds=None if seconds is None else now + seconds,
        )
        self._change(lambda kept: msgspec.structs.replace(kept, keys=(*kept.keys, key)))
        return f"qk_{id}_{secret}", key

    def revoke(self, id: str) -> Key:
        """From now on it opens nothing. Raises KeyError for an id that is not there."""
        found = {key.id: key for key in self.keys}[id]
        self._change(lambda kept: msgspec.structs.replace(
            kept, keys=tuple(key for key in kept.keys if key.id != id)))
        return found

    def allow(self, tenant: str, quota: Quota) -> None:
        """What a tenant may use, from now on."""
        self._change(lambda kept: msgspec.structs.replace(kept, quotas={**kept.quotas, tenant: quota}))

    def quota(self, tenant: str) -> Quota:
        self._refresh()
        return self._kept.quotas.get(tenant, Quota())

    def known(self, presented: str) -> Key | None:
        """The key that somebody presents, if it is one and has not expired."""
        self._refresh()
        parts = _KEY.fullmatch(presented)
        key = self._keys.get(parts[1]) if parts is not None else None
        # compared even where there is none, so that the time says nothing of which ids there are
        same = hmac.compare_digest(_digest(parts[2] if parts is not None else ""), key.digest if key else "0" * 64)
        if key is None or not same:
            return None
        return None if key.expires_unix_seconds is not None and key.expires_unix_seconds <= self._clock() else key

    def _refresh(self) -> None:
        try:
            found = self.path.stat()
            stamp = (found.st_ino, found.st_mtime_ns, found.st_size)
        except FileNotFoundError:
            stamp = None
        if stamp == self._stamp:
            return
        self._kept = self._read() if stamp is not None else _Kept()
        self._keys = {key.id: key for key in self._kept.keys}
        self._stamp = stamp

    def _read(self) -> _Kept:
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=_Kept)
        except (OSError, msgspec.MsgspecError) as error:
            raise HouseError(FaultKind.STORE_ERROR, f"{self.path}: expected a file of keys, found {error}") from None

    def _change(self, decide: Callable[[_Kept], _Kept]) -> None:
        """Whole or not at all, and one process at a time."""
        draft = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with open(self.path.with_name(self.path.name + ".lock"), "ab") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                kept = decide(self._read() if self.path.exists() else _Kept())
                draft.unlink(missing_ok=True)
                with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                    file.write(msgspec.json.format(msgspec.json.encode(kept), indent=2) + b"\n")
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(draft, self.path)
        except OSError as error:
            raise HouseError(FaultKind.STORE_ERROR, f"{self.path}: cannot be written: {error.strerror}") from None
        self._refresh()


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()
