"""Files: open ones and their tensors, those that are written, whole files and directories; options of calls on them."""
