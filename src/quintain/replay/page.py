"""A replay as one HTML page that needs nothing else. Pure; every word that a program or a policy chose is escaped."""

from __future__ import annotations

from html import escape

from quintain.replay.base import Difference, EpisodeReplay, Measure, StepReplay

_STYLE = """body{font:15px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem;color:#1c1c1c}
pre{background:#f6f6f4;padding:.7rem;overflow:auto;font:12.5px/1.45 ui-monospace,monospace}
.same{color:#2b6a30}.differs{color:#a02020}ins{background:#dff3df;text-decoration:none}
del{background:#f9dcdc;text-decoration:none}h2{font-size:1.05rem;margin-top:1.8rem}small{color:#666}"""


def page(replay: EpisodeReplay) -> str:
    """The page. Control characters become visible, so nothing in it can drive a browser or a terminal."""
    mood = "same" if replay.identical else "differs"
    head = "comes out as recorded" if replay.identical else "does not come out as recorded"
    facts = [f"task {replay.task}", f"attempt {replay.attempt} of {replay.attempts}",
             f"steps {replay.first} to {replay.last}", f"run {replay.times} times",
             f"state: {replay.rebuilt.value} ({'; '.join(replay.told)})"]
    facts += [f"changed since: {change}" for change in replay.changed]
    facts += [f"not compared: {skipped}" for skipped in replay.skipped]
    if replay.house is not None:
        facts.append(f"the house failed: {replay.house}")
    items = "".join(f"<li>{_safe(fact)}</li>" for fact in facts)
    body = "".join(_step(step) for step in replay.steps)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; style-src \'unsafe-inline\'">'
        f"<title>{_safe(replay.episode)}</title><style>{_STYLE}</style></head><body>"
        f"<h1>{_safe(replay.episode)} <span class={mood}>{head}</span></h1><ul>{items}</ul>{body}</body></html>\n"
    )


def _step(step: StepReplay) -> str:
    mood, word = ("same", "identical") if step.identical else ("differs", "differs")
    took = f"<small>{_took(step.recorded)} then, {_took(step.again)} now</small>"
    named = "".join(f"<p><b>{_safe(one.cause.value)}</b> ({_safe(one.blame.value)}): {_safe('; '.join(one.evidence))}"
                    "</p>" for one in step.named)
    return (f"<h2>step {step.step} <span class={mood}>{word}</span> {took}</h2>{named}"
            + "".join(_difference(one) for one in step.differing))


def _difference(one: Difference) -> str:
    kind = "every repetition alike" if one.steady else "changes from repetition to repetition"
    lines = "\n".join(_line(line) for line in one.diff.splitlines())
    return (f"<h3>{_safe(one.part)} <small>{one.sizes[0]} bytes then, {one.sizes[1]} now; {kind}; "
            f"{one.as_recorded} of {one.repeats} as recorded</small></h3><pre>{lines}</pre>")


def _line(line: str) -> str:
    tag = "ins" if line.startswith("+") else "del" if line.startswith("-") else ""
    return f"<{tag}>{_safe(line)}</{tag}>" if tag else _safe(line)


def _took(measure: Measure) -> str:
    wall = "not timed" if measure.wall_seconds is None else f"{measure.wall_seconds:.3f} s"
    memory = "" if measure.peak_memory_bytes is None else f", {measure.peak_memory_bytes / 2**20:.1f} MiB"
    return wall + memory


def _safe(text: str) -> str:
    shown = "".join(c if c.isprintable() or c in "\n\t" else f"\\x{ord(c):02x}" for c in text)
    return escape(shown, quote=True)
