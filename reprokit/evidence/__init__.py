"""From a log to a verdict: what a trial shows, whether it fits the signature, what all trials together mean."""

from __future__ import annotations

from reprokit.evidence.condense import Condenser
from reprokit.evidence.judgement import judge
from reprokit.evidence.observation import observe

__all__ = ["Condenser", "judge", "observe"]
