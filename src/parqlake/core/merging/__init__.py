"""Merging: what the strategies mean, which calls are refused, and the values that planner and engines share."""

from parqlake.core.merging.model import (
    AddedFile,
    DuplicateKeysWarning,
    MergeCounts,
    MergeOutcome,
    MergeRule,
    MergeStrategy,
    MergeTarget,
    TargetFile,
)
from parqlake.core.merging.validation import check_merge_options, check_merge_schemas, merge_rule

__all__ = [
    "AddedFile",
    "DuplicateKeysWarning",
    "MergeCounts",
    "MergeOutcome",
    "MergeRule",
    "MergeStrategy",
    "MergeTarget",
    "TargetFile",
    "check_merge_options",
    "check_merge_schemas",
    "merge_rule",
]
