"""Files in stores, which are read by ranges."""
