"""A sandbox by hand: commands, files, a shell that remembers, and a network that ends at a list. Needs no network."""

from __future__ import annotations

from quintain.sdk import CommandError, SyncSandbox
from quintain.types import Network


def main() -> None:
    with SyncSandbox.create(network=Network.ALLOW_LIST, allow=("pypi.org:443",)) as sandbox:
        sandbox.files.write("hello.py", "print(sum(map(int, open(0).read().split())))")
        result = sandbox.commands.run("python3 hello.py", stdin="20 22", timeout=10)
        print(f"answer {result.stdout.strip()}, exit code {result.exit_code}, {result.cpu_seconds:.3f} s of CPU")

        late = sandbox.commands.run("echo started; (setsid sleep 300 &); sleep 300", timeout=0.5)
        print(f"timed out: {late.timed_out}, said {late.stdout.strip()!r}, left behind: {len(sandbox.processes())}")

        shell = sandbox.sessions.create()
        shell.run("mkdir -p src; cd src; greet() { echo hello from $PWD; }")
        print(shell.run("greet; exit 7").stdout.strip(), "| then", shell.run("echo $?").stdout.strip())

        refused = sandbox.commands.run(["curl", "-s", "-m", "5", "http://192.0.2.1/"])
        print(f"refused: {refused.denials}")

        try:
            sandbox.commands.run("ls /nowhere", check=True)
        except CommandError as error:
            print(f"checked: {error}")


if __name__ == "__main__":
    main()
