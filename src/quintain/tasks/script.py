"""Tests that are a program of their own and write a reward to a file, in the manner of Harbor's `tests/test.sh`."""

from __future__ import annotations

from enum import StrEnum

import msgspec

#: The kinds of work that are done in a shell.
IN_A_SHELL = frozenset({"shell", "ops"})
#: Where a script leaves its reward, the first that is there counts: Harbor's two places.
REWARD_FILES = ("/logs/verifier/reward.json", "/logs/verifier/reward.txt")


class Blend(StrEnum):
    """How the rewards of several steps become one: the mean of each, or those of the last."""

    MEAN = "mean"
    FINAL = "final"


class Package(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a directory held besides the tests, as it was: path → bytes, which of *all* its files are executable, and
    its folders without a file. With it a format writes the same directory again."""

    format: str
    files: dict[str, bytes]
    executable: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()

    def below(self, folder: str) -> dict[str, bytes]:
        """The files in a folder, relative to it."""
        prefix = f"{folder}/"
        return {path[len(prefix):]: content for path, content in self.files.items() if path.startswith(prefix)}


class ScriptStep(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One step of a task that is asked in several. `files` are laid over the suite's own, `setup` is put into the work
    folder before the step begins (its `setup.sh` is run), `least` are the rewards below which the later steps are not
    asked, `artifacts` what crosses besides the suite's."""

    name: str
    instructions: str
    files: dict[str, bytes] = {}
    argv: tuple[str, ...] = ("/tests/test.sh",)
    setup: dict[str, bytes] = {}
    env: dict[str, str] = {}
    least: dict[str, float] = {}
    artifacts: tuple[str, ...] = ()
    wall_seconds: float = 600.0


class ScriptSuite(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="suite", tag="script",
):
    """Trusted tests as a program. The answer is a frozen tree whose paths are relative to `root` ('/': the whole file
    system). `artifacts` are the absolute paths of it that cross into a fresh sandbox ('/': all but what the tests and
    the system's own programs consist of); there `files` are laid below `folder` and `argv` is run in `workdir`.

    The script must write one of `reward_files`: a JSON object of finite numbers, or one number (then it is called
    'reward'). `required` are the rewards that must each reach 1; others are kept as evidence. `collect` are shell
    commands run where the answer was made, before it is frozen. `image` is the verifier's own ('': the task's). `env`
    is the script's; `answer_env` that of everything that runs where the answer is made, `oracle_env` the oracle's; in
    them `${NAME}` and `${NAME:-default}` stand for what whoever runs the task gives.

    Level: L2 where artifacts are named, L1 where all of the answer's files cross; never more, for a script may run the
    answer's code as the user that writes the reward.
    """

    files: dict[str, bytes]
    argv: tuple[str, ...] = ("/tests/test.sh",)
    folder: str = "/tests"
    root: str = "/"
    workdir: str = "/work"
    artifacts: tuple[str, ...] = ("/work",)
    reward_files: tuple[str, ...] = REWARD_FILES
    required: tuple[str, ...] = ("reward",)
    env: dict[str, str] = {}
    answer_env: dict[str, str] = {}
    oracle_env: dict[str, str] = {}
    image: str = ""
    wall_seconds: float = 600.0
    collect: tuple[str, ...] = ()
    steps: tuple[ScriptStep, ...] = ()
    blend: Blend = Blend.MEAN
    package: Package | None = None

    @property
    def level(self) -> str:
        """The most that a verdict by this suite may claim."""
        return "L1" if "/" in self.artifacts else "L2"
