"""Loaders of servers of models."""
