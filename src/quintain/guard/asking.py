"""What a function of an untrusted program returns for many inputs, one sandbox for all of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import msgspec

from quintain.sandbox import Backend
from quintain.types import Limits

#: One call may take so much CPU time, and five times that by the clock, before the next one is asked.
CALL_SECONDS = 2.0

_PROGRAM = '''
import ast, importlib.util, json, signal, sys
path, name, calls, seconds = json.loads(sys.stdin.read())
class Late(BaseException):
    pass
def late(*_):
    raise Late()
def watch(seconds):
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, 5 * seconds)
def say(number, **found):
    sys.__stdout__.write(json.dumps([number, found]) + "\\n")
    sys.__stdout__.flush()
def main():
    sys.path.insert(0, ".")
    spec = importlib.util.spec_from_file_location(path[:-3].replace("/", "."), path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    function = getattr(module, name)
    signal.signal(signal.SIGALRM, late)
    signal.signal(signal.SIGPROF, late)
    for number, text in enumerate(calls):
        try:
            watch(seconds)
            found = function(*ast.literal_eval(text))
            shown = repr(found)
            watch(0)
            ast.literal_eval(shown)
        except Late:
            say(number, raised="TimeoutError")
        except (ValueError, SyntaxError) as error:
            watch(0)
            known = error.__traceback__.tb_next is not None and error.__traceback__.tb_next.tb_frame.f_code.co_name
            say(number, **({} if known == "literal_eval" else {"raised": type(error).__name__}))
        except BaseException as error:
            watch(0)
            say(number, raised=type(error).__name__)
        else:
            say(number, value=shown)
main()
'''


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """What one call came to: the source of a literal, or the name of what was raised; neither where the value is no
    literal or the program did not get so far."""

    value: str | None = None
    raised: str | None = None


async def answers_to(
    backend: Backend, files: Mapping[str, bytes], calls: Sequence[str], *, path: str, name: str, limits: Limits,
    seed: int, image: str = "host", call_seconds: float = CALL_SECONDS,
) -> list[Answered]:
    """Ask the function `name` of `path` for each of `calls` (sources of tuples of literals), in order.

    What the program says of itself is believed here, since it decides nothing alone: an author's answer is asked twice,
    and another program's answer is only compared. Raises HouseError as the backend does.
    """
    found = [Answered() for _ in calls]
    async with backend.open(image, limits=limits) as (sandbox,):
        await sandbox.files.write_many(files)
        outcome = await sandbox.run(
            ["python3", "-s", "-P", "-S", "-B", "-c", _PROGRAM],
            stdin=json.dumps([path, name, list(calls), call_seconds]).encode(),
            env={"PYTHONHASHSEED": str(seed % 2**32)},
        )
    for line in outcome.stdout.splitlines():
        try:
            number, told = msgspec.json.decode(line, type=tuple[int, Answered])
        except msgspec.MsgspecError:
            continue  # the program printed something of its own
        if 0 <= number < len(found):
            found[number] = told
    return found
