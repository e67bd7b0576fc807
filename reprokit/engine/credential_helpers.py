"""Programs that keep the logins of Docker's client (``docker-credential-NAME``), each with a time limit.

The SDK waits for them for ever; one that asks for a password where no one sees that never answers.
"""

from __future__ import annotations

import shutil
import subprocess
from typing import Any

from docker.credentials import Store
from docker.credentials.constants import PROGRAM_PREFIX
from docker.credentials.errors import StoreError, process_store_error

SECONDS = 60.0
"""How long a helper may take: it may ask the user."""


class LimitedStore(Store):
    """One helper."""

    def __init__(self, program: str) -> None:
        self.program = PROGRAM_PREFIX + program
        self.exe = shutil.which(self.program)
        self.environment = None

    def _execute(self, subcmd: str, data_input: bytes | None) -> bytes:
        if self.exe is None:
            raise StoreError(f"{self.program} is not installed or not in PATH")
        try:
            done = subprocess.run(
                [self.exe, subcmd], input=data_input or b"", stdout=subprocess.PIPE, timeout=SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            raise StoreError(
                f"{self.program} {subcmd} did not answer within {SECONDS:.0f} s: it may be waiting for a password, "
                f"try `echo REGISTRY | {self.program} {subcmd}` in a terminal"
            ) from None
        except OSError as error:
            raise StoreError(f"{self.program} cannot be started: {error.strerror}") from error
        if done.returncode:
            failed = subprocess.CalledProcessError(done.returncode, self.exe, done.stdout)
            raise process_store_error(failed, self.program)
        return done.stdout


def limit(logins: Any) -> Any:
    """The ``docker.auth.AuthConfig`` whose helpers have a time limit from now on."""
    for program in {logins.creds_store, *logins.cred_helpers.values()} - {None}:
        logins._stores[program] = LimitedStore(program)
    return logins
