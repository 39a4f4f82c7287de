"""Runs: directories that keep the snapshots of a training run; the callback of a Trainer."""
