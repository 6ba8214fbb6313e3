"""Set up torch for the CPU in this interpreter's environment, from whatever pip reaches: python .ci/torch_cpu.py

Where pip offers a build for the CPU (macOS, ARM, an index or a folder that has one) that is what is installed. PyPI's
build for Linux on x86-64 is made for CUDA, whose libraries are 2.4 GB more: of them only the two small ones are
installed that it starts with, and the others are stood in for by empty ones that gcc makes here, which nothing calls on
a CPU. That is a download of 0.54 GB. Full packages of those libraries, installed later, take their place.
"""

from __future__ import annotations

import importlib.util
import json
import platform
import re
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

TORCH = "torch==2.13.0"
PURE = (
    "filelock", "typing-extensions>=4.10", "setuptools>=77", "sympy>=1.13.3", "networkx>=2.5.1", "jinja2", "fsspec")
SMALL = ("nvidia-cuda-runtime==13.0.*", "nvidia-cuda-cupti==13.0.*")
#: The starts of the names of functions that are stood in for.
STOOD_IN = ("cublas", "cudnn", "cufft", "cuFile", "curand", "cusolver", "cusparse", "nccl", "nvrtc", "nvshmem")
WORKS = "import torch; assert (torch.ones(2, 2) @ torch.ones(2, 2)).sum() == 8; print('torch', torch.__version__)"


def pip(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "pip", *words, "--disable-pip-version-check", "--quiet"], text=True,
        stdout=subprocess.PIPE)
    if done.returncode:
        sys.exit(f"torch could not be installed (pip {' '.join(words[:2])} failed): "
                 "`make demo` goes without its last part")
    return done.stdout


def offers_cpu() -> bool:
    """Whether what pip would install is a build for the CPU."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        return True
    report = json.loads(pip("install", "--dry-run", "--ignore-installed", "--no-deps", "--report", "-", TORCH))
    return "+cpu" in report["install"][0]["metadata"]["version"]


def needed(libraries: Path) -> tuple[set[str], set[str], dict[str, str]]:
    """Of CUDA, the libraries that torch's own ask for, the functions, and the versions by library."""
    names, functions, versions = set[str](), set[str](), dict[str, str]()
    for library in libraries.glob("*.so"):
        words = ["readelf", "-W", "-d", "--dyn-syms", "-V", str(library)]
        said = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout
        names |= set(re.findall(r"Shared library: \[(lib(?:cu|nccl|nvrtc|nvshmem)[^\]]*)\]", said))
        functions |= set(re.findall(rf" UND ((?:{'|'.join(STOOD_IN)})\w*)", said))
        for name, version in re.findall(r"File: (lib\S+)\s+Cnt: 1\n.*?Name: (\S+)", said):
            versions[name] = version
    return names, functions, versions


def stand_in(site: Path) -> None:
    names, functions, versions = needed(site / "torch" / "lib")
    there = {path.name for path in site.glob("nvidia/**/lib*.so*")}
    place = site / "nvidia" / "cu13" / "lib"
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "none.c"
        source.write_text("".join(f"void {name}(void) {{ __builtin_trap(); }}\n" for name in sorted(functions)))
        for name in sorted(names - there):
            words = ["gcc", "-shared", "-w", "-o", str(place / name), f"-Wl,-soname,{name}", str(source)]
            if name in versions:
                table = Path(folder) / "versions"
                table.write_text(f"{versions[name]} {{ global: *; }};\n")
                words.append(f"-Wl,--version-script={table}")
            subprocess.run(words, check=True)


def main() -> None:
    if importlib.util.find_spec("torch") is None:
        if offers_cpu():
            pip("install", TORCH)
        else:
            print("torch for the CPU from PyPI: 0.54 GB", file=sys.stderr)
            pip("install", *PURE)
            pip("install", "--no-deps", TORCH, *SMALL)
            stand_in(Path(sysconfig.get_path("platlib")))
        if subprocess.run([sys.executable, "-c", WORKS], check=False).returncode:
            sys.exit("torch is installed and does not start: `pip install --force-reinstall torch` gets all of it")


main()
