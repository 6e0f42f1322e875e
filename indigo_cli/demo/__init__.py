"""What `indigo demo` runs on and with: star graphs, sentences found on this machine, and the recipes."""
