#!/usr/bin/env python3
"""Entry point of the container: `validate ...` is fadiff-validate, everything else fadiff-mapper.

The entry point gives up root for the owner of /data, so that results belong to the caller.
"""

import os
import sys

DATA = "/data"
SITE = "/opt/fadiff-mapper/site"


def become_caller() -> None:
    """Take the user and group that /data belongs to, unless the container was started as somebody else than root."""
    owner = os.stat(DATA)
    if os.getuid() == 0 and owner.st_uid != 0:
        os.setgroups([])
        os.setgid(owner.st_gid)
        os.setuid(owner.st_uid)
    if not os.access(os.environ.get("HOME", "/"), os.W_OK):
        os.environ["HOME"] = "/tmp"
    os.environ.setdefault("MPLCONFIGDIR", "/tmp/matplotlib")


def main() -> int:
    """Run the command of this process and return its exit code."""
    become_caller()
    sys.path.insert(0, SITE)  # not in the environment: programs of the base that are started from here must not see it
    if sys.argv[1:2] == ["validate"]:
        del sys.argv[1]
        from fadiff_validation.__main__ import main as run
    else:
        from fadiff_mapper.__main__ import main as run
    return run()


if __name__ == "__main__":
    sys.exit(main())
