"""Libraries that look for safetensors files themselves, and find archives in their place."""
