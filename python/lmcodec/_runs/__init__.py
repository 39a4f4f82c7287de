"""Runs: directories that keep the snapshots of a training; the callback of a Trainer."""
