"""Tensors that a GPU decodes."""
