"""What `indigo demo` runs on and with: sentences found on this machine, and its recipe."""
