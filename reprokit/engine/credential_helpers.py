"""The logins of Docker's client for registries, and the programs that keep them (``docker-credential-NAME``).

The SDK waits for these for ever; one that asks for a password where no one sees that never answers.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from typing import Any

from docker.auth import load_config
from docker.credentials import Store
from docker.credentials.constants import PROGRAM_PREFIX
from docker.credentials.errors import StoreError, process_store_error
from docker.errors import DockerException

from reprokit.case.trust import ALLOWANCES, Trust
from reprokit.core.errors import EngineError

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


def registry_login(registry: str, trust: Trust) -> Mapping[str, Any]:
    """What 'docker login' left for a registry; {} for nothing, and where the trust gives none. Raises EngineError."""
    if not ALLOWANCES[trust].credentials:
        return {}
    try:
        logins: Any = load_config(credstore_env=None)
        for program in {logins.creds_store, *logins.cred_helpers.values()} - {None}:
            logins._stores[program] = LimitedStore(program)
        return logins.resolve_authconfig(registry) or {}
    except (DockerException, OSError, ValueError, TypeError, AttributeError) as error:
        raise EngineError(
            f"no credential for {registry} comes from config.json of Docker's client (credHelpers, credsStore, auths), "
            f"see 'docker login {registry}': {error}"
        ) from error
