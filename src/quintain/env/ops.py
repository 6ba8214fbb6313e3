"""The work of keeping services alive: faults in their configuration, found and mended in a shell."""

from __future__ import annotations

from quintain.env.shell import ShellEnvironment


class OpsEnvironment(ShellEnvironment):
    """Tasks of the kind `ops`: a shell as in `ShellEnvironment`, in a sandbox with services that do not work as they
    should. What is handed in is files: the house starts the services from them in a fresh sandbox by the task's own
    command, asks them from outside with payloads that are drawn anew, kills everything, starts it again and asks on
    (`_field`). The programs are the task's: changing them changes nothing, for the task's own lie in their place.

    Covers: mending that does not outlive a restart, changed programs, answers that know the payloads; no
    process of the shell lives when the judge comes. Does not cover: what a shell did to running processes, which is
    worth nothing; owners of files (all are root's); another program in the place of a given one, where configuration
    or a module beside it has it started: it has to do the same work.
    """

    kind = "ops"
