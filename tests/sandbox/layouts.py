"""OCI layouts and static programs made on the spot, for tests of images."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import platform
import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path

HELLO = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
int main(int argc, char **argv) {
  if (argc > 2 && !strcmp(argv[1], "cat")) { FILE *f = fopen(argv[2], "r"); if (!f) { perror(argv[2]); return 1; } int c; while ((c = fgetc(f)) != EOF) putchar(c); return 0; }
  if (argc > 2 && !strcmp(argv[1], "write")) { FILE *f = fopen(argv[2], "w"); if (!f || fputs("written\n", f) < 0 || fclose(f)) { perror(argv[2]); return 1; } return 0; }
  if (argc > 2 && !strcmp(argv[1], "rm")) { if (unlink(argv[2]) && rmdir(argv[2])) { perror(argv[2]); return 1; } return 0; }
  if (argc > 2 && !strcmp(argv[1], "mkdir")) { if (mkdir(argv[2], 0755)) { perror(argv[2]); return 1; } return 0; }
  if (argc > 2 && !strcmp(argv[1], "env")) { char *v = getenv(argv[2]); puts(v ? v : "unset"); return 0; }
  printf("hello from %s, user %d\n", argv[0], (int)geteuid());
  return 0;
}
"""  # noqa: E501


def static_program(folder: Path) -> bytes | None:
    """The bytes of a program that needs nothing but the kernel; `None` where none can be made."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    source, target = folder / "hello.c", folder / "hello"
    source.write_text(HELLO)
    words = [compiler, "-Os", "-static", "-o", str(target), str(source)]
    done = subprocess.run(words, capture_output=True, check=False)
    return target.read_bytes() if done.returncode == 0 else None


def member(name: str, content: bytes = b"", **fields: object) -> tuple[tarfile.TarInfo, bytes]:
    """One entry of a layer; a name with a final slash is a directory; `linkname` makes it a symlink unless `type` says
    otherwise."""
    info = tarfile.TarInfo(name.rstrip("/"))
    info.mode = 0o755
    if name.endswith("/"):
        info.type = tarfile.DIRTYPE
    elif "linkname" in fields:
        info.type = tarfile.SYMTYPE
    for field, value in fields.items():
        setattr(info, field, value)
    info.size = len(content)
    return info, content


def tar_of(members: Sequence[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for info, content in members:
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


def layout(
    place: Path, layers: Sequence[Sequence[tuple[tarfile.TarInfo, bytes]]], *, config: dict[str, object] | None = None,
    tag: str = "latest", packed: str = "gzip", machine: str | None = None,
) -> Path:
    """An OCI layout with one image."""
    blobs = place / "blobs/sha256"
    blobs.mkdir(parents=True, exist_ok=True)

    def put(content: bytes, kind: str) -> dict[str, object]:
        name = hashlib.sha256(content).hexdigest()
        (blobs / name).write_bytes(content)
        return {"mediaType": kind, "digest": f"sha256:{name}", "size": len(content)}

    plain = [tar_of(members) for members in layers]
    pack = {"gzip": lambda b: gzip.compress(b, mtime=0), "none": lambda b: b, "zstd": zstd}[packed]
    architecture = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    settings = {
        "architecture": architecture, "os": "linux", "config": config or {},
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(p).hexdigest() for p in plain]},
    }
    manifest = {
        "schemaVersion": 2, "config": put(json.dumps(settings).encode(), "application/vnd.oci.image.config.v1+json"),
        "layers": [put(pack(p), "application/vnd.oci.image.layer.v1.tar") for p in plain],
    }
    entry = put(json.dumps(manifest).encode(), "application/vnd.oci.image.manifest.v1+json")
    entry["annotations"] = {"org.opencontainers.image.ref.name": tag}
    if machine:
        entry["platform"] = {"os": "linux", "architecture": machine}
    index = place / "index.json"
    known = json.loads(index.read_text())["manifests"] if index.exists() else []
    index.write_text(json.dumps({"schemaVersion": 2, "manifests": [*known, entry]}))
    (place / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    return place


def zstd(content: bytes) -> bytes:
    return subprocess.run(["zstd", "-qc"], input=content, capture_output=True, check=True).stdout
