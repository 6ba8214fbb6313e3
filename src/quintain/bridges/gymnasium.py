"""Our tasks as a Gymnasium environment: an action is a reply, an observation is what is said of it. Written against
gymnasium 1.3 (https://gymnasium.farama.org/api/env/).

    with Stage(opened) as stage:
        env = gymnasium_environment(stage, items)
        seen, info = env.reset(seed=0)                   # options={"task": "add"} asks for one
        seen, reward, terminated, truncated, info = env.step(reply)
"""

from __future__ import annotations

import string
from collections.abc import Mapping
from typing import Any, ClassVar

from quintain.tasks import Item
from quintain.train import Driven, Stage, worth
from quintain.types import Episode

#: The longest text that belongs to the spaces, in characters.
MOST_CHARACTERS = 16 * 1024 * 1024


def text_space(most_characters: int = MOST_CHARACTERS) -> Any:
    """Any text: `spaces.Text` knows only texts of listed characters."""
    from gymnasium import spaces

    class AnyText(spaces.Space[str]):
        def __init__(self) -> None:
            super().__init__(None, str)

        @property
        def is_np_flattenable(self) -> bool:
            return False

        def contains(self, x: Any) -> bool:
            return isinstance(x, str) and len(x) <= most_characters

        def sample(self, mask: Any = None, probability: Any = None) -> str:
            """A few random characters; it has no weights to draw them by."""
            if mask is not None or probability is not None:
                raise ValueError("expected no mask and no probability: texts have none")
            letters = string.ascii_letters + string.digits + " \n"
            return "".join(letters[at] for at in self.np_random.integers(len(letters), size=32))

        def __eq__(self, other: object) -> bool:
            return isinstance(other, AnyText)

        def __hash__(self) -> int:
            return hash(AnyText)

        def __repr__(self) -> str:
            return f"AnyText({most_characters})"

    return AnyText()


def gymnasium_environment(stage: Stage, items: Mapping[str, Item], *, lost: float | None = None) -> Any:
    """The environment. An observation is the conversation's newest part as text, the whole reward comes with the last
    step, and `truncated` means that a limit cut the episode off.

    `info` has `task`; at the end `solved`, `stop`, `scores` and `house` too. Without `options={"task": …}` a reset
    draws a task from the environment's own generator, so the same seed asks for the same. Gymnasium has no word for
    "no reward": an episode that the house broke raises HouseError, or is worth `lost` where that is given.
    Raises ValueError without items, and at a reset for a task that is not there.
    """
    import gymnasium

    if not items:
        raise ValueError("expected at least one task, found none")
    order = sorted(items)

    class QuintainEnv(gymnasium.Env[str, str]):
        metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi"]}

        def __init__(self, render_mode: str | None = None) -> None:
            if render_mode not in (None, "ansi"):
                raise ValueError(f"expected a render mode of None or 'ansi', found {render_mode!r}")
            self.render_mode = render_mode
            self.observation_space = text_space()
            self.action_space = text_space()
            self._driven: Driven | None = None
            self._seen = ""

        def reset(
            self, *, seed: int | None = None, options: dict[str, Any] | None = None,
        ) -> tuple[str, dict[str, Any]]:
            super().reset(seed=seed)
            self.close()
            asked = (options or {}).get("task")
            if asked is None:
                asked = order[int(self.np_random.integers(len(order)))]
            if asked not in items:
                raise ValueError(f"expected options with a task that is known, found {asked!r}")
            self._driven = Driven(stage, items[asked])
            self._seen = "\n\n".join(message.text for message in self._driven.opening())
            return self._seen, {"task": asked}

        def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
            if self._driven is None or self._driven.over:
                raise gymnasium.error.ResetNeeded("expected reset() first: no episode is open")
            told = self._driven.said(action)
            info: dict[str, Any] = {"task": self._driven.item.task.id}
            if told is not None:
                self._seen = told
                return told, 0.0, False, False, info
            episode = self._driven.finish()
            self._seen = ""
            truncated = episode.stop is not None and episode.stop.truncated
            return "", worth(episode, lost), not truncated, truncated, {**info, **ending(episode)}

        def render(self) -> str | None:
            return self._seen if self.render_mode == "ansi" else None

        def close(self) -> None:
            """An episode that is still open is given up and judged; nobody waits for it."""
            if self._driven is not None:
                self._driven.give_up()
                self._driven = None

    return QuintainEnv


def ending(episode: Episode) -> dict[str, Any]:
    """What is told of an episode that is over."""
    reward, broken = episode.reward, episode.broken
    return {
        "solved": episode.solved, "stop": episode.stop.value if episode.stop is not None else None,
        "scores": {score.name: score.value for score in reward.scores} if reward is not None else {},
        "house": str(broken) if broken is not None else None,
    }
