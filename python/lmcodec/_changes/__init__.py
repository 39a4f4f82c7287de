"""Deltas between two versions of tensors in memory."""
