"""mini-swe-agent in a sandbox of ours, here with its deterministic model. Needs `pip install mini-swe-agent`."""

from __future__ import annotations

from minisweagent.agents.default import DefaultAgent
from minisweagent.models.test_models import DeterministicModel, make_output

from quintain.bridges.mini_swe import QuintainEnvironment

COMMANDS = (
    "printf 'def add(a, b):\\n    return a + b\\n' > add.py",
    "python3 -c 'from add import add; print(add(20, 22))'",
    "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; cat add.py",
)


def main() -> None:
    environment = QuintainEnvironment(timeout=10)
    try:
        model = DeterministicModel(outputs=[make_output("", [{"command": command}]) for command in COMMANDS])
        agent = DefaultAgent(
            model, environment, system_template="You work on {{system}}.", instance_template="{{task}}")
        ended = agent.run("Write add.py.")
        print(ended["exit_status"])
        print(ended["submission"])
    finally:
        environment.close()


if __name__ == "__main__":
    main()
