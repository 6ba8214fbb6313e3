"""What was configured in a shell, judged by what its services do: started afresh, asked from outside, started again."""

from __future__ import annotations

import secrets

from quintain.env._field import plan_of, probed
from quintain.env.services import verdict_of
from quintain.grade import Frozen
from quintain.sandbox import Backend, Interactive
from quintain.tasks import Item, ScriptSuite
from quintain.types import TaskError, Verdict, content_digest

KIND = "ops"


async def judge_ops(backend: Backend, item: Item, tree: Frozen, *, restore: str) -> Verdict:
    """The verdict on the files that were left. `restore` is the file of the tree that says what is no regular file.
    Raises TaskError, HouseError."""
    suite = item.exam.hidden
    if not isinstance(suite, ScriptSuite) or "plan.json" not in suite.files:
        raise TaskError(f"task {item.task.id}: expected a plan of services for kind = {KIND!r}")
    plan_of(suite.files)

    async def lay(box: Interactive) -> None:
        plain = {f"/{path}": content for path, content in tree.files.items() if path not in tree.executable}
        await box.files.write_many(plain)
        for path in sorted(tree.executable):
            await box.files.write(f"/{path}", tree.files[path], mode=0o755)
        if tree.removed:
            await box.run(["rm", "-rf", "--", *(f"/{path}" for path in tree.removed[:500])], cwd="/")
        if restore in tree.files:
            await box.run(["sh", f"/{restore}"], cwd="/")
        await box.files.make_dir(suite.workdir)

    limits = item.task.limits
    found = await probed(backend, suite.files, lay, image=item.task.image,
                         limits=limits.command.within(limits.turn).within(limits.episode), seed=secrets.randbits(62))
    return verdict_of(found, suite.required, content_digest(suite))
